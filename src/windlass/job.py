"""A job as an application holds it: call it, or enqueue it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from windlass.client import Request, Run, Scope, Using
from windlass.client.enqueue import enqueue
from windlass.client.requests import PLAIN, UsingOptions
from windlass.domain.job import JobSpec
from windlass.store.flow import Flow, arun_flow, run_flow

if TYPE_CHECKING:
    from windlass.app import Windlass

P = ParamSpec("P")  # what is enqueued
C = ParamSpec("C")  # what the function is called with: the same, after a context
R_co = TypeVar("R_co", covariant=True)


class Job(Generic[P, C, R_co]):
    """A function that can also be run later, elsewhere, and durably.

    Calling it calls the function. `enqueue` (in async code `aenqueue`) takes the same arguments
    without the context; `using` sets options for one run.
    """

    __slots__ = ("__wrapped__", "_app", "_scope", "_using", "spec")

    def __init__(
        self, app: "Windlass", scope: Scope, spec: JobSpec, using: Using | None = None
    ) -> None:
        self._app = app
        self._scope = scope
        self._using = using or PLAIN
        self.spec = spec
        self.__wrapped__ = spec.handler

    @property
    def name(self) -> str:
        """The job's name."""
        return self.spec.name

    @property
    def app(self) -> "Windlass":
        """The application that it belongs to."""
        return self._app

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> R_co:
        """Call the function itself, here and now."""
        result: R_co = self.spec.handler(*args, **kwargs)
        return result

    def using(self, **options: Unpack[UsingOptions]) -> "Job[P, C, R_co]":
        """The same job with other options: delay, at, priority, key, key_ttl, queue, tags,
        expires, deadline, max_attempts, timeout, connection.

        `connection` is your own transaction: the run exists if and only if that commits.
        """
        return Job(self._app, self._scope, self.spec, self._using.with_(**options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Run:
        """Make a run with these arguments; returns at once."""
        return run_flow(self._scope.store, self._enqueue(self.request(*args, **kwargs)))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Run:
        """As `enqueue`, in async code."""
        return await arun_flow(self._scope.store, self._enqueue(self.request(*args, **kwargs)))

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request:
        """A run to be made later by `app.enqueue_many`; checks the arguments now."""
        default = None if args or kwargs else self.spec.default_input
        return self._request(default or self._encoded(args, kwargs))

    def request_by_name(self, input: Mapping[str, Any] | None) -> Request:
        """The same with the arguments as a dict; only where there is none, the default counts."""
        default = self.spec.default_input if input is None else None
        return self._request(default or self._encoded((), input or {}))

    def _enqueue(self, request: Request) -> Flow[Run]:
        runs = yield from enqueue(self._scope, [request])
        return runs[0]

    def _encoded(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        limit = self._scope.settings.payload_limit
        return self.spec.signature.encode(args, kwargs, limit=limit)

    def _request(self, input: bytes) -> Request:
        return Request(
            job=self.spec.name,
            queue=self.spec.queue,
            priority=self.spec.priority,
            input=input,
            using=self._using,
            job_version=self.spec.version,
        )

    def __repr__(self) -> str:
        return f"<Job {self.name}>"
