"""The application: where settings, store, jobs and clients are put together."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from windlass.client import Ground, Scope
from windlass.config import SettingOptions, Settings, WorkerChanges
from windlass.context import Context, SyncContext
from windlass.domain.job import Executor, JobOptions, define_job
from windlass.duration import Duration, parse_duration
from windlass.engine.children import Isolation
from windlass.engine.environment import environment_of
from windlass.engine.hosting import WorkerThread, hosted
from windlass.engine.options import RESEND_AFTER
from windlass.engine.services import make_services
from windlass.engine.worker import Worker
from windlass.faces import AppFaces
from windlass.files.registry import Jobs
from windlass.isolation.locate import check_findable, here, origin_of, search_path, url_of
from windlass.job import Job
from windlass.requester import Requester
from windlass.resources import OpenResources, Resources
from windlass.schedules import Schedules
from windlass.schedules.declared import Declared
from windlass.schedules.wanted import ScheduleTerms
from windlass.sources import Sources
from windlass.store.callers_transaction import TransactionScope
from windlass.store.interface import Migration, Store
from windlass.transport.interface import Transport
from windlass.transport.store import StoreTransport
from windlass.verbs import AppVerbs

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


class Windlass(AppFaces):
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
        store: Store | None = None,
        **settings: Unpack[SettingOptions],
    ) -> None:
        """`transport` is a broker, `store` a database of your own (`windlass.store.interface`);
        without them `url` names the store, and it is the broker too."""
        self.ground = Ground(
            Settings.load(url=url, **settings),
            sources or Sources.system(),
            transport or StoreTransport(),
            store,
        )
        self.scope = Scope(self.ground)
        self.jobs = Jobs(self, self.scope)
        requester = Requester(self.scope, self.jobs)
        self._flows = AppVerbs(self.scope, requester)
        self.schedules = Schedules(self.scope, self.jobs, requester)
        self.resource = Resources()

    @property
    def _verbs(self) -> AppVerbs:
        return self._flows

    @property
    def settings(self) -> Settings:
        """The settings: arguments, environment and windlass.toml, put together."""
        return self.ground.settings

    @property
    def sources(self) -> Sources:
        """Where time, ids and randomness come from."""
        return self.ground.sources

    @property
    def transport(self) -> Transport:
        """How run ids reach workers."""
        return self.ground.transport

    @property
    def store(self) -> Store:
        """All durable state."""
        return self.ground.store

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
            return self.jobs.add(Job(self, self.scope, spec))

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

    def transaction(self) -> TransactionScope:
        """A transaction of your own in the store's database, by `with` or `async with`.

        `tx.execute(sql, parameters)` runs statements on your own tables, and what is enqueued
        with `connection=tx` exists if and only if the transaction commits.
        """
        return self.store.transaction()

    # -- work -------------------------------------------------------------------------------

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
        environment = environment_of(
            self.ground, settings, resend_after=parse_duration(resend_after)
        )
        worker = Worker(
            environment,
            self.jobs.specs(),
            services=make_services(environment) if services else (),
            expecting=self.jobs.folder is not None,
            resources=OpenResources(self.resource.openers),
            announce=self._announce,
            isolation=self._isolation(),
        )
        self.jobs.served_by(worker)
        return worker

    async def _announce(self) -> None:
        await self.schedules.announce()

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

    def migrate(self) -> Migration:
        """Bring the store's schema up to date; returns what it was, is, and what was mended."""
        return self.store.migrate()

    def close(self) -> None:
        """Close the connections of the sync face."""
        self.store.close()

    async def aclose(self) -> None:
        """Close everything."""
        await self.store.aclose()
