"""Jobs without an application: a module defines them on a router, an application includes it later.

    # shop/mail.py
    router = Router(prefix="mail", queue="mail")

    @router.job
    async def welcome(user_id: int) -> None: ...        # the job mail.welcome

    # shop/app.py
    app = Windlass()
    app.include(mail.router)

Modules that define jobs need not import the application, so that imports do not run in circles. The
functions can be called at any time; to enqueue a job, its router must be included.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from windlass.client import Request
from windlass.definitions import Definitions, name_handler
from windlass.domain.job import (
    DefaultOptions,
    FailureOptions,
    JobOptions,
    JobSpec,
    check_defaults,
    check_name,
    define_job,
    describe_handler,
)
from windlass.domain.scheduling.definition import define_schedule
from windlass.errors import UsageError
from windlass.isolation.locate import check_findable
from windlass.job import Job, Membership
from windlass.listeners import Listeners
from windlass.resources import Resources
from windlass.schedules.wanted import ScheduleTerms, Wanted
from windlass.sources import Sources

if TYPE_CHECKING:
    from windlass.app import Windlass

AnyJob = Job[Any, Any, Any]

_OF_HANDLERS = ("max_attempts", "retry", "timeout", "executor")
"""The defaults that failure handlers have too: queue and priority are those of the failed run."""


@dataclass(frozen=True, slots=True)
class _Defined:
    """A job as it was written down, before an application has it."""

    function: Callable[..., Any]
    options: JobOptions
    membership: Membership
    job: AnyJob
    handler_of: Membership | None = None
    """The job whose failures it handles, if it is named after it."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """A schedule as it was written down."""

    job: str | AnyJob
    key: str | None
    input: Mapping[str, Any] | None
    terms: ScheduleTerms


class Router(Definitions):
    """Jobs, schedules and resources for an application that includes them later.

    `prefix` is put before the name of each job, with a dot. The other options are defaults of its
    jobs, such as queue, max_attempts and tags; what a job says itself counts more. Its `on_failure`
    is for failures of its own jobs.
    """

    def __init__(self, *, prefix: str | None = None, **defaults: Unpack[DefaultOptions]) -> None:
        check_defaults(defaults)
        self._prefix = None if prefix is None else check_name("prefix", prefix)
        self._defaults = defaults
        self._jobs: list[_Defined] = []
        self._schedules: list[_Planned] = []
        self._keys: list[str] = []  # of the schedules that the application has of it
        self._app: Windlass | None = None
        self.resource = Resources()
        self.on = Listeners()

    @property
    def app(self) -> "Windlass | None":
        """The application that has included it."""
        return self._app

    def schedule(
        self,
        job: str | AnyJob,
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> None:
        """Declare a schedule, as `app.schedule` does."""
        name = job if isinstance(job, str) else job.name
        wanted = Wanted.of(Request.of_nothing(name), key, **terms)
        define_schedule(Sources.system().now(), **wanted.timing)
        if isinstance(job, Job) and input is not None:
            job.spec.signature.encode((), input)
        planned = _Planned(job, key, input, terms)
        self._schedules.append(planned)
        if self._app is not None:
            self._declare(self._app, planned)

    def join(self, app: "Windlass", *, take_over: bool = False) -> None:
        """Give an application everything that is here, and what will be: see `app.include`."""
        if self._app is app:
            raise UsageError(f"The application has included {self!r} already.")
        if self._app is not None and not take_over:
            raise UsageError(
                f"{self!r} belongs to another application, and its jobs can have only one. In a "
                "factory, write app.include(router, take_over=True): the latest application has it."
            )
        # All of it is checked before anything changes.
        specs = self._specify(app)
        app.jobs.check_free(specs)
        app.resource.check_free(self.resource)
        if self._app is not None:
            self._leave(self._app)
        self._app = app
        for item, spec in zip(self._jobs, specs, strict=True):
            _bind(item.membership, spec, app)
            app.jobs.add(item.job)
        for planned in self._schedules:
            self._declare(app, planned)
        app.resource.add_all(self.resource)
        app.on.add_all(self.on)

    def _define(self, function: Callable[..., Any], options: Any) -> AnyJob:
        own: JobOptions = {**self._defaults, **options}  # type: ignore[typeddict-item]
        return self._keep(function, self._prefixed(function, own))

    def _define_handler(
        self, function: Callable[..., Any], options: FailureOptions, of: Membership | None
    ) -> AnyJob:
        shared = {name: v for name, v in self._defaults.items() if name in _OF_HANDLERS}
        own: JobOptions = {**shared, **options}  # type: ignore[typeddict-item]
        if of is None or own.get("name"):
            own = self._prefixed(function, own)
        after = of if of is not None and not own.get("name") else None
        return self._keep(function, own, handles=options, handler_of=after)

    def _prefixed(self, function: Callable[..., Any], options: JobOptions) -> JobOptions:
        if self._prefix is None:
            return options
        name = options.get("name") or getattr(function, "__name__", "")
        return {**options, "name": f"{self._prefix}.{name}"}

    def _keep(
        self,
        function: Callable[..., Any],
        options: JobOptions,
        handles: FailureOptions | None = None,
        handler_of: Membership | None = None,
    ) -> AnyJob:
        named = options if handler_of is None else name_handler(options, handler_of.spec.name)
        spec = define_job(function, **named)
        check_findable(spec)
        if handles is not None:
            describe_handler(spec, handles)
        membership = Membership(spec, router=self, handles=handles)
        if self._app is not None:
            _bind(membership, self._app.specify(function, named), self._app)
        job: AnyJob = Job(membership)
        if self._app is not None:
            self._app.jobs.add(job)
        self._jobs.append(_Defined(function, options, membership, job, handler_of))
        return job

    def _specify(self, app: "Windlass") -> list[JobSpec]:
        """The definitions with the defaults of an application, which may name jobs otherwise."""
        specs: dict[Membership, JobSpec] = {}
        for item in self._jobs:
            options = item.options
            if item.handler_of is not None:
                options = name_handler(options, specs[item.handler_of].name)
            specs[item.membership] = app.specify(item.function, options)
        return list(specs.values())

    def _handlers_changed(self) -> None:
        if self._app is not None:
            self._app.jobs.refresh()

    def _declare(self, app: "Windlass", planned: _Planned) -> None:
        declared = app.schedule(planned.job, key=planned.key, input=planned.input, **planned.terms)
        self._keys.append(declared.key)

    def _leave(self, app: "Windlass") -> None:
        app.jobs.remove([item.job for item in self._jobs])
        app.schedules.forget(self._keys)
        app.resource.remove_all(self.resource)
        app.on.remove_all(self.on)
        self._keys = []

    def __repr__(self) -> str:
        names = ", ".join(item.job.name for item in self._jobs)
        return f"<Router {names}>"


def _bind(membership: Membership, spec: JobSpec, app: "Windlass") -> None:
    membership.spec, membership.app, membership.scope = spec, app, app.scope
