"""Children: runs that a run starts and waits for. The protocol, for both stores.

A child is a run like any other. A row of ``children`` links it to the step of its parent that has
started it, and to its place among those that the step has started: a step of kind ``child`` has
one, one of kind ``children`` (`ctx.map`) as many as it was given inputs. The row's state is

- ``held``: more than `parallel` of its siblings would be live; it has a timer that is never due;
- ``live``: it waits in a queue, runs, sleeps, or is to be tried again;
- ``ended``: its record has a status, or it was deleted.

What is promised:

- Children are started under the token of their parent's lease, in the transaction that records the
  step. A call that is repeated, or comes from a replay, starts none a second time: a place is taken
  once.
- Whoever ends a child (its worker, a sweep, an operator, a deletion) marks its row as ended and
  leaves a *wake* for its parent, in the same transaction: triggers on ``runs`` do it, so no way to
  end can forget. It touches neither the parent's position nor any row that siblings share, so
  children never wait for each other, nor for their parent.
- Wakes are looked at by the sweep (``tend``), which workers do at once if a child of theirs ends.
  It moves a parent that waits in a step whose children have all ended, and lets held children go.
- No wake-up is lost. Whoever parks a run has its lease locked and looks at the children in a
  later statement. ``tend`` looks after the child's end was committed. If it finds the parent's
  position locked, the look of whoever has it may have been too early: the wake is kept for the next
  look.
- A parent that is canceled cancels its children, and they theirs; it ends first. One that succeeds
  or fails leaves those that it does not wait for alone. A run that a handler merely enqueued is no
  child: it knows `enqueued_by`, and no cancel reaches it.

What happens when it dies here:

- before the children are committed: the replay starts them;
- in the middle of many: each call starts some hundreds; the replay starts the places that are free;
- between a child's end and the look at its wake: the wake is in the store, and any sweep finds it;
- between the end of the last child and the record of the step: the replay looks again.

A step that has failed because of its children is tried anew if an operator reopens the parent. The
children that had succeeded stay; the others are started again, as new runs. The same is true of
those that were canceled with their parent, if the step started many and was still waiting.
"""

from typing import Any

import msgspec

from windlass.domain.report import ErrorInfo
from windlass.domain.run import NULL, RunRef
from windlass.domain.states import Failure, Status

PAGE = 500
"""How many children one call starts, or reads, at most."""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What a call that starts children brought."""

    started: int = 0  # how many the step has started so far
    ready: tuple[RunRef, ...] = ()  # new ones that may be claimed now
    lost: bool = False  # the lease is another's: nothing was done


class ChildRow(msgspec.Struct, frozen=True, kw_only=True):
    """A child as its parent sees it. ``status`` is None while it lives."""

    path: str
    n: int
    id: str
    state: str
    status: Status | None = None
    failure: Failure | None = None
    result: msgspec.Raw = NULL
    error: ErrorInfo | None = None
    reason: str | None = None


class ChildEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Why a step has failed whose child did not succeed: the value that is recorded of it."""

    run: str
    status: str
    failure: str | None = None
    reason: str | None = None


def failure_of(end: ChildEnd) -> str:
    """Why a run fails whose handler does not catch the failure of a child."""
    known: Any = Failure.__members__.values()
    return end.failure if end.failure in {str(each) for each in known} else Failure.FATAL
