"""Runs in any status, made as the program makes them: by enqueueing, claiming and ending attempts.

Nothing is written behind the store's back, so such a run has the attempts, events and errors that
it would have. No handler is called.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec

from windlass import codec
from windlass.app import Windlass
from windlass.client import Request, Run
from windlass.domain.open_enum import member_of
from windlass.domain.outcome import Outcome, describe_error
from windlass.domain.run import Finish, RunRecord, RunRef
from windlass.domain.states import Failure, Status
from windlass.errors import BadOption
from windlass.job import Job
from windlass.testing.faces import Procedure, aperform, perform_anywhere
from windlass.testing.places import clock_of
from windlass.testing.worker import LoneWorker

_LATER = 3600.0
_MOMENT = timedelta(milliseconds=1)
_UNMADE = (Status.WAITING, Status.PAUSED)


class MadeUp(Exception):
    """The error of attempts that were made up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    status: Status
    failures: int
    failure: Failure
    error: BaseException
    result: Any
    reason: str | None


def make_run(
    app: Windlass,
    job: Job[..., ..., Any] | Request,
    *,
    status: Status | str = Status.QUEUED,
    failures: int | None = None,
    failure: Failure | str = Failure.EXHAUSTED,
    error: BaseException | None = None,
    result: Any = None,
    reason: str | None = None,
) -> Run:
    """Make a run and bring it into a status; with arguments: `job.request(user_id=7)`.

    `failures` of its attempts have failed with `error`: one where the run is to have failed, else
    none unless given. A failed run has failed by `failure`; a succeeded one has `result`; a
    canceled one `reason`. A scheduled one is due in an hour. A running one is held by a worker
    that never renews: once the clock has passed its lease, a drain takes it back.
    """
    making = _Making(app, job, _wish(status, failures, failure, error, result, reason))
    return Run(app.scope, perform_anywhere(app.store, making.run(), making.leave()))


async def amake_run(
    app: Windlass,
    job: Job[..., ..., Any] | Request,
    *,
    status: Status | str = Status.QUEUED,
    failures: int | None = None,
    failure: Failure | str = Failure.EXHAUSTED,
    error: BaseException | None = None,
    result: Any = None,
    reason: str | None = None,
) -> Run:
    """As `make_run`, in async code."""
    making = _Making(app, job, _wish(status, failures, failure, error, result, reason))
    return Run(app.scope, await aperform(app.store, making.run(), making.leave()))


def _wish(
    status: Status | str,
    failures: int | None,
    failure: Failure | str,
    error: BaseException | None,
    result: Any,
    reason: str | None,
) -> _Wish:
    if status in _UNMADE:
        raise BadOption("status", f"no run can be {status} yet")
    how = member_of("failure", Failure, failure)
    uncounted = how in (Failure.EXPIRED, Failure.CRASHED)
    least = 1 if status == Status.FAILED and not uncounted else 0
    count = least if failures is None else failures
    if count < least or (uncounted and status == Status.FAILED and count):
        raise BadOption("failures", f"{count} does not go with {status}, {how.value}")
    return _Wish(
        status=member_of("status", Status, status),
        failures=count,
        failure=how,
        error=error or MadeUp("made up"),
        result=result,
        reason=reason,
    )


class _Making:
    def __init__(self, app: Windlass, job: Job[..., ..., Any] | Request, wish: _Wish) -> None:
        self._app = app
        self._clock = clock_of(app)
        self._wish = wish
        request = job if isinstance(job, Request) else job.request()
        if wish.status is Status.SCHEDULED and not wish.failures and request.using.at is None:
            delay = request.using.delay or _LATER
            request = msgspec.structs.replace(request, using=replace(request.using, delay=delay))
        if wish.status is Status.FAILED and wish.failure is Failure.EXPIRED:
            request = msgspec.structs.replace(request, using=replace(request.using, expires_in=0.0))
        self._new = request.new_run(app.sources.new_id(), app.settings.tenant)
        self._ref = RunRef(self._new.tenant, self._new.id)
        self._worker = LoneWorker(app)

    def run(self) -> Procedure[RunRecord]:
        wish = self._wish
        yield from self._worker.arrive(self._lease)
        yield self._app.store.operations.enqueue([self._new])
        final = wish.status in (Status.FAILED, Status.SCHEDULED)
        for left in reversed(range(wish.failures)):
            yield from self._fail(last=final and left == 0)
        match wish.status:
            case Status.RUNNING:
                yield from self._worker.take(self._ref)
            case Status.SUCCEEDED:
                data = msgspec.Raw(codec.encode(wish.result, what="result"))
                yield from self._end(Outcome.SUCCEEDED, result=data)
            case Status.CANCELED:
                yield self._app.store.operations.cancel(self._ref, wish.reason)
            case Status.FAILED if wish.failure is Failure.EXPIRED:
                yield from self._sweep(expire=True)
            case Status.FAILED if wish.failure is Failure.CRASHED:
                yield from self._crash()
            case _:
                pass  # enqueued, or brought there by its last failure
        return (yield from self._worker.read(self._ref))

    def leave(self) -> Procedure[None]:
        if self._wish.status is not Status.RUNNING:
            yield from self._worker.leave()

    @property
    def _lease(self) -> float | None:
        return self._app.settings.lease if self._wish.status is Status.RUNNING else None

    def _fail(self, *, last: bool) -> Procedure[None]:
        """Let an attempt fail: for good, until its backoff is over, or until now."""
        wish = self._wish
        how = describe_error(wish.error)
        if last and wish.status is Status.FAILED:
            timed_out = wish.failure in (Failure.TIMEOUT, Failure.DEADLINE)
            fields: dict[str, Any] = {"failure": wish.failure, "timed_out": timed_out}
            yield from self._end(Outcome.FAILED, error=how, counts=True, **fields)
            return
        delay = _LATER if last else 0.0
        yield from self._end(Outcome.RETRY, error=how, counts=True, delay=delay)
        yield from self._sweep(dispatch=True)

    def _end(self, outcome: Outcome, **fields: Any) -> Procedure[None]:
        claimed = yield from self._worker.take(self._ref)
        if claimed is None:
            raise BadOption("status", "the run is not due, so no attempt of it can be made up")
        yield from self._worker.record(
            Finish(
                tenant=claimed.tenant,
                id=claimed.id,
                token=claimed.token,
                outcome=outcome,
                **fields,
            )
        )

    def _crash(self) -> Procedure[None]:
        """Let its worker die as often as it takes: each time a moment passes."""
        for _ in range(self._app.settings.max_crashes):
            mortal = LoneWorker(self._app)
            yield from mortal.arrive(_MOMENT.total_seconds())
            yield from mortal.take(self._ref)
            self._clock.advance(_MOMENT * 2)
            yield from self._sweep(reap=True)

    def _sweep(
        self, *, dispatch: bool = False, expire: bool = False, reap: bool = False
    ) -> Procedure[None]:
        yield self._app.store.operations.sweep(
            dispatch=dispatch,
            expire=expire,
            reap=reap,
            max_crashes=self._app.settings.max_crashes,
            limit=500,
            spare=False,  # time that jumps is no outage here
        )
