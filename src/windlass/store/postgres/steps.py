"""Steps and signals on PostgreSQL: see `store/operations/steps.py`."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from windlass.domain.approval import AnswerReply, OpenApproval
from windlass.domain.report import ErrorInfo
from windlass.domain.run import Held, RunRef
from windlass.domain.step import Generation, Signal, Step, StepKind, StepState, StepWrite
from windlass.errors import StoreBusy
from windlass.store.mending import readable
from windlass.store.postgres.ids import id_or_nobody
from windlass.store.postgres.instants import instant
from windlass.store.postgres.statement import Row, Statement, every, one

_encode = msgspec.json.Encoder().encode
_decode_error = msgspec.json.Decoder(ErrorInfo).decode
_LOCKED = "Somebody has the run locked: its steps cannot be recorded now."


class _Item(StepWrite, frozen=True, kw_only=True, omit_defaults=True):
    """A step to be recorded, as the function takes it."""

    tenant: str
    id: str
    token: int


class _Answer(NamedTuple):
    """A row of `windlass.record_steps`."""

    answer: str
    path: str
    kind: str
    state: str
    seq: int | None
    attempt: int
    failures: int
    started_at: str
    at: str
    until: str | None
    input: str | None
    signal: str | None
    value: str | None
    error: str | None
    left: str | None
    generation: int = 0


def list_steps(
    tenant: str, run: str, after: str | None, limit: int, generation: int
) -> Statement[Sequence[Step]]:
    """The steps of a run by path."""
    parameters = (tenant, id_or_nobody(run), after, limit, generation)
    return Statement("list_steps", parameters, lambda rows: [_step(_Answer(*row)) for row in rows])


def record_steps(held: Held, steps: Sequence[StepWrite]) -> Statement[Sequence[Step] | None]:
    """Remember steps of one run."""
    together = record_together([(held, steps)])
    return Statement(together.name, together.parameters, lambda rows: together.read(rows)[0])


def record_together(
    asked: Sequence[tuple[Held, Sequence[StepWrite]]],
) -> Statement[Sequence[Sequence[Step] | None]]:
    """Remember steps of several runs; the answers are in the order of the runs."""
    items = [_item(held, step) for held, steps in asked for step in steps]
    counts = [len(steps) for _, steps in asked]
    return Statement(
        "record_steps", (_encode(items).decode(),), lambda rows: read_parts(rows, counts)
    )


def signal(
    run: RunRef, name: str, payload: msgspec.Raw, key: str | None, *, by: str | None
) -> Statement[Signal]:
    """Send a signal to a run."""
    parameters = (run.tenant, id_or_nobody(run.id), name, bytes(payload).decode(), key, by)
    return Statement("signal", parameters, one(Signal), about=run.id)


def list_signals(tenant: str, run: str, after: int, limit: int) -> Statement[Sequence[Signal]]:
    """The signals that were sent to a run."""
    return Statement("list_signals", (tenant, id_or_nobody(run), after, limit), every(Signal))


def list_generations(
    tenant: str, run: str, after: int, limit: int
) -> Statement[Sequence[Generation]]:
    """The inputs that a run went on from."""
    parameters = (tenant, id_or_nobody(run), after, limit)
    return Statement("list_generations", parameters, every(Generation))


def answer_approval(
    run: RunRef,
    path: str,
    approved: bool,
    by: str | None,
    comment: str | None,
    token: str | None,
    *,
    actor: str | None,
) -> Statement[AnswerReply]:
    """Answer an approval that a run has asked for."""
    parameters = (run.tenant, id_or_nobody(run.id), path, approved, by, comment, token, actor)
    return Statement("answer_approval", parameters, one(AnswerReply), about=run.id)


def list_approvals(
    tenant: str, after: tuple[str, str] | None, limit: int
) -> Statement[Sequence[OpenApproval]]:
    """What is asked for and has no answer."""
    run, path = (None, None) if after is None else (id_or_nobody(after[0]), after[1])
    return Statement("list_approvals", (tenant, run, path, limit), every(OpenApproval))


def _item(held: Held, step: StepWrite) -> _Item:
    fields = msgspec.structs.asdict(step)
    return _Item(tenant=held.tenant, id=id_or_nobody(held.id), token=held.token, **fields)


def read_parts(rows: Sequence[Row], counts: Sequence[int]) -> list[Sequence[Step] | None]:
    """The answers of `windlass.record_steps` to several runs, each with so many steps."""
    answers = [_Answer(*row) for row in rows]
    parts: list[Sequence[Step] | None] = []
    first = 0
    for count in counts:
        part = answers[first : first + count]
        first += count
        if any(answer.answer == "busy" for answer in part):
            raise StoreBusy(_LOCKED)
        lost = any(answer.answer == "lost" for answer in part)
        parts.append(None if lost else [_step(answer) for answer in part])
    return parts


def _step(row: _Answer) -> Step:
    error, _ = readable("error", _decode_error, row.error)
    return Step(
        path=row.path,
        kind=StepKind(row.kind),
        state=StepState(row.state),
        started_at=instant(row.started_at),
        at=instant(row.at),
        attempt=row.attempt,
        seq=row.seq,
        input=row.input,
        signal=row.signal,
        value=None if row.value is None else msgspec.Raw(row.value.encode()),
        error=error,
        failures=row.failures,
        until=None if row.until is None else instant(row.until),
        left=None if row.left is None else float(row.left),
        generation=row.generation,
    )
