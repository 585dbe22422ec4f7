"""Each operation as one statement: a call of a function, and how its rows are read."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import msgspec

from windlass.domain.artifact import Artifact
from windlass.domain.run import (
    Backlog,
    CycleReply,
    Enqueued,
    Event,
    Finish,
    Held,
    JobRow,
    NewRun,
    RenewReply,
    RunFilter,
    RunRecord,
    RunRef,
    SweepReply,
    Want,
    WorkerInfo,
)
from windlass.errors import StoreError
from windlass.store.interface import Call
from windlass.store.mending import UNREADABLE, read_row
from windlass.store.postgres.cycle import pack_cycle, unpack_cycle
from windlass.store.postgres.enqueue import (
    are_plain,
    pack_batch,
    pack_one,
    pack_plain,
    unpack_batch,
    unpack_one,
)
from windlass.store.postgres.ids import check_new, id_or_nobody, only_ids
from windlass.store.postgres.instants import instant
from windlass.store.postgres.literals import plain_array, text_array
from windlass.store.queries import load_queries

T = TypeVar("T")
Row = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode


class Statement(Call[T]):
    """One statement, in a transaction of its own, and how to read its rows.

    ``about`` is the run that it is about, as the caller named it.
    """

    __slots__ = ("about", "parameters", "read", "sql")

    def __init__(
        self,
        name: str,
        sql: str,
        parameters: tuple[object, ...],
        read: Callable[[Sequence[Row]], T],
        *,
        repeatable: bool = True,
        patient: bool = False,
        about: str | None = None,
    ) -> None:
        super().__init__(name, repeatable=repeatable, patient=patient)
        self.about = about
        self.sql = sql
        self.parameters = parameters
        self.read = read

    def answer(self, rows: Sequence[Row]) -> T:
        """Read the rows. Raises StoreError where they make no sense: by then it has been done."""
        try:
            return self.read(rows)
        except UNREADABLE as problem:
            raise StoreError(
                f"PostgreSQL has carried out {self.name}, but its answer cannot be read: {problem}"
            ) from problem

    @property
    def weight(self) -> int:
        """How much it carries: about so many bytes."""
        return sum([len(value) for value in self.parameters if isinstance(value, str)])

    @property
    def keeps_its_plan(self) -> bool:
        """Whether it may be prepared: it reads no table but by functions, whose plans are pinned.

        A plan that was made for a few rows, and kept, would read through the million that follow.
        """
        return not _reads_tables(self.sql)


@cache
def _reads_tables(sql: str) -> bool:
    return _TABLE.search(sql) is not None


_TABLE = re.compile(r"\b(?:from|join) windlass\.\w+\b(?!\()")


class PostgresArtifacts:
    """The operations about artifacts, on PostgreSQL."""

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql

    def put(self, artifact: Artifact) -> Call[Artifact]:
        """Record one."""
        parameters = (
            artifact.tenant,
            artifact.id,
            artifact.name,
            artifact.content_type,
            artifact.size,
            artifact.sha256,
            artifact.location,
            artifact.run,
        )
        return Statement(
            "put_artifact",
            self._sql["put_artifact"],
            parameters,
            lambda rows: _only(rows, Artifact),
            patient=True,
        )

    def get(self, tenant: str, artifact: str) -> Call[Artifact | None]:
        """One artifact."""
        return Statement(
            "get_artifact",
            self._sql["get_artifact"],
            (tenant, id_or_nobody(artifact)),
            lambda rows: _first(rows, Artifact),
        )

    def delete(self, tenant: str, artifact: str) -> Call[bool]:
        """Forget one."""
        return Statement(
            "delete_artifact",
            self._sql["delete_artifact"],
            (tenant, id_or_nobody(artifact)),
            _value,
            repeatable=False,
            patient=True,
        )

    def delete_under(self, held: Held, artifact: str) -> Call[bool | None]:
        """Forget one under a lease."""
        return Statement(
            "delete_artifact_under",
            self._sql["delete_artifact_under"],
            (held.tenant, id_or_nobody(held.id), held.token, id_or_nobody(artifact)),
            _value,
            repeatable=False,
            patient=True,
        )


class _Calls:
    """Where operations find their statements."""

    def __init__(self) -> None:
        self._sql = load_queries("postgres")

    def _call(
        self,
        name: str,
        parameters: tuple[object, ...],
        read: Callable[[Sequence[Row]], T],
        *,
        repeatable: bool = True,
        patient: bool = False,
        about: str | None = None,
    ) -> Call[T]:
        return Statement(
            name,
            self._sql[name],
            parameters,
            read,
            repeatable=repeatable,
            patient=patient,
            about=about,
        )


class PostgresControl(_Calls):
    """The operations of :class:`windlass.store.control.ControlOperations`, on PostgreSQL."""

    def cancel(self, run: RunRef, reason: str | None) -> Call[RunRecord]:
        """End a run, or ask for its end."""
        return self._call(
            "cancel",
            (run.tenant, id_or_nobody(run.id), reason),
            lambda rows: _only(rows, RunRecord),
            patient=True,
            about=run.id,
        )

    def retry(self, run: RunRef, max_attempts: int | None) -> Call[RunRecord]:
        """Reopen a run. Not repeatable: the second try would find it queued and refuse."""
        return self._call(
            "retry",
            (run.tenant, id_or_nobody(run.id), max_attempts),
            lambda rows: _only(rows, RunRecord),
            repeatable=False,
            patient=True,
            about=run.id,
        )

    def reschedule(
        self, run: RunRef, *, at: datetime | None = None, delay: float | None = None
    ) -> Call[RunRecord]:
        """Move a run in time. Not repeatable: meanwhile it may have started."""
        return self._call(
            "reschedule",
            (run.tenant, id_or_nobody(run.id), at, delay),
            lambda rows: _only(rows, RunRecord),
            repeatable=False,
            patient=True,
            about=run.id,
        )

    def discard(self, tenant: str, runs: Sequence[str]) -> Call[int]:
        """Take failed runs off the dead letters. Not repeatable: a second try would count none."""
        parameters = (tenant, plain_array(only_ids(runs)))
        return self._call("discard", parameters, _value, repeatable=False, patient=True)


class PostgresOperations(PostgresControl):
    """The operations of ``store.interface``, on PostgreSQL."""

    def __init__(self) -> None:
        super().__init__()
        self.artifacts = PostgresArtifacts(self._sql)

    def sync_jobs(self, jobs: Sequence[JobRow], worker: str | None = None) -> Call[None]:
        """Insert or update job rows."""
        return self._call("sync_jobs", (_encode(jobs).decode(), worker), _nothing)

    def get_job(self, tenant: str, name: str) -> Call[JobRow | None]:
        """One job row."""
        return self._call("list_jobs", (tenant, name, name), lambda rows: _first(rows, JobRow))

    def list_jobs(self, tenant: str) -> Call[Sequence[JobRow]]:
        """All job rows of a tenant."""
        return self._call("list_jobs", (tenant, None, None), lambda rows: _all(rows, JobRow))

    def enqueue(self, runs: Sequence[NewRun], *, patient: bool = True) -> Call[Sequence[Enqueued]]:
        """Insert runs; one alone, and those without options, take shorter ways."""
        check_new(runs)
        if len(runs) == 1 and (patient or runs[0].key is None):
            return self._call("enqueue", pack_one(runs[0]), unpack_one, patient=patient)
        plain = are_plain(runs)
        return self._call(
            "enqueue_plain" if plain else "enqueue_many",
            pack_plain(runs) if plain else (*pack_batch(runs), patient),
            lambda rows: unpack_batch(runs, rows[0][0]),
            patient=patient,
        )

    def register(self, worker: WorkerInfo, lease: float) -> Call[datetime]:
        """Make a worker known."""
        parameters = (
            worker.id,
            lease,
            worker.host,
            worker.pid,
            worker.version,
            None if worker.queues is None else text_array(worker.queues),
            text_array(worker.jobs),
            worker.seats,
        )
        return self._call("register", parameters, lambda rows: instant(rows[0][0]))

    def cycle(
        self, worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
    ) -> Call[CycleReply]:
        """Finish and claim in one round trip."""
        parameters = pack_cycle(worker, claim_no, finishes, want)
        # Runs claimed by name say nothing of how far a queue was read.
        marked = want is not None and want.ids is None
        return self._call(
            "cycle",
            parameters,
            lambda rows: unpack_cycle(rows, marked=marked),
            repeatable=want is None,
        )

    def renew(
        self, worker: str, lease: float, held: Sequence[Held], settled: int
    ) -> Call[RenewReply]:
        """Keep a worker alive."""
        parameters = (
            worker,
            lease,
            text_array([h.tenant for h in held]),
            plain_array([h.id for h in held]),
            plain_array([h.token for h in held]),
            settled,
        )
        return self._call("renew", parameters, lambda rows: _only(rows, RenewReply))

    def retire(self, worker: str) -> Call[int]:
        """Forget a worker that stops."""
        return self._call("retire", (worker,), _value)

    def list_workers(self) -> Call[Sequence[WorkerInfo]]:
        """All workers known."""
        return self._call("list_workers", (), lambda rows: _all(rows, WorkerInfo))

    def sweep(
        self,
        *,
        dispatch: bool,
        expire: bool,
        reap: bool,
        max_crashes: int,
        limit: int,
        every: float = 0.0,
        spare: bool = True,
    ) -> Call[SweepReply]:
        """Dispatcher, expiry and reaper."""
        parameters = (dispatch, expire, reap, max_crashes, limit, every, spare)
        return self._call("sweep", parameters, lambda rows: _only(rows, SweepReply))

    def unpublished(self, older_than: float, limit: int) -> Call[Sequence[RunRef]]:
        """Ready runs whose message has to be sent again."""
        return self._call(
            "unpublished", (older_than, limit), lambda rows: [RunRef(*row) for row in rows]
        )

    def progress(self, held: Held, fraction: float | None, message: str | None) -> Call[bool]:
        """Record the latest progress."""
        parameters = (held.tenant, id_or_nobody(held.id), held.token, fraction, message)
        return self._call("progress", parameters, _value, patient=True)

    def get_run(self, run: RunRef) -> Call[RunRecord | None]:
        """One run."""
        return self._call(
            "get_runs",
            (run.tenant, plain_array(only_ids([run.id]))),
            lambda rows: _first(rows, RunRecord),
        )

    def has_ended(self, run: RunRef) -> Call[bool | None]:
        """Whether a run has ended."""
        return self._call(
            "has_ended",
            (run.tenant, id_or_nobody(run.id)),
            lambda rows: rows[0][0] if rows else None,
        )

    def get_runs(self, tenant: str, ids: Sequence[str]) -> Call[Sequence[RunRecord]]:
        """Several runs."""
        return self._call(
            "get_runs",
            (tenant, plain_array(only_ids(ids))),
            lambda rows: _all(rows, RunRecord),
        )

    def list_runs(self, query: RunFilter) -> Call[Sequence[RunRecord]]:
        """A page of runs."""
        parameters = (
            query.tenant,
            query.status,
            query.job,
            query.queue,
            query.tag,
            query.failure,
            query.dead,
            query.created_from,
            query.created_to,
            None if query.before is None else id_or_nobody(query.before),
            query.limit,
        )
        return self._call("list_runs", parameters, lambda rows: _all(rows, RunRecord))

    def list_events(self, run: RunRef, after: int, limit: int) -> Call[Sequence[Event]]:
        """A run's events."""
        return self._call(
            "list_events",
            (run.tenant, id_or_nobody(run.id), after, limit),
            lambda rows: _all(rows, Event),
        )

    def backlog(self, queues: Sequence[str] | None, jobs: Sequence[str] | None) -> Call[Backlog]:
        """What is left to do."""
        parameters = (
            None if queues is None else text_array(queues),
            None if jobs is None else text_array(jobs),
        )
        return self._call("backlog", parameters, lambda rows: _only(rows, Backlog))


def _nothing(rows: Sequence[Row]) -> None:
    return None


def _value(rows: Sequence[Row]) -> Any:
    return rows[0][0]


def _only(rows: Sequence[Row], kind: type[T]) -> T:
    return _parse(rows[0][0], kind)


def _first(rows: Sequence[Row], kind: type[T]) -> T | None:
    return _parse(rows[0][0], kind) if rows else None


def _all(rows: Sequence[Row], kind: type[T]) -> Sequence[T]:
    return [_parse(row[0], kind) for row in rows]


def _parse(text: str, kind: type[T]) -> T:
    return read_row(text, kind)
