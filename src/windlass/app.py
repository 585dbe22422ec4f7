"""The application: where settings, store, jobs and clients are put together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, get_args, overload

from windlass.acting import acting_as
from windlass.chaining import Chaining
from windlass.client import Ground, Run, Scope, Selection
from windlass.client.app_artifacts import AppArtifacts
from windlass.client.filters import SelectOptions
from windlass.client.waiting import Completions
from windlass.config import SettingOptions, Settings, WorkerChanges
from windlass.definitions import Definitions, name_handler
from windlass.domain.job import (
    Executor,
    FailureOptions,
    JobOptions,
    JobSpec,
    define_job,
    describe_handler,
)
from windlass.domain.origin import ModuleMember
from windlass.duration import Duration, parse_duration
from windlass.engine.audience import Audience
from windlass.engine.children import Isolation
from windlass.engine.discovery import Discovery
from windlass.engine.environment import environment_of
from windlass.engine.hosting import WorkerThread, hosted
from windlass.engine.options import RESEND_AFTER
from windlass.engine.services import make_services
from windlass.engine.worker import Worker
from windlass.errors import BadOption
from windlass.faces import AppFaces
from windlass.files.registry import Jobs
from windlass.following import Following
from windlass.isolation.locate import check_findable, here, origin_of, search_path, url_of
from windlass.job import Job, Membership
from windlass.listeners import Listeners
from windlass.middleware import Middleware
from windlass.modules import import_all, name_with_module
from windlass.requester import Requester
from windlass.resources import OpenResources, Resources
from windlass.router import Router
from windlass.schedules import Schedules
from windlass.schedules.declared import Declared
from windlass.schedules.wanted import ScheduleTerms
from windlass.sources import Sources
from windlass.store.callers_transaction import TransactionScope
from windlass.store.interface import Migration, Store
from windlass.store.open import url_of_pool
from windlass.transport.interface import Transport
from windlass.transport.store import StoreTransport
from windlass.verbs import AppVerbs

if TYPE_CHECKING:
    from windlass.store.postgres.lent import Lender

R = TypeVar("R")

Names = Literal["function", "module"]
"""What a job is called unless it says: `send`, or `shop.mail.send`."""


class Windlass(Definitions, Chaining, Following, AppFaces):
    """An application: its jobs and schedules, and the database that keeps their runs.

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
        pool: "Lender | Sequence[Lender] | None" = None,
        names: Names = "function",
        **settings: Unpack[SettingOptions],
    ) -> None:
        """`transport` is a broker, `store` a database of your own (`windlass.store.interface`);
        without them `url` names the store, and it is the broker too. `pool` is a pool of
        psycopg_pool, blocking or async, or one of each: calls borrow its connections, and `url` is
        not needed then. With `names="module"` jobs are named by module and function,
        `shop.mail.send`, unless they say otherwise."""
        if pool is not None and store is not None:
            raise BadOption("pool", "a store of your own has its own connections: give one of them")
        if names not in get_args(Names):
            raise BadOption("names", f"{names!r} is neither 'function' nor 'module'")
        self.names = names
        self.made_by: ModuleMember | None = None
        leads_to = url if url is not None or pool is None else url_of_pool(pool)
        self.ground = self._make_ground(
            Settings.load(url=leads_to, **settings),
            sources or Sources.system(),
            transport or StoreTransport(),
            store,
        )
        if pool is not None:
            self.ground.borrow_from(pool, compare=url is not None)
        self.scope = Scope(self.ground)
        self.jobs = Jobs(self, self.scope)
        requester = Requester(self.scope, self.jobs)
        self.ground.requester = lambda scope: Requester(scope, self.jobs)
        self._flows = AppVerbs(self.scope, requester)
        self.artifacts = AppArtifacts(self.scope)
        self.schedules = Schedules(self.scope, self.jobs, requester)
        self.resource = Resources()
        self.middleware = Middleware()
        self.on = Listeners()

    def _make_ground(
        self, settings: Settings, sources: Sources, transport: Transport, store: Store | None
    ) -> Ground:
        """Make what the application works with; subclasses that choose their store override it."""
        return Ground(settings, sources, transport, store)

    @property
    def _verbs(self) -> AppVerbs:
        return self._flows

    @property
    def settings(self) -> Settings:
        """The settings, from arguments, environment and windlass.toml."""
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
        """The store: where runs, schedules and workers are kept."""
        return self.ground.store

    # -- jobs -------------------------------------------------------------------------------

    def include(self, router: Router, *, take_over: bool = False) -> None:
        """Take a router's jobs, schedules and resources, also those that are added to it later.

        A router belongs to one application; `take_over` takes it from the one that has it.
        """
        router.join(self, take_over=take_over)

    def autodiscover(self, *packages: str) -> Sequence[str]:
        """Import every module of these packages, and return their names: `"shop.jobs"`.

        Raises UsageError with the file and line where a module cannot be imported.
        """
        return [module for package in packages for module in import_all(package)]

    def specify(self, function: Callable[..., Any], options: JobOptions) -> JobSpec:
        """Check a definition with the defaults of this application; it is not kept."""
        given: JobOptions = {"max_attempts": self.settings.max_attempts, **options}
        if self.names == "module" and not given.get("name"):
            given["name"] = name_with_module(function)
        spec = define_job(function, **given)
        check_findable(spec)
        return spec

    def _define(self, function: Callable[..., Any], options: Any) -> Job[Any, Any, Any]:
        spec = self.specify(function, options)
        return self.jobs.add(Job(Membership(spec, self, self.scope)))

    def _define_handler(
        self, function: Callable[..., Any], options: FailureOptions, of: Membership | None
    ) -> Job[Any, Any, Any]:
        given = options if of is None else name_handler(options, of.spec.name)
        spec = self.specify(function, {**given})  # type: ignore[typeddict-item]
        describe_handler(spec, given)
        return self.jobs.add(Job(Membership(spec, self, self.scope, handles=given)))

    def _handlers_changed(self) -> None:
        self.jobs.refresh()

    # -- runs -------------------------------------------------------------------------------

    def schedule(
        self,
        job: str | Job[Any, Any, Any],
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Declared:
        """Declare a schedule: it makes runs of a job. Workers store it when they start.

        Give `once=`, `interval=` or `cron=` (with `timezone=`), and, if you like, `start`, `end`,
        `max_runs`, `spread`, `catch_up` and `overlap`. A job may have several schedules, each with
        its own key; the key of the first is the job's name unless given. To make schedules at run
        time, see `app.schedules`.
        """
        return self.schedules.declare(job, key=key, input=input, **terms)

    def select(self, *, everything: bool = False, **query: Unpack[SelectOptions]) -> Selection:
        """The runs that fit, newest first: to go through, to count, to act on all of them.

        `for run in app.select(status="failed", job="mail")` reads page by page, `async for` too;
        `app.select(job="mail").cancel()` ends them. The filters are those of `list`. Without any, a
        verb is refused unless you say `everything=True`.
        """
        return Selection(self.scope, query, everything=everything)

    def acting_as(self, name: str) -> AbstractContextManager[None]:
        """Let what is done in the block be done by them: `with app.acting_as("ann"): …`.

        The audit log names them (`app.audit()`). Without it that is the run whose handler acts, or
        the user of the operating system. It counts for the task or thread that is in the block.
        """
        return acting_as(name)

    @overload
    def as_completed(
        self, runs: Iterable[Run[R]], *, timeout: Duration | None = None
    ) -> Completions[R]: ...
    @overload
    def as_completed(
        self, runs: Iterable[Run[Any] | str], *, timeout: Duration | None = None
    ) -> Completions[Any]: ...

    def as_completed(
        self, runs: Iterable[Run[Any] | str], *, timeout: Duration | None = None
    ) -> Completions[Any]:
        """Each run as soon as it has ended: `for run in app.as_completed(runs)`, or `async for`.

        One look at the store is for all of them. Raises RunNotFound, which names those that do not
        exist, and ResultTimeout if some have not ended in time, counted from the loop's beginning.
        """
        return Completions(self.scope, runs, timeout)

    def transaction(self) -> TransactionScope:
        """Open a transaction of your own in the store's database, by `with` or `async with`.

        `tx.execute(sql, parameters)` runs statements on your own tables. A run that you enqueue
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
        """Make a worker for the jobs defined here; run it with `await worker.run()`.

        It has the application's settings with these changes. Without `services` it leaves
        schedules, expiry and recovery to other workers. What a transport has not delivered within
        `resend_after` is sent again.
        """
        settings = self.settings.having(**changes)
        environment = environment_of(
            self.ground, settings, resend_after=parse_duration(resend_after)
        )
        discovery = None if self.jobs.finder is None else Discovery(environment, self.jobs)
        worker = Worker(
            environment,
            self.jobs.specs(),
            services=[
                *(make_services(environment) if services else ()),
                *([] if discovery is None else [discovery]),
            ],
            expecting=self.jobs.folder is not None or discovery is not None,
            resources=OpenResources(self.resource.openers),
            announce=partial(self._announce, discovery),
            isolation=self._isolation(),
            hooks=self.middleware.around,
            audience=Audience(self.scope, self.on.all),
        )
        self.jobs.served_by(worker)
        return worker

    async def _announce(self, discovery: Discovery | None) -> None:
        if discovery is not None:
            # Before the worker starts: if it is to drain the store, it needs all jobs by then.
            await discovery.look()
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
        """Run a worker inside your program: `async with app.running(): ...`.

        It runs on this event loop while the block lasts, then stops gracefully; signals are left
        to your program. The block begins when the worker is known to the store, or at once if
        `wait` is False. The options are those of `worker`.
        """
        return hosted(self.worker(services=services, **changes), self.aclose, wait=wait)

    def running_in_thread(
        self, *, wait: bool = True, services: bool = True, **changes: Unpack[WorkerChanges]
    ) -> WorkerThread:
        """Run a worker in a thread of your program, by `with`, or by `start()` and `stop()`."""
        make = partial(self.worker, services=services, **changes)
        return WorkerThread(make, self.aclose, wait=wait)

    def migrate(self) -> Migration:
        """Bring the store's schema up to date; returns what was done."""
        return self.store.migrate()

    def close(self) -> None:
        """Close the connections of blocking calls; they open again when used."""
        self.store.close()

    async def aclose(self) -> None:
        """Close all connections, also those of async calls; they open again when used."""
        await self.store.aclose()
