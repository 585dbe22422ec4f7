"""A job as an application holds it: call it, or enqueue it."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import update_wrapper
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, Unpack

import msgspec

from windlass.client import Request, Run, Scope, Using
from windlass.client.enqueue import enqueue
from windlass.client.requests import UsingOptions
from windlass.client.typed import R_co
from windlass.domain.failed import FailureHandler
from windlass.domain.job import FailureOptions, JobSpec, describe_handler
from windlass.domain.reflection import documented
from windlass.domain.returns import Returns
from windlass.errors import UsageError
from windlass.on_failure import OnFailure
from windlass.store.flow import Flow, arun_flow, run_flow

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.definitions import Definitions
    from windlass.router import Router

P = ParamSpec("P")  # what is enqueued
C = ParamSpec("C")  # what the function is called with: the same, after a context
V_co = TypeVar("V_co", covariant=True)  # what a call gives: the result, or a coroutine of it


class Membership:
    """The definition of a job, and the application that has it; on a router, none at first.

    A job shares it with what `using` makes of it, so that all of them are included at once.
    """

    __slots__ = ("app", "handles", "on_failure", "router", "scope", "spec")

    def __init__(
        self,
        spec: JobSpec,
        app: "Windlass | None" = None,
        scope: Scope | None = None,
        *,
        router: "Router | None" = None,
        handles: FailureOptions | None = None,
    ) -> None:
        self.spec = spec
        self.app = app
        self.scope = scope
        self.router = router
        self.handles = handles
        """If it is a failure handler: what its definition says."""
        self.on_failure: Job[Any, Any, Any, Any] | None = None
        """Who handles its failures, by its own definition."""


class Job(Generic[P, C, V_co, R_co]):
    """A function that can also be run later, elsewhere, and durably.

    Calling it calls the function. `enqueue` (in async code `aenqueue`) takes the same arguments
    without the context; `using` sets options for one run. Name, docstring and signature are those
    of the function. `Job[P, C, V]` is a job whose runs have results of any type.
    """

    if not TYPE_CHECKING:
        # Type checkers know that the last of its types may be left out; Generic does not.
        __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, membership: Membership) -> None:
        spec = membership.spec
        self.__name__ = spec.name  # of what has none, such as a partial
        update_wrapper(self, spec.handler, updated=())
        self.__doc__ = documented(spec.handler)
        self._membership = membership
        self._using = Using.by_default(spec.defaults)

    @property
    def spec(self) -> JobSpec:
        """Its definition."""
        return self._membership.spec

    @property
    def name(self) -> str:
        """The job's name."""
        return self._membership.spec.name

    @property
    def app(self) -> "Windlass":
        """The application that the job belongs to. Raises UsageError if its router has none yet."""
        return self._membership.app or self._refuse()

    def is_own_job_of(self, app: "Windlass") -> bool:
        """Whether the application itself defines it, and not a router that it includes."""
        return self._membership.app is app and self._membership.router is None

    @property
    def on_failure(self) -> OnFailure:
        """Make a function the handler of runs of this job that fail for good: `@job.on_failure`.

        It is a job of its own, called `<job>.on_failure` unless given a name. Its run is inserted
        by the transaction that ends the failed one.
        """
        return OnFailure(self._add_handler)

    @property
    def as_failure_handler(self) -> FailureHandler | None:
        """How other jobs name it as the handler of their failures; None for ordinary jobs."""
        handles = self._membership.handles
        return None if handles is None else describe_handler(self.spec, handles)

    @property
    def failure_handler(self) -> "Job[Any, Any, Any, Any] | None":
        """The job that handles its failures: its own, else its router's, else its app's."""
        membership = self._membership
        if membership.handles is not None:
            return None
        shared = [part.failure_handler for part in (membership.router, membership.app) if part]
        return next((job for job in (membership.on_failure, *shared) if job is not None), None)

    def _add_handler(self, given: Any, options: FailureOptions) -> "Job[Any, Any, Any, Any]":
        membership = self._membership
        if membership.handles is not None:
            raise UsageError(
                f"Job {self.name!r} is a failure handler, and those have no handlers themselves: "
                "give it retries, or catch its errors."
            )
        if membership.on_failure is not None:
            raise UsageError(
                f"Job {self.name!r} has a failure handler already: {membership.on_failure.name!r}."
            )
        if self.spec.folder is not None:
            raise UsageError(
                f"Job {self.name!r} is a job file, which is loaded anew when it changes: "
                "write the function on_failure into the file."
            )
        owner: Definitions = membership.router or self.app
        membership.on_failure = owner.define_handler(given, options, membership)
        if membership.app is not None:
            membership.app.jobs.refresh()
        return membership.on_failure

    @property
    def _scope(self) -> Scope:
        return self._membership.scope or self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(
            f"Job {self.name!r} is on a router, which no application has included yet: call "
            f"app.include(router) first. The job is defined in {place_of_handler(self.spec)}."
        )

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> V_co:
        """Call the function itself, here and now."""
        result: V_co = self.spec.handler(*args, **kwargs)
        return result

    def using(self, **options: Unpack[UsingOptions]) -> "Job[P, C, V_co, R_co]":
        """The same job with other options: delay, at, priority, key, key_ttl, unique, queue,
        tags, expires, deadline, max_attempts, timeout, trace, metadata, connection, after,
        after_failure.

        `connection` is your own transaction: the run exists if and only if that commits. `after`
        are runs that have to end before; if one does not succeed, this one is canceled, or runs all
        the same with `after_failure="run"`.
        """
        other: Job[P, C, V_co, R_co] = object.__new__(type(self))  # a batch stays one
        other.__dict__.update(self.__dict__, _using=self._using.with_(**options))
        return other

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Run[R_co]:
        """Enqueue a run with these arguments, and return it without waiting for its end."""
        return run_flow(self._scope.store, self._enqueue(self.request(*args, **kwargs)))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Run[R_co]:
        """As `enqueue`, in async code."""
        return await arun_flow(self._scope.store, self._enqueue(self.request(*args, **kwargs)))

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request[R_co]:
        """Prepare a run for `app.enqueue_many`; the arguments are checked now."""
        default = None if args or kwargs else self.spec.default_input
        input = default or self._encoded(args, kwargs)
        return self._request(input, self.spec.signature.returns)

    def link(self, **arguments: Any) -> Request[R_co]:
        """Prepare a run for `app.chain`: its first argument is the result of the run before.

        The other arguments are given by name, and checked now.
        """
        limit = self._scope.settings.payload_limit
        signature = self.spec.signature
        request: Request[R_co] = self._request(
            signature.encode_without_first(arguments, limit=limit), signature.returns
        )
        return msgspec.structs.replace(request, using=replace(request.using, takes=signature.first))

    def request_by_name(self, input: Mapping[str, Any] | None) -> Request[Any]:
        """The same with the arguments as a dict; only where there is none, the default counts.

        The result will be plain JSON, as it is where the handler is not imported.
        """
        default = self.spec.default_input if input is None else None
        return self._request(default or self._encoded((), input or {}))

    def _enqueue(self, request: Request[R_co]) -> Flow[Run[R_co]]:
        runs = yield from enqueue(self._scope, [request])
        return runs[0]

    def _encoded(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        limit = self._scope.settings.payload_limit
        return self.spec.signature.encode(args, kwargs, limit=limit)

    def _request(self, input: bytes, returns: Returns | None = None) -> Request[R_co]:
        return Request(
            job=self.spec.name,
            queue=self.spec.queue,
            priority=self.spec.priority,
            input=input,
            using=self._using,
            job_version=self.spec.version,
            returns=returns,
        )

    def __repr__(self) -> str:
        return f"<Job {self.name}>"


def place_of_handler(spec: JobSpec) -> str:
    """Where a job's function is: module, name and line."""
    code = getattr(inspect.unwrap(spec.handler), "__code__", None)
    name = f"{spec.handler.__module__}.{getattr(spec.handler, '__qualname__', spec.name)}"
    return f"{name} (line {code.co_firstlineno})" if code is not None else name
