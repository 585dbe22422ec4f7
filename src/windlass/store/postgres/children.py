"""Children on PostgreSQL: see `store/operations/children.py`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.domain.child import ChildRow, Started
from windlass.domain.run import Held, NewRun, RunRef
from windlass.domain.step import Step, StepWrite
from windlass.store.postgres.ids import id_or_nobody
from windlass.store.postgres.statement import Row, Statement, every
from windlass.store.postgres.steps import read_parts

_encode = msgspec.json.Encoder().encode


def start_children(
    held: Held, step: StepWrite, first: int, runs: Sequence[NewRun], parallel: int | None
) -> Statement[Started]:
    """Start children in a step of a run."""
    parameters = (
        held.tenant,
        id_or_nobody(held.id),
        held.token,
        _encode(step).decode(),
        first,
        _encode(runs).decode(),
        parallel,
    )

    def read(rows: Sequence[Row]) -> Started:
        told: dict[str, Any] = msgspec.json.decode(rows[0][0])
        ready = tuple(RunRef(held.tenant, run) for run in told.get("ready", ()))
        return Started(started=told.get("started", 0), ready=ready, lost=told.get("lost", False))

    return Statement("start_children", parameters, read, about=held.id)


def await_children(held: Held, path: str, tolerant: bool) -> Statement[Step | None]:
    """Look whether the children of a step have ended."""
    parameters = (held.tenant, id_or_nobody(held.id), held.token, path, tolerant)

    def read(rows: Sequence[Row]) -> Step | None:
        steps = read_parts(rows, [1])[0]
        return None if steps is None else steps[0]

    return Statement("await_children", parameters, read, about=held.id)


def list_children(
    tenant: str, run: str, path: str | None, after: tuple[str, int] | None, limit: int
) -> Statement[Sequence[ChildRow]]:
    """The children of a run, by step and place."""
    last, n = (None, None) if after is None else after
    parameters = (tenant, id_or_nobody(run), path, last, n, limit)
    return Statement("list_children", parameters, every(ChildRow))
