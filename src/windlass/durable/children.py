"""Children of a handler's run: started, awaited, mapped. `domain/child.py` has the protocol."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec

from windlass import codec
from windlass.current import current_run
from windlass.domain.child import PAGE, ChildEnd, ChildRow, failure_of
from windlass.domain.run import NewRun
from windlass.domain.states import Status
from windlass.domain.step import Step, StepKind, StepState, StepWrite, check_step_name
from windlass.durable.acts import Body, StepFlow, Wait
from windlass.durable.ledger import Ledger
from windlass.errors import BadOption, ChildFailed, ChildrenFailed, UsageError
from windlass.sources import Sources

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_MOST_TOLD = 100  # failures of children that an error carries


class RunRequest(Protocol[R_co]):
    """A run that was asked for, and checked: what `job.request(…)` makes."""

    @property
    def job(self) -> str: ...

    @property
    def input(self) -> bytes: ...

    @property
    def using(self) -> Any: ...

    def read_result(self, data: msgspec.Raw) -> R_co: ...

    def new_run(self, run: str, tenant: str, by: Any = None) -> NewRun: ...


class JobLike(Protocol[P, R_co]):
    """A job that children can be started of."""

    @property
    def name(self) -> str: ...

    def request(self, *args: P.args, **kwargs: P.kwargs) -> RunRequest[R_co]: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """What one step is to start: one child, or many."""

    path: str
    kind: StepKind
    requests: Sequence[RunRequest[Any]]
    given: str
    sources: Sources
    parallel: int | None = None
    tolerant: bool = False

    @property
    def write(self) -> StepWrite:
        """The step, as it begins."""
        value = None
        if self.parallel is not None:
            value = msgspec.Raw(msgspec.json.encode({"parallel": self.parallel}))
        return StepWrite(
            path=self.path,
            kind=self.kind,
            state=StepState.WAITING,
            input=self.given,
            value=value,
        )

    def runs(self, ledger: Ledger, first: int) -> Sequence[NewRun]:
        """The next of them, as the store takes them."""
        part = self.requests[first : first + PAGE]
        ids, by = self.sources.new_ids(len(part)), current_run()
        return [
            request.new_run(id, ledger.tenant, by) for request, id in zip(part, ids, strict=True)
        ]


def check_request(request: RunRequest[Any]) -> RunRequest[Any]:
    """Refuse what a child cannot have. Raises BadOption."""
    if request.using.key is not None:
        why = "a child has none: it is known by its step, and started once"
        raise BadOption("key", why)
    if request.using.after:
        why = "a child has none: await the other runs first, or enqueue it"
        raise BadOption("after", why)
    if request.using.connection is not None:
        why = "children are started in a transaction of Windlass; enqueue the run instead"
        raise BadOption("connection", why)
    return request


def requests_of(job: JobLike[Any, Any], inputs: Iterable[Any]) -> list[RunRequest[Any]]:
    """What `ctx.map` is to start: inputs are first arguments, or requests of the job."""
    if isinstance(inputs, (str, bytes)):
        raise BadOption("inputs", "it must be a list, or something else to iterate over, not text")
    found = []
    for each in inputs:
        request = each if hasattr(each, "new_run") else job.request(each)
        if request.job != job.name:
            raise UsageError(f"ctx.map of {job.name!r} was given a request of {request.job!r}.")
        found.append(check_request(request))
    return found


def given_of(requests: Sequence[RunRequest[Any]], job: str) -> str:
    """What a step starts, to be compared in a replay, and to be shown."""
    if len(requests) == 1 and len(requests[0].input) <= 150:
        return f"{job} {requests[0].input.decode()}"
    digest = hashlib.sha256()
    for request in requests:
        digest.update(len(request.input).to_bytes(8, "big"))
        digest.update(request.input)
    return f"{job} x {len(requests)} … {digest.hexdigest()[:16]}"


def check_parallel(parallel: object) -> int | None:
    """How many children may be live at a time. Raises BadOption."""
    if parallel is None:
        return None
    if not isinstance(parallel, int) or isinstance(parallel, bool) or not 1 <= parallel <= 100_000:
        raise BadOption("parallel", f"{parallel!r} is not a number of 1 to 100,000")
    return parallel


def check_job(job: object) -> JobLike[Any, Any]:
    """A job that a child can be started of. Raises UsageError."""
    if not hasattr(job, "request") or not hasattr(job, "name"):
        raise UsageError(
            f"{job!r} is not a job: give a function that has @app.job, not its name. (A plain "
            "function belongs into ctx.step.)"
        )
    found: JobLike[Any, Any] = job
    check_step_name(found.name)
    return found


def start(ledger: Ledger, ask: Ask) -> StepFlow[str | None]:
    """Start one child, if it is not started; returns its id."""
    known = ledger.find(ask.path, ask.kind, ask.given)
    if known is not None:
        rows = yield from ledger.children(ask.path, -1, 1)
        return rows[0].id if rows else None
    if (fake := _stand_in(ledger, ask)) is not None:
        yield from _fake_one(ledger, ask, fake)
        return None
    runs = ask.runs(ledger, 0)
    done = yield from ledger.start(ask.write, 0, runs)
    return done.ready[0].id if done.ready else runs[0].id


def run_one(ledger: Ledger, ask: Ask) -> StepFlow[Any]:
    """Start a child, and wait for it."""
    known = ledger.find(ask.path, ask.kind, ask.given)
    if known is None:
        if (fake := _stand_in(ledger, ask)) is not None:
            known = yield from _fake_one(ledger, ask, fake)
            return _result(known, ask)
        yield from ledger.start(ask.write, 0, ask.runs(ledger, 0))
    return (yield from await_one(ledger, ask))


def await_one(ledger: Ledger, ask: Ask) -> StepFlow[Any]:
    """Wait for a child; returns its result, or raises ChildFailed."""
    return _result((yield from _ended(ledger, ask)), ask)


def run_many(ledger: Ledger, ask: Ask) -> StepFlow[list[Any]]:
    """Start children, wait for all of them, and return their results in order."""
    known = ledger.find(ask.path, ask.kind, ask.given)
    if known is None and (fake := _stand_in(ledger, ask)) is not None:
        return (yield from _fake_many(ledger, ask, fake))
    total = len(ask.requests)
    if known is None or not known.state.ended:
        started = 0
        if known is not None:  # how far did the last attempt come?
            started = (yield from ledger.start(ask.write, 0, (), ask.parallel)).started
        if started < total or not total:
            for first in range(0, max(total, 1), PAGE):
                yield from ledger.start(ask.write, first, ask.runs(ledger, first), ask.parallel)
        known = yield from _ended(ledger, ask)
    if known.state is StepState.FAILED:
        yield from _raise_failed(ledger, ask)
    return (yield from _results(ledger, ask))


def _ended(ledger: Ledger, ask: Ask) -> StepFlow[Step]:
    known = ledger.find(ask.path, ask.kind, ask.given)
    while known is None or not known.state.ended:
        known = yield from ledger.look_at_children(ask.path, tolerant=ask.tolerant)
        if not known.state.ended:
            yield Wait(ask.path, None, None, signal=True)
            ledger.check(ask.path)
    return known


def _result(known: Step, ask: Ask) -> Any:
    value = known.value if known.value is not None else msgspec.Raw(b"null")
    if known.state is StepState.DONE:
        return ask.requests[0].read_result(value)
    end = msgspec.json.decode(value, type=ChildEnd)
    raise ChildFailed(
        ask.path, end.run, end.status, end.failure, known.error, end.reason, failure_of(end)
    )


def _results(ledger: Ledger, ask: Ask) -> StepFlow[list[Any]]:
    results: list[Any] = []
    while len(results) < len(ask.requests):
        rows = yield from ledger.children(ask.path, len(results) - 1, PAGE)
        results += [_outcome(ask, row) for row in rows]
        if not rows:
            raise ChildrenFailed(ask.path, (), len(ask.requests), len(ask.requests))
    return results


def _outcome(ask: Ask, row: ChildRow) -> Any:
    if row.status is not Status.SUCCEEDED:
        return _failure(ask.path, row)
    return ask.requests[row.n].read_result(row.result)


def _raise_failed(ledger: Ledger, ask: Ask) -> StepFlow[None]:
    failed: list[ChildFailed] = []
    count, after = 0, -1
    while rows := (yield from ledger.children(ask.path, after, PAGE)):
        after = rows[-1].n
        bad = [row for row in rows if row.status is not Status.SUCCEEDED]
        count += len(bad)
        failed += [_failure(ask.path, row) for row in bad[: _MOST_TOLD - len(failed)]]
    raise ChildrenFailed(ask.path, failed, count, len(ask.requests))


def _failure(path: str, row: ChildRow) -> ChildFailed:
    status = "deleted" if row.status is None else str(row.status)
    end = ChildEnd(run=row.id, status=status, failure=row.failure, reason=row.reason)
    return ChildFailed(path, row.id, status, end.failure, row.error, row.reason, failure_of(end))


def _stand_in(ledger: Ledger, ask: Ask) -> Callable[..., Any] | None:
    return None if ledger.stage is None else ledger.stage.stand_in(ask.path)


def _fake_one(ledger: Ledger, ask: Ask, fake: Callable[..., Any]) -> StepFlow[Step]:
    """A test has put a function in the place of the child."""
    arguments = codec.decode(ask.requests[0].input)
    value = yield Body(ask.path, fake, (), arguments, None)
    data = codec.encode(value, what=f"result of {ask.path!r}")
    done = msgspec.structs.replace(ask.write, state=StepState.DONE, value=msgspec.Raw(data))
    return (yield from ledger.record(done))


def _fake_many(ledger: Ledger, ask: Ask, fake: Callable[..., Any]) -> StepFlow[list[Any]]:
    values = []
    for request in ask.requests:
        value = yield Body(ask.path, fake, (), codec.decode(request.input), None)
        values.append(request.read_result(msgspec.Raw(codec.encode(value, what="result"))))
    return values
