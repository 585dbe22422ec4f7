"""What the functions in the database raise: `SQLSTATES[sqlstate](*json_array_of_the_detail)`."""

from collections.abc import Mapping
from types import MappingProxyType

from windlass.errors import (
    BadArguments,
    BadPayload,
    EventsDeleted,
    IllegalTransition,
    InputInUse,
    KeyConflict,
    KeyTaken,
    LeaseLost,
    PayloadTooLarge,
    RunExpires,
    RunNotFound,
    StepNotRecorded,
    UnknownJob,
    WindlassError,
)

SQLSTATES: Mapping[str, type[WindlassError]] = MappingProxyType(
    {
        "WL001": RunNotFound,
        "WL002": IllegalTransition,
        "WL003": KeyConflict,
        "WL004": RunExpires,
        "WL005": BadArguments,
        "WL006": UnknownJob,
        "WL007": PayloadTooLarge,
        "WL010": BadPayload,
        "WL011": KeyTaken,
        "WL012": InputInUse,
        "WL013": LeaseLost,
        "WL014": StepNotRecorded,
        "WL020": EventsDeleted,
    }
)
"""What each private SQLSTATE of the PostgreSQL functions means."""
