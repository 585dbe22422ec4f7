"""The runs that a run comes after, as callers give them."""

from collections.abc import Iterable
from typing import Any, Protocol

from windlass.client.ids import check_id
from windlass.domain.follower import MOST_AWAITED
from windlass.errors import BadOption


class Identified(Protocol):
    """A run, as a handle of it."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


def check_after(value: Any) -> tuple[str, ...]:
    """The ids of one run, or of several. Raises BadOption, or RunNotFound for what is no id."""
    one = isinstance(value, str) or hasattr(value, "id")
    given = [value] if one else list(value) if isinstance(value, Iterable) else None
    if given is None:
        raise BadOption("after", f"{value!r} is neither a run nor a list of runs")
    found = dict.fromkeys(_id_of(each) for each in given)
    if len(found) > MOST_AWAITED:
        why = f"{len(found):,} runs are too many, at most {MOST_AWAITED}; ctx.map waits for more"
        raise BadOption("after", why)
    return tuple(found)


def _id_of(value: Any) -> str:
    found = getattr(value, "id", value)
    if not isinstance(found, str):
        raise BadOption("after", f"{value!r} is neither a run nor the id of one")
    return check_id(found)
