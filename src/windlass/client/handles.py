"""The runs of one enqueue, each made when it is looked at: of thousands, most are not."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import overload

from windlass.client.requests import Request
from windlass.client.run import Run
from windlass.client.scope import Scope
from windlass.domain.run import NULL, Enqueued, NewRun, RunRecord
from windlass.domain.states import Status
from windlass.errors import RunNotFound

_NONE: Mapping[str, RunRecord] = {}


class Handles(Sequence[Run]):
    """What was asked for and what the store answered, as runs in the same order."""

    __slots__ = ("_answers", "_known", "_made", "_requests", "_runs", "_scope")

    def __init__(
        self,
        scope: Scope,
        requests: Sequence[Request],
        runs: Sequence[NewRun],
        answers: Sequence[Enqueued],
        known: Sequence[RunRecord],
    ) -> None:
        """`known` are the runs that were there before. Raises RunNotFound where one is not."""
        self._scope = scope
        self._requests = requests
        self._runs = runs
        self._answers = answers
        self._known = {record.id: record for record in known} if known else _NONE
        self._made: dict[int, Run] = {}
        for answer in answers:
            if not answer.created and answer.id not in self._known:
                raise RunNotFound(answer.id)  # deleted in the same moment

    def __len__(self) -> int:
        return len(self._answers)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...

    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        if isinstance(index, slice):
            return [self._at(n) for n in range(len(self))[index]]
        return self._at(index if index >= 0 else range(len(self))[index])

    def __iter__(self) -> Iterator[Run]:
        return map(self._at, range(len(self)))

    def __repr__(self) -> str:
        return repr(list(self))

    def _at(self, index: int) -> Run:
        made = self._made.get(index)
        if made is None:
            answer = self._answers[index]
            record = self._known.get(answer.id) or _fresh(self._runs[index], answer)
            returns = self._requests[index].returns
            made = self._made[index] = Run(self._scope, record, answer.created, returns)
        return made


def _fresh(run: NewRun, answer: Enqueued) -> RunRecord:
    """A run that was just made, without reading it back."""
    return RunRecord(
        tenant=run.tenant,
        id=run.id,
        job=run.job,
        queue=run.queue,
        status=answer.status,
        priority=run.priority,
        attempt=0,
        failures=0,
        crash_count=0,
        token=0,
        created_at=answer.created_at,
        scheduled_for=answer.scheduled_for,
        updated_at=answer.created_at,
        input=run.input,
        key=run.key,
        tags=run.tags,
        options=run.options,
        trace=run.trace,
        metadata=NULL if run.metadata is None else run.metadata,
        enqueued_by=run.enqueued_by,
        waiting_for="delay" if answer.status is Status.SCHEDULED else None,
        due_at=answer.scheduled_for if answer.status is Status.SCHEDULED else None,
        expires_at=_until(run.expires_in, run.expires_at, answer),
        deadline_at=_until(run.deadline_in, run.deadline_at, answer),
    )


def _until(seconds: float | None, at: datetime | None, answer: Enqueued) -> datetime | None:
    return at if seconds is None else answer.created_at + timedelta(seconds=seconds)
