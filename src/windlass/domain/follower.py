"""Followers: runs that start when other runs have ended. The protocol, for both stores.

A follower is a run like any other, enqueued with ``after``. Until it is decided it has a timer
that is never due, and is ``scheduled``, as a child is that its siblings hold back: it has not
started, so an expiry still counts, and a reschedule makes sense. ``waiting`` is for runs that have
a place in their handler to come back to.

A row of ``follows`` names each run that it comes after. Its ``outcome`` is null until that run has
ended, and then how: succeeded, failed, canceled, or deleted. The first end counts. A retry of the
awaited run changes nothing any more, so a follower is decided once.

A follower is decided by its rows alone:

- one has not succeeded, and the follower says ``cancel`` (the default): it is canceled, at once,
  and so are, in turn, those that come after it;
- all have ended: it goes to its queue. One that takes a result (`app.chain`) has it put into its
  input in the same transaction: whoever starts it finds an ordinary run.

What is promised:

- Whoever enqueues a follower locks no other run: in a caller's transaction that would keep the
  awaited run from ending until the caller commits. It reads that the runs are there, holds the
  follower, and leaves a *wake* for it.
- The sweep (``tend``) looks at that wake: it marks the records of the runs that the follower waits
  for (a bit of ``links``). From then on triggers on ``runs`` write the outcome and leave a wake
  whenever one ends or is deleted, so no way to end can forget. Runs that nobody waits for have no
  mark, and their ends cost nothing more.
- No wake-up is lost. The sweep locks the awaited record and marks it in one statement, and reads
  whether it has ended in a later one. Whoever ends it before that is seen; whoever ends it
  afterwards finds the mark. If the record is locked by somebody who may just end it, the wake is
  kept for the next look.
- A follower names runs that are there, or come before it in the same batch: there are no circles.

What happens when it dies here:

- before the enqueue is committed: there is no follower;
- before the mark: the follower's own wake is there, and any sweep finds it;
- between the end of an awaited run and the look: the wake was left by the transaction that ended
  it.

What operators do: a cancel ends a follower as any run. A paused one is not decided; when it is
resumed, it is looked at. A restart or a reschedule lets it go without waiting, and so does the
retry of one that was canceled. If it takes a result that is not there, these are refused: first
retry the run that it comes after, or give the argument with the input.
"""

from typing import Literal

import msgspec

from windlass.domain.run import NewRun
from windlass.domain.states import Status
from windlass.errors import BadArguments, BadOption

MOST_AWAITED = 100
"""How many runs a run may come after."""

AFTER_FAILURE = ("cancel", "run")


class FollowRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run that another comes after."""

    id: str  # the follower
    n: int
    awaited: str
    mode: Literal["cancel", "run"]
    argument: str | None = None  # the follower's argument that takes its result
    outcome: str | None = None


def check_followers(runs: list[NewRun]) -> None:
    """Refuse what a follower cannot have. Raises BadArguments."""
    for run in runs:
        if run.delay is not None or run.at is not None:
            raise BadArguments(run.job, "was enqueued with after and a time: give one", "after")
        if len(run.after) > MOST_AWAITED:
            raise BadArguments(
                run.job, f"was enqueued after more than {MOST_AWAITED} runs", "after"
            )
        if run.takes is not None and len(run.after) != 1:
            raise BadArguments(run.job, "takes a result and comes after several runs", "takes")


def check_after_failure(value: object) -> str:
    """What becomes of a follower if a run has not succeeded. Raises BadOption."""
    if value not in AFTER_FAILURE:
        raise BadOption("after_failure", f"{value!r} is neither 'cancel' nor 'run'")
    return str(value)


def reason_of(outcome: str, awaited: str) -> str:
    """Why a follower is canceled."""
    how = "was deleted" if outcome == "deleted" else f"has {outcome}"
    how = "was canceled" if outcome == Status.CANCELED else how
    return f"run {awaited}, which it comes after, {how}"


def with_result(input: msgspec.Raw, argument: str, result: msgspec.Raw) -> msgspec.Raw | None:
    """The input with a result in it; None if it has the argument already."""
    members = msgspec.json.decode(input, type=dict[str, msgspec.Raw])
    if argument in members:
        return None
    return msgspec.Raw(msgspec.json.encode({argument: result, **members}))
