"""From a job, given or named, and its arguments to a request that was checked against both."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from windlass import codec
from windlass.client import Request, Scope, Using
from windlass.client.requests import UsingOptions, check_connection
from windlass.domain.job import is_name
from windlass.domain.run import JobRow
from windlass.domain.signature import check_parameters
from windlass.errors import BadArguments, UnknownJob, UsageError
from windlass.job import Job
from windlass.store.flow import Flow

Named = tuple[str, Mapping[str, Any] | None]
"""A run of a job by its name, with its input."""


class Requester:
    """Makes requests for the jobs of one application, and for those that others define."""

    def __init__(self, scope: Scope, jobs: Mapping[str, Job[Any, Any, Any]]) -> None:
        self._scope = scope
        self._jobs = jobs

    def asked(
        self,
        job: "str | Job[Any, Any, Any]",
        input: Mapping[str, Any] | None,
        **options: Unpack[UsingOptions],
    ) -> Flow[Request]:
        """A run of a job that is given or named, checked against its definition; not enqueued."""
        request = self.asked_here(job, input, **options)
        if request is None:
            assert isinstance(job, str)
            row = yield self._scope.store.operations.get_job(self._scope.tenant, job)
            request = self._stored_request(job, row, input, options)
        return request

    def asked_all(
        self, asked: Iterable[Request | Named], connection: object
    ) -> Flow[Sequence[Request]]:
        """Many, some of them by name; the row of a job that others define is read once.

        `connection` is `...` if the caller gave none: None is a mistake.
        """
        if connection is not ...:
            check_connection(connection)
        rows: dict[str, JobRow | None] = {}
        found = []
        for one in asked:
            request = one if isinstance(one, Request) else self.asked_here(*_named(one))
            if request is None:
                job, input = _named(one)
                if job not in rows:
                    rows[job] = yield self._scope.store.operations.get_job(self._scope.tenant, job)
                request = self._stored_request(job, rows[job], input, {})
            found.append(request if connection is ... else request.within(connection))
        return found

    def phases(self, job: str) -> Flow[Sequence[str]]:
        """The names of a job's phases, by its definition here, or else the stored one."""
        known = self._jobs.get(job)
        if known is not None:
            return known.spec.phases or ()
        row: JobRow | None = yield self._scope.store.operations.get_job(self._scope.tenant, job)
        return (row.phases if row is not None else None) or ()

    def asked_here(
        self,
        job: "str | Job[Any, Any, Any]",
        input: Mapping[str, Any] | None,
        **options: Unpack[UsingOptions],
    ) -> Request | None:
        """The same without the store; None where the job is not defined here."""
        if isinstance(job, Job):
            given = None if input is None else _arguments(job.name, input)
            return job.using(**options).request_by_name(given)
        if not is_name(job):
            raise UnknownJob(str(job)[:100])  # the stores need not be asked
        known = self._jobs.get(job)
        return None if known is None else self.asked_here(known, input, **options)

    def _stored_request(
        self,
        job: str,
        row: JobRow | None,
        input: Mapping[str, Any] | None,
        options: UsingOptions,
    ) -> Request:
        """For a job that other code defines: its row knows the queue and the arguments."""
        if row is None:
            raise UnknownJob(job, sorted(self._jobs))
        default = codec.decode(row.default_input)
        arguments = default if input is None and default else _arguments(job, input)
        if row.parameters is not None:
            check_parameters(row.parameters, arguments, job)
        limit = self._scope.settings.payload_limit
        return Request(
            job=job,
            queue=row.queue,
            priority=row.priority,
            input=codec.encode(arguments, what=f"input of job {job!r}", limit=limit),
            using=Using.by_default(row.defaults).with_(**options),
            job_version=row.version,
        )


def _named(asked: Any) -> Named:
    """Callers without a type checker pass anything."""
    if isinstance(asked, tuple) and len(asked) == 2 and isinstance(asked[0], str):
        return asked
    raise UsageError(
        f"{asked!r} is not a request: make them with job.request(...), or name the job, "
        'e.g. app.enqueue_many([job.request(user_id=1), ("other", {"user_id": 1})]).'
    )


def _arguments(job: str, input: Mapping[str, Any] | None) -> dict[str, Any]:
    if input is None:
        return {}
    names: Any = input  # callers without a type checker pass anything
    if not isinstance(names, Mapping) or not all(isinstance(name, str) for name in names):
        raise BadArguments(job, "takes its arguments by name, as a dict")
    return dict(input)
