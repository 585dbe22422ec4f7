"""What an operator changes about a run that waits, and how its history tells of it."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

MOST_TOLD = 2_000
"""Bytes of JSON, of the old and the new value together, that an event repeats."""


class Changes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be another about a run; what is unset stays, None takes it away.

    The lengths, in seconds, begin when the store changes the run. Give a length or an instant.
    """

    input: msgspec.Raw | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    timeout: float | UnsetType | None = UNSET
    expires_in: float | UnsetType = UNSET
    expires_at: datetime | UnsetType | None = UNSET
    deadline_in: float | UnsetType = UNSET
    deadline_at: datetime | UnsetType | None = UNSET


def difference(old: object, new: object) -> dict[str, Any] | None:
    """What an event says of one change; None: there is no difference."""
    before, after = (msgspec.json.encode(value) for value in (old, new))
    if before == after:
        return None
    if len(before) + len(after) > MOST_TOLD:
        return {"from_bytes": len(before), "to_bytes": len(after)}
    return {"from": old, "to": new}
