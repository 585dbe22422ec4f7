"""Steps: what runs remember of the work inside them. The rules are told in `domain/step.py`."""

from collections.abc import Sequence
from typing import NamedTuple

from windlass.domain.event import EventType
from windlass.domain.run import Held
from windlass.domain.step import (
    Generation,
    Step,
    StepKind,
    StepState,
    StepWrite,
    event_of,
)
from windlass.errors import LeaseLost
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.pages import insert_pages_about
from windlass.store.sqlite.positions import Position, lease_of
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    from_micros_or_none,
    micros_of,
    raw_text,
    to_error,
    to_json,
    to_json_or_none,
    to_raw,
)

_Asked = tuple[Held, Sequence[StepWrite]]


class _Row(NamedTuple):
    """A row of `steps`, without the run that it belongs to."""

    path: str
    kind: str
    state: str
    seq: int | None
    attempt: int
    failures: int
    started_at: int
    at: int
    until: int | None = None
    input: str | None = None
    signal: str | None = None
    value: str | None = None
    error: str | None = None
    generation: int = 0


def list_steps(
    tx: OpenTransaction, tenant: str, run: str, after: str | None, limit: int, generation: int
) -> Sequence[Step]:
    """Return the steps of a run by path."""
    bindings = {
        "tenant": tenant,
        "run": blob_or_none(run),
        "generation": generation,
        "after": after,
        "limit": limit,
    }
    return [step_of(row, tx.now) for row in tx.fetch("list_steps", bindings)]


def list_generations(
    tx: OpenTransaction, tenant: str, run: str, after: int, limit: int
) -> Sequence[Generation]:
    """Return the inputs that a run went on from, in order."""
    rows = tx.fetch("list_generations", (tenant, blob_or_none(run), after, limit))
    return [
        Generation(number=number, input=to_raw(input), attempt=attempt, seq=seq, at=from_micros(at))
        for number, input, attempt, seq, at in rows
    ]


def record_steps(
    tx: OpenTransaction, held: Held, steps: Sequence[StepWrite]
) -> Sequence[Step] | None:
    """Remember steps under the token of their run's lease; None: it is lost."""
    return record_together(tx, [(held, steps)])[0]


def record_parts(
    tx: OpenTransaction, parts: Sequence[Sequence[_Asked]]
) -> list[Sequence[Step] | None]:
    """The same for calls that are done as one, each of them a list of one."""
    return record_together(tx, [asked for part in parts for asked in part])


def record_together(tx: OpenTransaction, asked: Sequence[_Asked]) -> list[Sequence[Step] | None]:
    """Remember the steps of several runs, and answer for each."""
    book = _Book(tx)
    leases = _leases(tx, [held for held, _ in asked])
    answers: list[Sequence[Step] | None] = []
    for held, writes in asked:
        name = (held.tenant, blob_or_none(held.id))
        lease = leases.get(name)
        if lease is None or lease.token != held.token:
            answers.append(None)
            continue
        found = []
        for write in writes:
            row, lease = book.add(lease, write)
            found.append(_step(row, tx.now))
        leases[name] = lease
        answers.append(found)
    book.write()
    return answers


def join_step(tx: OpenTransaction, held: Held, path: str, write: StepWrite | None) -> Step | None:
    """Look for a step, or record it. Raises LeaseLost under a token that is not the lease's."""
    if write is not None:
        recorded = record_steps(tx, held, [write])
        if recorded is None:
            raise LeaseLost(held.id, held.token)
        return recorded[0]
    blob = blob_or_none(held.id)
    if tx.fetch_one("lease_token", (held.tenant, blob)) != (held.token,):
        raise LeaseLost(held.id, held.token)
    row = tx.fetch_one("get_step", (held.tenant, blob, path))
    return None if row is None else step_of(row, tx.now)


def _leases(tx: OpenTransaction, asked: Sequence[Held]) -> dict[tuple[str, bytes | None], Position]:
    names = {(held.tenant, blob) for held in asked if (blob := blob_or_none(held.id))}
    return {(row[0], row[1]): lease_of(row) for row in tx.fetch_many("get_lease", names)}


class _Book:
    """The steps that one transaction writes, table by table."""

    def __init__(self, tx: OpenTransaction) -> None:
        self._tx = tx
        self._rows: list[Row] = []
        self._seqs: dict[tuple[str, bytes], int] = {}
        self._told: dict[tuple[int, EventType, str, int, str], list[bytes]] = {}
        self._retrying: dict[int, list[Row]] = {}
        self._new: dict[tuple[str, bytes, str], _Row] = {}

    def add(self, lease: Position, write: StepWrite) -> tuple[_Row, Position]:
        """Remember a step; return it as it is now, and the lease with the run's last seq."""
        name = (lease.tenant, lease.id, write.path)
        known = self._new.get(name) or self._known(name)
        if known is not None and StepState(known.state).ended:
            return known, lease
        row = self._answered(lease, self._written(lease, write, known))
        state = StepState(row.state)
        if state.ended or state is StepState.RETRYING:
            lease = lease._replace(seq=lease.seq + 1)
            self._seqs[lease.tenant, lease.id] = lease.seq
            if state.ended:
                row = row._replace(seq=lease.seq)
            self._tell(lease, row, write)
        elif row == known:
            return row, lease  # it was looked at, and waits as before
        self._new[name] = row
        self._rows.append((lease.tenant, lease.id, *row[:-1]))
        return row, lease

    def write(self) -> None:
        """Write everything collected."""
        self._tx.execute_many("put_step", self._rows)
        self._tx.execute_many("take_seqs", [(seq, *run) for run, seq in self._seqs.items()])
        # The feed has the events of a run in the order of their seq.
        for seq in sorted({*self._retrying, *(page[0] for page in self._told)}):
            self._tx.execute_many("insert_event", self._retrying.get(seq, ()))
            for (of, kind, tenant, attempt, path), runs in self._told.items():
                if of == seq:
                    data = to_json({"step": path})
                    insert_pages_about(self._tx, kind, (tenant, seq, attempt), runs, data)

    def _known(self, name: tuple[str, bytes, str]) -> _Row | None:
        row = self._tx.fetch_one("get_step", name)
        return None if row is None else _Row._make(row)

    def _written(self, lease: Position, write: StepWrite, known: _Row | None) -> _Row:
        now = self._tx.now
        if known is not None and write.state is StepState.WAITING:
            return known._replace(attempt=lease.attempt)  # it began to wait when it was first asked
        until = None if write.wait is None else now + micros_of(write.wait)
        return _Row(
            path=write.path,
            kind=write.kind,
            state=write.state,
            seq=None,
            attempt=lease.attempt,
            failures=write.failures,
            started_at=now - micros_of(write.took) if known is None else known.started_at,
            at=now,
            until=until,
            input=write.input,
            signal=write.signal,
            value=None if write.value is None else raw_text(write.value),
            error=to_json_or_none(write.error),
        )

    def _answered(self, lease: Position, row: _Row) -> _Row:
        """A step that waits for a signal, and the signal or the end of its time has come."""
        if row.state != StepState.WAITING or row.signal is None:
            return row
        now = self._tx.now
        signal = self._tx.fetch_one("next_signal", (lease.tenant, lease.id, row.signal))
        if signal is not None:
            number, payload = signal
            self._tx.execute("take_signal", (row.path, lease.tenant, lease.id, number))
            return row._replace(state=StepState.DONE, value=payload, at=now)
        if row.until is not None and row.until <= now:
            return row._replace(state=StepState.TIMED_OUT, at=now)
        return row

    def _tell(self, lease: Position, row: _Row, write: StepWrite) -> None:
        kind = event_of(StepKind(row.kind), StepState(row.state))
        if kind is EventType.STEP_RETRYING:
            data = {"step": row.path, "failures": row.failures, "delay": write.wait}
            event = (lease.tenant, lease.id, lease.seq, kind, self._tx.now, lease.attempt)
            self._retrying.setdefault(lease.seq, []).append((*event, to_json(data)))
        else:
            page = (lease.seq, kind, lease.tenant, lease.attempt, row.path)
            self._told.setdefault(page, []).append(lease.id)


def step_of(row: Row, now: int) -> Step:
    """Return a row of the statements that read ``steps`` as a value."""
    return _step(_Row._make(row), now)


def _step(row: _Row, now: int) -> Step:
    return Step(
        path=row.path,
        kind=StepKind(row.kind),
        state=StepState(row.state),
        started_at=from_micros(row.started_at),
        at=from_micros(row.at),
        attempt=row.attempt,
        seq=row.seq,
        input=row.input,
        signal=row.signal,
        value=None if row.value is None else to_raw(row.value),
        error=to_error(row.error),
        failures=row.failures,
        until=from_micros_or_none(row.until),
        left=None if row.until is None else (row.until - now) / 1_000_000,
        generation=row.generation,
    )
