"""Waiting for runs: short looks at first, then less and less often, one look for all of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic

from windlass.client.filters import check_id
from windlass.client.paging import Batch, Stream
from windlass.client.run import Run
from windlass.client.scope import Scope
from windlass.client.typed import R
from windlass.domain.run import RunRecord
from windlass.duration import Duration, parse_duration
from windlass.errors import ResultTimeout, RunNotFound
from windlass.sources import Sources
from windlass.store.flow import Flow, Pause

_FIRST_LOOK = 0.005
_LAST_LOOK = 0.25
_PER_CALL = 1000  # runs; more of them are looked at less often


class Patience:
    """How long to sleep between looks."""

    def __init__(self, timeout: Duration | None, sources: Sources) -> None:
        self._clock = sources.clock
        self._timeout = None if timeout is None else parse_duration(timeout)
        self._began = self._clock.monotonic()
        self._next = _FIRST_LOOK

    def pause(self, *pending: str) -> float:
        """Seconds until the next look at these; raises ResultTimeout when the time is up."""
        longest = _LAST_LOOK * (1 + len(pending) // _PER_CALL)
        pause, self._next = self._next, min(self._next * 1.5, longest)
        if self._timeout is None:
            return pause
        left = self._began + self._timeout - self._clock.monotonic()
        if left <= 0:
            raise ResultTimeout(pending[0], self._timeout, len(pending) - 1)
        return min(pause, left)


class _Pending(Generic[R]):
    """Runs that have not ended yet, in the order given, and the patience with them."""

    def __init__(self, runs: Sequence[Run[R] | str], patience: Patience) -> None:
        self.runs: dict[str, Run[R] | None] = {}
        for run in runs:
            handle = run if isinstance(run, Run) else None
            ident = run.id if isinstance(run, Run) else check_id(run)
            self.runs[ident] = self.runs.get(ident) or handle
        self.patience = patience
        self.began = False


class Completions(Stream[Run[R], _Pending[R]], Generic[R]):
    """Runs, each as soon as it has ended: `for run in …`, or `async for run in …`.

    The time begins to count when the loop begins.
    """

    def __init__(
        self, scope: Scope, runs: Iterable[Run[R] | str], timeout: Duration | None
    ) -> None:
        super().__init__(scope)
        self._runs = list(runs)
        self._timeout = timeout

    def _first(self) -> _Pending[R]:
        return _Pending(self._runs, Patience(self._timeout, self._scope.sources))

    def _batch(self, place: _Pending[R]) -> Flow[Batch[Run[R], _Pending[R]]]:
        """Wait until at least one more has ended."""
        while place.runs:
            if place.began:
                yield Pause(place.patience.pause(*place.runs))
            place.began = True
            ended = yield from _look(self._scope, place.runs)
            if ended:
                return Batch(ended, place if place.runs else None)
        return Batch((), None)


def wait_for_all(
    scope: Scope, runs: Iterable[Run[Any] | str], timeout: Duration | None
) -> Flow[Sequence[Run[Any]]]:
    """Wait until all have ended; return them in the order given."""
    given = list(runs)
    pending = _Pending(given, Patience(timeout, scope.sources))
    ended: dict[str, Run[Any]] = {}
    while True:
        for run in (yield from _look(scope, pending.runs)):
            ended[run.id] = run
        if not pending.runs:
            return [ended[each.id if isinstance(each, Run) else check_id(each)] for each in given]
        yield Pause(pending.patience.pause(*pending.runs))


def _look(scope: Scope, pending: dict[str, Run[R] | None]) -> Flow[Sequence[Run[R]]]:
    """Take those out that have ended. Raises RunNotFound, which names all that do not exist."""
    ids = list(pending)
    known: dict[str, bool] = {}
    for start in range(0, len(ids), _PER_CALL):
        part = ids[start : start + _PER_CALL]
        found: Mapping[str, bool] = yield scope.store.operations.look_for_ends(scope.tenant, part)
        known |= found
    unknown = [each for each in ids if each not in known]
    if unknown:
        raise RunNotFound(*unknown)
    records = yield from _records(scope, [each for each in ids if known[each]])
    ended = []
    for each in ids:
        record = records.get(each)
        if record is not None and record.status.finished:  # and was not reopened meanwhile
            run = pending.pop(each)
            ended.append(Run(scope, record) if run is None else run.become(record))
    return ended


def _records(scope: Scope, ids: Sequence[str]) -> Flow[Mapping[str, RunRecord]]:
    records: dict[str, RunRecord] = {}
    for start in range(0, len(ids), _PER_CALL):
        part = ids[start : start + _PER_CALL]
        found: Sequence[RunRecord] = yield scope.store.operations.get_runs(scope.tenant, part)
        records |= {record.id: record for record in found}
    return records
