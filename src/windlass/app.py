"""The application: where settings, store, jobs and clients are put together."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from windlass.client import Client, Request, Run
from windlass.client.client import ListOptions
from windlass.client.requests import UsingOptions
from windlass.config import SettingOptions, Settings, WorkerChanges
from windlass.context import Context, SyncContext
from windlass.domain.inspection import WorkerState
from windlass.domain.job import Executor, JobOptions, define_job
from windlass.duration import Duration, parse_duration
from windlass.engine.children import Isolation
from windlass.engine.hosting import WorkerThread, hosted
from windlass.engine.options import WorkerOptions
from windlass.engine.sweeper import RESEND_AFTER
from windlass.engine.worker import Worker
from windlass.files.registry import Jobs
from windlass.isolation.locate import check_findable, here, origin_of, search_path, url_of
from windlass.job import Job
from windlass.requester import Named, Requester
from windlass.resources import OpenResources, Resources
from windlass.schedules import Schedules
from windlass.schedules.declared import Declared
from windlass.schedules.wanted import ScheduleTerms
from windlass.sources import Sources
from windlass.store.flow import arun_flow, run_flow
from windlass.store.interface import Store
from windlass.store.open import open_store
from windlass.store.transactions import TransactionScope
from windlass.transport.interface import Transport
from windlass.transport.store import StoreTransport

P = ParamSpec("P")
R = TypeVar("R")


class JobDecorator(Protocol):
    """What `app.job(...)` with options returns."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Job[P, Concatenate[Context, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, handler: Callable[Concatenate[SyncContext, P], R], /
    ) -> Job[P, Concatenate[SyncContext, P], R]: ...
    @overload
    def __call__(self, handler: Callable[P, R], /) -> Job[P, P, R]: ...


class Windlass:
    """Durable jobs in one database.

    >>> app = Windlass("sqlite:///windlass.db")
    >>> @app.job
    ... async def greet(name: str) -> str:
    ...     return f"Hello, {name}"

    Nothing is opened until it is used. `url` is `sqlite:///file.db` or `postgresql://…`; it and
    the other settings also come from `WINDLASS_*` variables and `windlass.toml`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        transport: Transport | None = None,
        sources: Sources | None = None,
        **settings: Unpack[SettingOptions],
    ) -> None:
        self.settings = Settings.load(url=url, **settings)
        self.sources = sources or Sources.system()
        self.transport = transport or StoreTransport()
        self.store: Store = open_store(self.settings, self.sources)
        self.client = Client(self.store, self.sources, self.transport, tenant=self.settings.tenant)
        self.jobs = Jobs(self)
        self._requester = Requester(self)
        self.schedules = Schedules(self, self._requester)
        self.resource = Resources()

    # -- jobs -------------------------------------------------------------------------------

    @overload
    def job(
        self, handler: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Job[P, Concatenate[Context, P], Coroutine[Any, Any, R]]: ...
    @overload
    def job(
        self, handler: Callable[Concatenate[SyncContext, P], R], /
    ) -> Job[P, Concatenate[SyncContext, P], R]: ...
    @overload
    def job(self, handler: Callable[P, R], /) -> Job[P, P, R]: ...
    @overload
    def job(self, /, **options: Unpack[JobOptions]) -> JobDecorator: ...

    def job(self, handler: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a job; bare, or with options: name, queue, priority, max_attempts,
        retry, timeout, executor, default_input (of runs that are given none).

        A job's name is the function's unless given. A first parameter that is called `ctx` or
        annotated with Context (SyncContext in sync functions) gets the run's context.
        """

        def define(function: Callable[..., Any]) -> Job[Any, Any, Any]:
            options.setdefault("max_attempts", self.settings.max_attempts)
            spec = define_job(function, **options)
            if spec.executor is Executor.PROCESS:
                check_findable(spec)
            return self.jobs.add(Job(self, spec))

        return define if handler is None else define(handler)

    # -- runs -------------------------------------------------------------------------------

    def schedule(
        self,
        job: str | Job[Any, Any, Any],
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Declared:
        """Declare that runs of a job are made by themselves; stored when a worker starts.

        `once=`, `interval=` or `cron=` (with `timezone=`), bounded by start, end and max_runs;
        `spread`, `catch_up` and `overlap` say how. A job has as many as it likes, each under a
        key of its own; the first may do without, its key is the job's name. To make schedules at
        run time, see `app.schedules`.
        """
        return self.schedules.declare(job, key=key, input=input, **terms)

    def enqueue(
        self,
        job: str,
        input: Mapping[str, Any] | None = None,
        **options: Unpack[UsingOptions],
    ) -> Run:
        """Enqueue by name; the handler need not be in this process."""
        request = run_flow(self.store, self._requester.asked(job, input, **options))
        return self.client.enqueue([request])[0]

    async def aenqueue(
        self,
        job: str,
        input: Mapping[str, Any] | None = None,
        **options: Unpack[UsingOptions],
    ) -> Run:
        """As `enqueue`, in async code."""
        request = await arun_flow(self.store, self._requester.asked(job, input, **options))
        return (await self.client.aenqueue([request]))[0]

    def enqueue_many(
        self, requests: Iterable[Request | Named], *, connection: object = None
    ) -> Sequence[Run]:
        """Enqueue many runs in one round trip, all or none: `[job.request(...), ...]`.

        A job that other code defines is named: `("name", {"user_id": 7})`. With `connection`,
        your own transaction, the runs exist if and only if that commits.
        """
        asked = self._requester.asked_all(requests, connection)
        return self.client.enqueue(run_flow(self.store, asked))

    async def aenqueue_many(
        self, requests: Iterable[Request | Named], *, connection: object = None
    ) -> Sequence[Run]:
        """As `enqueue_many`, in async code."""
        asked = self._requester.asked_all(requests, connection)
        return await self.client.aenqueue(await arun_flow(self.store, asked))

    def transaction(self) -> TransactionScope:
        """A transaction of your own in the store's database, by `with` or `async with`.

        `tx.execute(sql, parameters)` runs statements on your own tables, and what is enqueued
        with `connection=tx` exists if and only if the transaction commits.
        """
        return self.store.transaction()

    def get(self, run: str) -> Run:
        """Read a run; raises RunNotFound."""
        return self.client.get(run)

    async def aget(self, run: str) -> Run:
        """As `get`, in async code."""
        return await self.client.aget(run)

    def list(self, **query: Unpack[ListOptions]) -> Sequence[Run]:
        """A page of runs, newest first, by status, job, queue, tag, failure, created_from,
        created_to, dead; `limit` of them; the next page: before=the last one's id."""
        return self.client.list(**query)

    async def alist(self, **query: Unpack[ListOptions]) -> Sequence[Run]:
        """As `list`, in async code."""
        return await self.client.alist(**query)

    def result(self, run: str, *, timeout: Duration | None = None) -> Any:
        """Wait for a run's result; raises RunFailed, ResultTimeout."""
        return self.client.result(run, timeout=timeout)

    async def aresult(self, run: str, *, timeout: Duration | None = None) -> Any:
        """As `result`, in async code."""
        return await self.client.aresult(run, timeout=timeout)

    def cancel(self, run: str, *, reason: str | None = None) -> Run:
        """End a run that has not started; ask for the end of one that is running."""
        return self.client.cancel(run, reason=reason)

    async def acancel(self, run: str, *, reason: str | None = None) -> Run:
        """As `cancel`, in async code."""
        return await self.client.acancel(run, reason=reason)

    def retry(self, run: str, *, max_attempts: int | None = None) -> Run:
        """Reopen a failed, canceled or stale run."""
        return self.client.retry(run, max_attempts=max_attempts)

    async def aretry(self, run: str, *, max_attempts: int | None = None) -> Run:
        """As `retry`, in async code."""
        return await self.client.aretry(run, max_attempts=max_attempts)

    def reschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """Move a run that has not started to another time; reopen one that ended, for that time.

        `at` is a datetime with a zone, `delay` a duration from now; what has come already is ready
        at once. Raises IllegalTransition for a run that is running or has succeeded, and RunExpires
        for one that would have expired by then.
        """
        return self.client.reschedule(run, at=at, delay=delay)

    async def areschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """As `reschedule`, in async code."""
        return await self.client.areschedule(run, at=at, delay=delay)

    def discard(self, *runs: str) -> int:
        """Take failed runs off the dead letters for good; returns how many were on them."""
        return self.client.discard(runs)

    async def adiscard(self, *runs: str) -> int:
        """As `discard`, in async code."""
        return await self.client.adiscard(runs)

    # -- work -------------------------------------------------------------------------------

    def workers(self, *, runs: int = 100) -> Sequence[WorkerState]:
        """All workers, dead ones that nobody has reaped yet included, and what each is doing.

        At most `runs` runs of each are named, those that started first; all are counted.
        """
        return self.store.run(self.store.inspection.workers(runs))

    async def aworkers(self, *, runs: int = 100) -> Sequence[WorkerState]:
        """As `workers`, in async code."""
        return await self.store.arun(self.store.inspection.workers(runs))

    def worker(
        self,
        *,
        services: bool = True,
        resend_after: Duration = RESEND_AFTER,
        **changes: Unpack[WorkerChanges],
    ) -> Worker:
        """A worker for the jobs defined here; run it with `await worker.run()`.

        It has the application's settings with these changes. Without `services` it leaves
        dispatching, expiry and recovery to others. What a transport has not delivered for
        `resend_after` is sent again.
        """
        settings = self.settings.having(**changes)
        options = WorkerOptions(
            lease=settings.lease,
            renew=settings.renew,
            sweep=settings.sweep,
            drain=settings.drain,
            poll=settings.poll,
            max_crashes=settings.max_crashes,
            concurrency=settings.concurrency,
            threads=settings.threads,
            process_seats=settings.process_seats,
            cancel_grace=settings.cancel_grace,
            recycle_runs=settings.recycle_runs,
            recycle_memory=settings.recycle_memory,
            queues=settings.queues,
            result_limit=settings.payload_limit,
            services=services,
            resend_after=parse_duration(resend_after),
            tenant=settings.tenant,
        )
        worker = Worker(
            self.store,
            self.jobs.specs(),
            options,
            sources=self.sources,
            transport=self.transport,
            expecting=self.jobs.folder is not None,
            resources=OpenResources(self.resource.openers),
            announce=self.schedules.announce,
            isolation=self._isolation(),
        )
        self.jobs.served_by(worker)
        return worker

    def _isolation(self) -> Isolation:
        """How child processes find the jobs; refuses those that need it and cannot be found."""
        isolation = Isolation(
            origin_of=partial(origin_of, self), url=url_of(self), path=partial(search_path, here())
        )
        for spec in self.jobs.specs():
            if spec.executor is Executor.PROCESS:
                isolation.origin_of(spec)
        return isolation

    def running(
        self, *, wait: bool = True, services: bool = True, **changes: Unpack[WorkerChanges]
    ) -> AbstractAsyncContextManager[Worker]:
        """Work inside another program: `async with app.running(): ...`.

        Worker and services run on this loop while the block lasts, then stop gracefully; signals
        are left to the host. It enters when the worker is known to the store, or at once without
        `wait`. The options are those of `worker`.
        """
        return hosted(self.worker(services=services, **changes), self.aclose, wait=wait)

    def running_in_thread(
        self, *, wait: bool = True, services: bool = True, **changes: Unpack[WorkerChanges]
    ) -> WorkerThread:
        """The same for programs without an event loop: by `with`, or by `start()` and `stop()`."""
        make = partial(self.worker, services=services, **changes)
        return WorkerThread(make, self.aclose, wait=wait)

    def migrate(self) -> tuple[int, int]:
        """Bring the store's schema up to date; returns the versions before and after."""
        return self.store.migrate()

    def close(self) -> None:
        """Close the connections of the sync face."""
        self.store.close()

    async def aclose(self) -> None:
        """Close everything."""
        await self.store.aclose()
