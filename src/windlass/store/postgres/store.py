"""The PostgreSQL store: two drivers for the same statements, and one judgement of errors."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psycopg

from windlass import guard
from windlass.domain.run import Finish, Held, NewRun, ProgressWrite, RunRecord
from windlass.domain.step import Step, StepWrite
from windlass.errors import StoreBusy, StoreUnavailable, UsageError
from windlass.sources import Clock, Sources, SystemClock
from windlass.store.blocking import BlockingCalls
from windlass.store.callers_transaction import Joined, TransactionScope
from windlass.store.checks import Check
from windlass.store.interface import Migration, Wakeups
from windlass.store.operations import Call, Operations
from windlass.store.postgres import callers_transaction, migrate
from windlass.store.postgres.callers_transaction import (
    AsyncPostgresTransaction,
    PostgresTransaction,
)
from windlass.store.postgres.checks import checks
from windlass.store.postgres.connections import LOOP_CONNECTIONS, AsyncPool, SyncPool
from windlass.store.postgres.database_errors import (
    Patience,
    is_outgrown,
    locked,
    named_holder,
    of_statement,
)
from windlass.store.postgres.hints import HintPace
from windlass.store.postgres.joining import Joining
from windlass.store.postgres.listen import PostgresWakeups
from windlass.store.postgres.migrate import State
from windlass.store.postgres.naming import settle_in
from windlass.store.postgres.operations import bind
from windlass.store.postgres.outage import Outage
from windlass.store.postgres.patient import (
    PatientAsyncConnection,
    PatientConnection,
    longer,
    time_for,
)
from windlass.store.postgres.statement import Row, Statement
from windlass.store.postgres.target import Target
from windlass.store.postgres.together import StepsTogether
from windlass.store.postgres.whereabouts import Whereabouts
from windlass.store.queries import load_queries

T = TypeVar("T")

_HINT = 0.1  # seconds to wait for a connection, for a hint that polling makes up for


class PostgresStore:
    """All durable state, in a schema of a PostgreSQL database: ``windlass`` unless named.

    ``stall``: seconds without an answer after which a call is given up. ``patience``: seconds
    for which a call that can be repeated is tried again while the server cannot be reached.
    """

    migrates_itself = False  # it may be many programs', and needs rights that they have not
    writes_abreast = 2
    batch = 1000

    def __init__(
        self,
        url: str,
        *,
        sources: Sources,
        stall: float = 10.0,
        patience: float = 10.0,
        schema: str | None = None,
    ) -> None:
        self._target = Target.parse(url, stall, schema)
        self._sources = sources
        self.blocking = BlockingCalls(sources.clock)
        self._patience = patience
        self.operations = Operations()
        self._sql = load_queries("postgres")
        self._sync = SyncPool(self._target)
        self._async = AsyncPool(self._target, LOOP_CONNECTIONS)
        # Apart from the others: who holds a transaction open must not keep a worker waiting.
        self._lent = AsyncPool(self._target, LOOP_CONNECTIONS)
        self._expected = migrate.expected_version()
        self._checked = False
        self.outage = Outage(self._target.place)
        self._listeners: set[PostgresWakeups] = set()
        self._hints = HintPace(self._wake_here)
        self._steps = StepsTogether(self._arun_alone, self._arun)
        # Tests run on a clock of their own; the database must tell the same time.
        self._fake: Clock | None = None if isinstance(sources.clock, SystemClock) else sources.clock
        # Tests on the real clock, in Django's test database for one, must not miss runs either.
        tested = self._fake is not None or guard.in_tests()
        self.whereabouts = Whereabouts(self._ask) if tested else None
        schema = self._target.schema
        self._joining = Joining(self._expected, self._fake, self.whereabouts, schema)

    def admit(self, write: str) -> None:
        """Nothing to refuse: a call has a connection of its own, and waits for rows only."""

    def run(self, call: Call[T]) -> T:
        """Run a call, blocking."""
        with self.blocking.watch():
            return self._run(call)

    async def arun(self, call: Call[T]) -> T:
        """Run a call on the loop."""
        if call.name == "record_steps":
            answer: T = await self._steps.run(call)
            return answer
        return await self._arun_alone(call)

    async def _arun_alone(self, call: Call[T]) -> T:
        return await self._arun(call, self._hints.put_on(bind(call)))

    async def _arun(self, call: Call[Any], statement: Statement[T]) -> T:
        patience = self._new_patience(call, statement)
        looked = False
        while True:
            try:
                async with self._async.connection() as conn:
                    await self._acheck(conn, again=looked)
                    answer = await self._aexecute(conn, statement, patient=call.patient)
                self.outage.end()
                return answer
            except psycopg.Error as error:
                if is_outgrown(error) and not looked:
                    looked = True
                    continue
                try:
                    pause = patience.after(error)
                except StoreBusy:
                    raise locked(call.name, await self._aholder()) from error
            await asyncio.sleep(pause)

    def join(self, connection: object, runs: Sequence[NewRun]) -> Joined:
        """Enqueue in the caller's transaction; after one of ours the client hints itself."""
        self._check_tests()
        hint = not isinstance(connection, PostgresTransaction)
        return self._joining.join(connection, runs, hint=hint)

    async def ajoin(self, connection: object, runs: Sequence[NewRun]) -> Joined:
        """As :meth:`join`, on the loop."""
        self._check_tests()
        hint = not isinstance(connection, AsyncPostgresTransaction)
        return await self._joining.ajoin(connection, runs, hint=hint)

    def join_step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None:
        """Look for a step, or record it, in the caller's transaction."""
        return self._joining.step(connection, held, path, write)

    async def ajoin_step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None:
        """As :meth:`join_step`, on the loop."""
        return await self._joining.astep(connection, held, path, write)

    def join_finish(self, connection: object, finish: Finish, told: ProgressWrite | None) -> None:
        """Record the end of an attempt in the caller's transaction."""
        self._joining.finish(connection, finish, told)

    async def ajoin_finish(
        self, connection: object, finish: Finish, told: ProgressWrite | None
    ) -> None:
        """As :meth:`join_finish`, on the loop."""
        await self._joining.afinish(connection, finish, told)

    def read_joined(
        self, connection: object, tenant: str, ids: Sequence[str]
    ) -> Sequence[RunRecord]:
        """Runs as the caller's transaction sees them, its own included."""
        return self._joining.read(connection, tenant, ids)

    def transaction(self) -> TransactionScope:
        """A transaction on a connection of ours."""
        return TransactionScope(
            lambda: callers_transaction.begin(self._sync),
            lambda: callers_transaction.abegin(self._lent),
        )

    def notify(self) -> None:
        """Hint to workers; at most once in a while, and a failure is no matter."""
        self._wake_here()
        if self._hints.is_due():
            try:
                with self._sync.connection(_HINT) as conn:
                    conn.execute(self._sql["notify"])
            except (psycopg.Error, StoreUnavailable):
                return

    async def anotify(self) -> None:
        """As :meth:`notify`, on the loop."""
        self._wake_here()
        if self._hints.is_due():
            try:
                async with self._async.connection(_HINT) as conn:
                    await conn.execute(self._sql["notify"])
            except (psycopg.Error, StoreUnavailable):
                return

    async def listen(self) -> Wakeups:
        """Start receiving hints."""
        wakeups = PostgresWakeups(self._target, self._sources, self._listeners.discard)
        self._listeners.add(wakeups)
        return wakeups

    @property
    def place(self) -> str:
        """The server and the database."""
        return self._target.place

    def checks(self, *, full: bool = False) -> Sequence[Check]:
        """What can be wrong with the server."""
        return checks(self._target, self._sync, self._sources)

    def migrate(self) -> Migration:
        """Bring the schema up to date, and make functions anew that somebody has damaged."""
        with self._apart() as conn:
            return migrate.migrate(conn, self._target.schema)

    def outdated(self) -> Sequence[str]:
        """Functions that are missing, changed, or of another release."""
        with self._apart() as conn:
            return migrate.find_outdated(conn)

    def schema_version(self) -> tuple[int, int]:
        """The version as found, and as needed."""
        with self._apart() as conn:
            return migrate.stored_state(conn).version, self._expected

    def backup(self, place: Path, *, replace: bool) -> int:
        """Not for us: PostgreSQL's own tools do it better, and with the rest of the database."""
        raise UsageError(
            f"PostgreSQL is backed up by its own tools: run `pg_dump --format=custom "
            f"--schema={self._target.schema} --file={place} {self._target.server}`, and pg_restore "
            "to go back."
        )

    def close(self) -> None:
        """Close the connections of the blocking face."""
        self._sync.close()

    async def aclose(self) -> None:
        """Close everything."""
        for wakeups in tuple(self._listeners):
            await wakeups.close_from(asyncio.get_running_loop())
        await self._async.close()
        await self._lent.close()
        self._sync.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, call: Call[T]) -> T:
        statement = self._hints.put_on(bind(call))
        patience = self._new_patience(call, statement)
        looked = False
        while True:
            try:
                with self._sync.connection() as conn:
                    self._check(conn, again=looked)
                    answer = self._execute(conn, statement, patient=call.patient)
                self.outage.end()
                return answer
            except psycopg.Error as error:
                if is_outgrown(error) and not looked:
                    looked = True  # the check knows what to say of it
                    continue
                try:
                    pause = patience.after(error)
                except StoreBusy:
                    raise locked(call.name, self._holder()) from error
            time.sleep(pause)

    def _check_tests(self) -> None:
        """As where a connection of ours is opened, which need not be here."""
        if guard.in_tests():  # first, because the place takes longer to be told
            guard.check(self.place)

    def _ask(self, query: str, parameters: Sequence[str]) -> Row:
        with self._sync.connection() as conn:
            return conn.execute(query, parameters).fetchone() or ()

    def _holder(self) -> str | None:
        """Who probably holds the lock that a call has waited for."""
        with suppress(psycopg.Error, StoreUnavailable), self._sync.connection() as conn:
            return named_holder(conn.execute(self._sql["lock_holder"]).fetchone())
        return None

    async def _aholder(self) -> str | None:
        with suppress(psycopg.Error, StoreUnavailable):
            async with self._async.connection() as conn:
                return named_holder(await (await conn.execute(self._sql["lock_holder"])).fetchone())
        return None

    @contextmanager
    def _apart(self) -> Iterator[psycopg.Connection[Row]]:
        """A connection beside the pool: a migration may take longer than a call may stall."""
        guard.check(self.place)
        try:
            with psycopg.connect(self._target.conninfo, autocommit=True) as conn:
                settle_in(conn, self._target.schema)
                yield conn
        except psycopg.Error as error:
            raise of_statement(error, "a change of the schema") from error

    def _new_patience(self, call: Call[T], statement: Statement[T]) -> Patience:
        # A renewal must come soon after the server does: well within what a call may take.
        longest = self._target.stall / 2
        # One that is large may be broken off when all the time of a small one is over.
        limit = self._patience + time_for(statement.weight)
        return Patience(
            call, statement.about, self._sources, limit, longest, self._expected, self.outage
        )

    def _execute(self, conn: PatientConnection, statement: Statement[T], *, patient: bool) -> T:
        if self._fake is None and not conn.begins:
            with longer(conn, statement.weight, patient):
                cursor = conn.execute(statement.sql, statement.parameters, prepare=conn.prepares)
            return statement.answer(cursor.fetchall())
        with conn.transaction():
            if conn.begins:
                conn.execute(self._sql["read_committed"])
            if self._fake is not None:
                conn.execute(self._sql["fake_now"], (self._fake.now().isoformat(),))
            with longer(conn, statement.weight, patient):
                rows = conn.execute(statement.sql, statement.parameters).fetchall()
        return statement.answer(rows)

    async def _aexecute(
        self, conn: PatientAsyncConnection, statement: Statement[T], *, patient: bool
    ) -> T:
        if self._fake is None and not conn.begins:
            with longer(conn, statement.weight, patient):
                cursor = await conn.execute(
                    statement.sql, statement.parameters, prepare=conn.prepares
                )
            return statement.answer(await cursor.fetchall())
        async with conn.transaction():
            if conn.begins:
                await conn.execute(self._sql["read_committed"])
            if self._fake is not None:
                await conn.execute(self._sql["fake_now"], (self._fake.now().isoformat(),))
            with longer(conn, statement.weight, patient):
                cursor = await conn.execute(statement.sql, statement.parameters)
                rows = await cursor.fetchall()
        return statement.answer(rows)

    def _check(self, conn: PatientConnection, *, again: bool) -> None:
        """Once per store, and where something is missing: is this the schema that we know?

        One that has worked goes on with what it still finds: a worker may give its leases back.
        """
        if again or not self._checked:
            migrate.check(migrate.stored_state(conn))
            self._checked = True

    async def _acheck(self, conn: PatientAsyncConnection, *, again: bool) -> None:
        if again or not self._checked:
            migrate.check(await self._stored_state(conn))
            self._checked = True

    async def _stored_state(self, conn: PatientAsyncConnection) -> State:
        may_read: Row | None = await (await conn.execute(self._sql["may_read_state"])).fetchone()
        if may_read is None:
            return State()
        query = migrate.state_query(may_read=may_read[0])
        found: Row | None = await (await conn.execute(query)).fetchone()
        return State(*found) if found else State()

    def _wake_here(self) -> None:
        for wakeups in tuple(self._listeners):
            wakeups.wake()
