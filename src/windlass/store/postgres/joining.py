"""Enqueue in the caller's own transaction, through the caller's own connection.

One statement with plain arguments calls ``windlass.enqueue``; nothing is set or read of the
session, nothing is begun, committed or repeated. The hint to workers is a NOTIFY in the same
statement: PostgreSQL delivers it if and when the transaction commits. A commit with a NOTIFY in it
takes a lock that all of the cluster share, so a process sends at most one per queue in 50 ms; the
hints left out cost a poll.

What the functions refuse is raised as on our own connections, and PostgreSQL has then aborted the
transaction. Every other error is the driver's, and the caller's to judge: we do not know what else
the transaction did.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import msgspec

from windlass.domain.run import NULL, Enqueued, Finish, Held, NewRun, ProgressWrite, RunRecord
from windlass.domain.step import Step, StepWrite
from windlass.errors import WindlassError
from windlass.sources import Clock
from windlass.store.callers_transaction import Joined
from windlass.store.mending import read_row
from windlass.store.postgres.callers import Caller, Row, Texts, awaited, blocking
from windlass.store.postgres.database_errors import CHANGED, locked, missing_part
from windlass.store.postgres.ids import check_new, id_or_nobody
from windlass.store.postgres.literals import plain_array
from windlass.store.postgres.naming import in_schema
from windlass.store.postgres.new_runs import pack_batch, pack_one, unpack_batch, unpack_one
from windlass.store.postgres.sqlstates import SQLSTATES
from windlass.store.postgres.whereabouts import Whereabouts
from windlass.store.queries import load_queries

HINT_SECONDS = 0.05
_MOST_QUEUES = 1000
_LOCKED = "55P03"


class Hints:
    """Whether a queue may be hinted at again."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def due(self, queues: Iterable[str]) -> bool:
        """Whether one of the queues has had no hint lately; it now has."""
        now = time.monotonic()
        due = [queue for queue in queues if now >= self._next.get(queue, 0.0)]
        if len(self._next) > _MOST_QUEUES:
            self._next.clear()
        self._next.update(dict.fromkeys(due, now + HINT_SECONDS))
        return bool(due)


class Joining:
    """Enqueues on connections that are not ours."""

    def __init__(
        self, expected: int, clock: Clock | None, whereabouts: Whereabouts | None, schema: str
    ) -> None:
        named = load_queries("postgres").items()
        self._sql = {name: in_schema(text, schema) for name, text in named}
        self._expected = expected
        self._clock = clock  # of tests; the database must tell the same time
        self._whereabouts = whereabouts  # in tests
        self._hints = Hints()

    def join(self, connection: object, runs: Sequence[NewRun], *, hint: bool) -> Joined:
        """Enqueue, blocking; ``hint``: let the wake-up of workers ride along."""
        caller = blocking(connection)
        assert caller.run is not None
        with self._told(caller):
            if self._whereabouts is not None:
                (place,) = caller.run(connection, self._sql["whereabouts"], ())
                self._whereabouts.note(*place)
            if self._clock is not None:
                caller.run(connection, self._sql["fake_now"], [_text(self._clock.now())])
            answers = self._read(runs, caller.run(connection, *self._enqueue(runs, hint=hint)))
            known = self._get_known(runs, answers)
            rows = caller.run(connection, *known) if known else ()
        return Joined(answers, _records(rows))

    async def ajoin(self, connection: object, runs: Sequence[NewRun], *, hint: bool) -> Joined:
        """As :meth:`join`, on the loop."""
        caller = awaited(connection)
        assert caller.arun is not None
        with self._told(caller):
            if self._whereabouts is not None:
                (place,) = await caller.arun(connection, self._sql["whereabouts"], ())
                self._whereabouts.note(*place)
            if self._clock is not None:
                await caller.arun(connection, self._sql["fake_now"], [_text(self._clock.now())])
            enqueued = await caller.arun(connection, *self._enqueue(runs, hint=hint))
            answers = self._read(runs, enqueued)
            known = self._get_known(runs, answers)
            rows = await caller.arun(connection, *known) if known else ()
        return Joined(answers, _records(rows))

    def step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None:
        """Look for a step, or record it, in the caller's transaction; blocking."""
        caller = blocking(connection)
        assert caller.run is not None
        with self._told(caller):
            if self._clock is not None:
                caller.run(connection, self._sql["fake_now"], [_text(self._clock.now())])
            return _step(caller.run(connection, *self._join_step(held, path, write)))

    async def astep(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None:
        """As :meth:`step`, on the loop."""
        caller = awaited(connection)
        assert caller.arun is not None
        with self._told(caller):
            if self._clock is not None:
                await caller.arun(connection, self._sql["fake_now"], [_text(self._clock.now())])
            return _step(await caller.arun(connection, *self._join_step(held, path, write)))

    def finish(self, connection: object, finish: Finish, told: ProgressWrite | None) -> None:
        """Record the end of an attempt in the caller's transaction; blocking."""
        caller = blocking(connection)
        assert caller.run is not None
        with self._told(caller):
            if self._clock is not None:
                caller.run(connection, self._sql["fake_now"], [_text(self._clock.now())])
            caller.run(connection, *self._join_finish(finish, told))

    async def afinish(self, connection: object, finish: Finish, told: ProgressWrite | None) -> None:
        """As :meth:`finish`, on the loop."""
        caller = awaited(connection)
        assert caller.arun is not None
        with self._told(caller):
            if self._clock is not None:
                await caller.arun(connection, self._sql["fake_now"], [_text(self._clock.now())])
            await caller.arun(connection, *self._join_finish(finish, told))

    def _join_finish(self, finish: Finish, told: ProgressWrite | None) -> tuple[str, Texts]:
        name = [finish.tenant, id_or_nobody(finish.id), str(finish.token)]
        progress = None if told is None else msgspec.json.encode([told]).decode()
        return self._sql["join_finish"], [*name, msgspec.json.encode([finish]).decode(), progress]

    def _join_step(self, held: Held, path: str, write: StepWrite | None) -> tuple[str, Texts]:
        told = None if write is None else msgspec.json.encode(write).decode()
        name = [held.tenant, id_or_nobody(held.id), str(held.token), path]
        return self._sql["join_step"], [*name, told]

    def read(self, connection: object, tenant: str, ids: Sequence[str]) -> Sequence[RunRecord]:
        """The runs of these ids as the caller's transaction sees them, blocking."""
        caller = blocking(connection)
        assert caller.run is not None
        with self._told(caller):
            asked = [tenant, plain_array(ids)]
            return _records(caller.run(connection, self._sql["join_get_runs"], asked))

    def _enqueue(self, runs: Sequence[NewRun], *, hint: bool) -> tuple[str, Texts]:
        check_new(runs)
        told = _text(hint and self._hints.due({run.queue for run in runs}))
        if _is_single(runs):
            return self._sql["join_enqueue"], [told, *map(_text, pack_one(runs[0]))]
        return self._sql["join_enqueue_many"], [*map(_text, pack_batch(runs)), told]

    def _read(self, runs: Sequence[NewRun], rows: Sequence[Row]) -> Sequence[Enqueued]:
        return unpack_one(rows) if _is_single(runs) else unpack_batch(runs, rows[0][0])

    def _get_known(
        self, runs: Sequence[NewRun], answers: Sequence[Enqueued]
    ) -> tuple[str, Texts] | None:
        """The runs that exist already may be this transaction's own, unseen by any other."""
        ids = [answer.id for answer in answers if not answer.created]
        return (self._sql["join_get_runs"], [runs[0].tenant, plain_array(ids)]) if ids else None

    @contextmanager
    def _told(self, caller: Caller) -> Iterator[None]:
        """Raise what the functions refuse as the errors that they stand for."""
        kind = caller.error()
        try:
            yield
        except kind as error:
            meaning = self._meaning(error)
            if meaning is None:
                raise
            raise meaning from error

    def _meaning(self, error: BaseException) -> WindlassError | None:
        for cause in _causes(error):
            code: str = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or ""
            detail = _detail(cause)
            if code in SQLSTATES and detail is not None:
                return SQLSTATES[code](*msgspec.json.decode(detail))
            if code == _LOCKED:
                return locked("enqueue")
            if code in CHANGED:
                text = str(cause).partition("\n")[0]
                return missing_part(code, text, self._expected, callers=True)
        return None


def _is_single(runs: Sequence[NewRun]) -> bool:
    """Whether ``windlass.enqueue`` takes it; it knows nothing of runs that come after others."""
    return len(runs) == 1 and not runs[0].after


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The driver's error comes wrapped: by SQLAlchemy in ``orig``, by Django as the cause."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = getattr(found, "orig", None) or found.__cause__


def _detail(error: BaseException) -> str | None:
    """The DETAIL of a server's message: asyncpg's attribute, or psycopg's, both versions."""
    found = getattr(error, "detail", None) or getattr(
        getattr(error, "diag", None), "message_detail", None
    )
    return found if isinstance(found, str) else None  # SQLAlchemy has a list of that name


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else repr(value)


class _Found(msgspec.Struct, frozen=True):
    step: Step
    value: msgspec.Raw = NULL


def _step(rows: Sequence[Row]) -> Step | None:
    if rows[0][0] is None:
        return None
    found = msgspec.json.decode(rows[0][0], type=_Found)
    return msgspec.structs.replace(found.step, value=found.value)


def _records(rows: Sequence[Row]) -> Sequence[RunRecord]:
    return [read_row(row[0], RunRecord) for row in rows]
