"""How long a cancel or a pause of a running run took: asked, heard by its worker, done.

Nothing is written for this but one number: the end of an attempt that had heard of a request says
for how many seconds it had, in the data of its event. The rest is in the events anyway.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from windlass.domain.event import EventType
from windlass.domain.run import Event
from windlass.domain.states import Intent

_ASKS = {EventType.CANCEL_REQUESTED: Intent.CANCEL, EventType.PAUSE_REQUESTED: Intent.PAUSE}
# What ends an attempt; a pause that is taken back is over, too.
_DONE = frozenset(
    {
        *(EventType.SUCCEEDED, EventType.FAILED, EventType.CANCELED, EventType.RETRYING),
        *(EventType.SNOOZED, EventType.SLEEPING, EventType.WAITING, EventType.CONTINUED),
        *(EventType.INTERRUPTED, EventType.CRASHED, EventType.RESUMED),
    }
)


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A cancel or a pause that was asked of a run while it was running."""

    kind: str
    """``cancel`` or ``pause``."""
    asked_at: datetime
    reason: str | None = None
    heard_at: datetime | None = None
    """When its worker heard of it; None if it has not, or the handler had ended by then."""
    done_at: datetime | None = None
    """When the attempt had ended, or the request was taken back; None while it goes on."""
    became: EventType | None = None
    """What became of the run: ``run.canceled``, ``run.paused``, or how else the attempt ended."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown


def stop_requests(events: Iterable[Event]) -> Sequence[StopRequest]:
    """Those that are in the history of a run, in order."""
    found: list[StopRequest] = []
    open_from = 0  # those before are done
    done = 0  # the number of the event that has just ended some
    for event in events:
        kind, data = _ASKS.get(event.type), event.data or {}
        if kind is not None:
            found.append(StopRequest(kind=kind.value, asked_at=event.at, reason=data.get("reason")))
        elif event.type in _DONE:
            heard = data.get("heard")
            for n in range(open_from, len(found)):
                found[n] = msgspec.structs.replace(
                    found[n], done_at=event.at, became=event.type,
                    heard_at=None if heard is None else _before(event.at, heard, found[n]),
                )  # fmt: skip
            done = event.seq if open_from < len(found) else 0
            open_from = len(found)
        elif event.type is EventType.PAUSED and found and event.seq == done + 1:
            # The attempt has ended, and its run is put aside in the same transaction.
            found[-1] = msgspec.structs.replace(found[-1], done_at=event.at, became=event.type)
    return found


def _before(done: datetime, heard: float, request: StopRequest) -> datetime:
    """Two clocks were read for this: it was not heard before it was asked."""
    return max(request.asked_at, done - timedelta(seconds=heard))
