"""One attempt of one job, by hand: for tests of what a handler does.

The arguments are checked and written as JSON when it is enqueued, and read back when it starts; the
result likewise. The run is real, under a lease, so that everything works that a handler may do with
its context; afterwards it has ended, whatever came of the attempt.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from windlass import codec
from windlass.app import Windlass
from windlass.client import Using
from windlass.domain.outcome import Cancel, ContinueAs, Outcome, Snooze
from windlass.domain.run import Claimed, Event, Finish, RunRecord, RunRef
from windlass.domain.states import Failure, Status
from windlass.engine.holdings import Stop
from windlass.errors import RunFailed, UsageError
from windlass.job import Job
from windlass.testing.clock import VirtualClock
from windlass.testing.faces import Procedure, aperform, perform_anywhere
from windlass.testing.places import isolated
from windlass.testing.worker import LoneWorker

BY_HAND = "windlass.testing:run_job"
"""The tag of the runs made here."""

_EVENTS = 10  # more than one attempt leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the handler finds in its context."""

    attempt: int = 1
    slot: datetime | None = None
    canceled: bool = False
    stopping: bool = False


def given(
    *,
    attempt: int = 1,
    slot: datetime | None = None,
    canceled: bool = False,
    stopping: bool = False,
) -> Given:
    """Say what the handler finds in its context: `run_job(job, ctx=given(attempt=3))`."""
    if attempt < 1:
        raise UsageError("Attempts are counted from 1.")
    return Given(attempt=attempt, slot=slot, canceled=canceled, stopping=stopping)


def run_job(job: Job[Any, Any, Any], /, *args: Any, ctx: Given | None = None, **kwargs: Any) -> Any:
    """Run a job's handler once with these arguments; return its result as plain JSON.

    What it raises is raised. `Snooze`, `Cancel` and `ContinueAs`, with its arguments by name, are
    returned; after `Fail`, RunFailed is raised.
    An application that is not isolated gets a store of its own for the call.
    """
    with _somewhere(job.app):
        trial = _Trial(job, args, kwargs, ctx or given())
        return perform_anywhere(job.app.store, trial.run(), trial.worker.leave())


async def arun_job(
    job: Job[Any, Any, Any], /, *args: Any, ctx: Given | None = None, **kwargs: Any
) -> Any:
    """As `run_job`, in async code."""
    with _somewhere(job.app):
        trial = _Trial(job, args, kwargs, ctx or given())
        return await aperform(job.app.store, trial.run(), trial.worker.leave())


class _Trial:
    def __init__(
        self,
        job: Job[Any, Any, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        facts: Given,
    ) -> None:
        self._app = job.app
        self._facts = facts
        request = job.request(*args, **kwargs)
        # Whatever its options say of a key, a delay, an expiry or a deadline: it is to run now, by
        # itself.
        own = request.using
        options = own.options and msgspec.structs.replace(own.options, unique=None)
        using = Using(
            priority=own.priority, queue=own.queue, options=options, tags=(*own.tags, BY_HAND),
            trace=own.trace, metadata=own.metadata,
        )  # fmt: skip
        new_id, tenant = self._app.sources.new_id(), self._app.settings.tenant
        self._new = msgspec.structs.replace(request, using=using).new_run(new_id, tenant)
        self.worker = LoneWorker(self._app)

    def run(self) -> Procedure[Any]:
        yield from self.worker.arrive()
        claimed = yield from self._claimed()
        holding = self.worker.hold(claimed)
        holding.stop = Stop.CANCEL if self._facts.canceled else None
        holding.stopping = self._facts.stopping
        finish = yield from self.worker.attempt(holding)
        finish = yield from self.worker.record(finish)
        yield from self._end(claimed)
        return result_of(claimed, finish, self.worker.runner.raised)

    def _claimed(self) -> Procedure[Claimed]:
        yield self._app.store.operations.enqueue([self._new])
        claimed = yield from self.worker.take(RunRef(self._new.tenant, self._new.id))
        if claimed is None:
            raise UsageError(f"Job {self._new.job!r} is not one of this application any more.")
        facts = self._facts
        seen = {"attempt": facts.attempt, "failures": facts.attempt - 1, "slot": facts.slot}
        return msgspec.structs.replace(claimed, **seen)

    def _end(self, claimed: Claimed) -> Procedure[None]:
        """A try by hand leaves nothing behind that a drain would try again."""
        operations = self._app.store.operations
        record: RunRecord | None = yield operations.get_run(claimed.ref)
        left = claimed.ref
        if record is not None and record.status is Status.FAILED:
            last: Event = (yield operations.list_events(claimed.ref, 0, _EVENTS))[-1]
            handler = (last.data or {}).get("handled_by")
            if handler is None:
                return
            left = RunRef(claimed.tenant, handler)
        elif record is None or record.status.finished:
            return
        yield operations.cancel(left, "tried by hand")


def result_of(claimed: Claimed, finish: Finish | None, raised: BaseException | None) -> Any:
    """What an attempt returned, as JSON has it; raises what it raised."""
    if finish is None:
        raise UsageError("The lease was lost while the handler ran.")
    match finish.outcome:
        case Outcome.SUCCEEDED:
            return None if finish.result is None else codec.decode(finish.result)
        case Outcome.SNOOZED:
            return Snooze(finish.delay or 0.0)
        case Outcome.CONTINUED:
            return ContinueAs(**codec.decode(finish.result or b"{}"))
        case Outcome.CANCELED if raised is None:
            return Cancel(finish.error.message if finish.error else "")
        case _:
            if raised is not None:
                raise raised
            failure = finish.failure or Failure.EXHAUSTED
            raise RunFailed(claimed.id, Status.FAILED, failure, finish.error)


@contextmanager
def _somewhere(app: Windlass) -> Iterator[None]:
    """Where the application is, if that is a place for tests, else in one of its own."""
    if isinstance(app.sources.clock, VirtualClock):
        yield
    else:
        with isolated(app):
            yield
