"""What was enqueued: a list, and two assertions that show it when they fail."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from windlass import codec
from windlass.app import Windlass
from windlass.client import Run
from windlass.client.filters import MOST_PER_PAGE, ListOptions
from windlass.client.requests import check_instant
from windlass.domain.states import Status
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, BadPayload, UnknownJob, UsageError
from windlass.job import Job
from windlass.testing.attempts import BY_HAND
from windlass.testing.places import refuse_real_store

AnyJob = Job[Any, Any, Any]

_SHOWN = 20
_NEAR = timedelta(seconds=1)


def enqueued(app: Windlass, job: "AnyJob | str | None" = None) -> Sequence[Run]:
    """The runs that were made, of one job or of all, oldest first, whatever became of them.

    Those of `run_job` are not among them: nobody enqueued them.
    """
    refuse_real_store(app)
    whereabouts = getattr(app.store, "whereabouts", None)
    if whereabouts is not None:
        whereabouts.refuse_unseen()
    found: list[Run] = []
    query: ListOptions = {"limit": MOST_PER_PAGE}
    if job is not None:
        query["job"] = _name(job)
    while True:
        page = app.list(**query)
        found += page
        if len(page) < MOST_PER_PAGE:
            return [run for run in reversed(found) if BY_HAND not in run.tags]
        query["before"] = page[-1].id


class RunLike(TypedDict, total=False):
    """What a run may be asked to be like.

    `args` and `tags` are those that must be among the run's. `at` is when it is to start, within a
    second: an instant, or a delay from now.
    """

    args: Mapping[str, Any]
    queue: str
    at: datetime | Duration
    status: Status | str
    priority: int
    key: str
    tags: Iterable[str]


def assert_enqueued(
    job: "AnyJob | str",
    *,
    app: Windlass | None = None,
    count: int | None = None,
    **like: Unpack[RunLike],
) -> Sequence[Run]:
    """Assert that a run like this was made, `count` of them if that is given; returns them.

    By args, queue, at, status, priority, key, tags. `app` is needed where the job is a name.
    """
    __tracebackhide__ = True
    made, found, wanted = _matching(job, app, like)
    if (count is None and found) or len(found) == count:
        return found
    number = "no run" if not found else _runs(len(found))
    verb = "were" if len(found) > 1 else "was"
    expected = "" if count is None else f" instead of {count}"
    raise AssertionError(f"{number} of {wanted} {verb} enqueued{expected}.{_shown(made)}")


def refute_enqueued(
    job: "AnyJob | str", *, app: Windlass | None = None, **like: Unpack[RunLike]
) -> None:
    """Assert that no run like this was made; the options are those of `assert_enqueued`."""
    __tracebackhide__ = True
    made, found, wanted = _matching(job, app, like)
    if found:
        verb = "were" if len(found) > 1 else "was"
        number = _runs(len(found))
        raise AssertionError(f"{number} of {wanted} {verb} enqueued, not none.{_shown(made)}")


def _matching(
    job: "AnyJob | str", app: Windlass | None, like: RunLike
) -> tuple[Sequence[Run], Sequence[Run], str]:
    """What was made, what of it fits, and what was wanted."""
    place = _app_of(job, app)
    wanted = _Wanted(like, place)
    made = enqueued(place)
    found = [run for run in made if run.job == _name(job) and wanted.fits(run)]
    return made, found, f"{_name(job)!r}{wanted}"


class _Wanted:
    """What a run must be like."""

    def __init__(self, like: RunLike, app: Windlass) -> None:
        unknown = like.keys() - RunLike.__annotations__.keys()
        if unknown:
            raise BadOption(
                min(unknown),
                f"there is no such filter; there are {', '.join(RunLike.__annotations__)}",
            )
        self._args = like.get("args", {})
        self._tags = tuple(like.get("tags", ()))
        self._at = _instant(like.get("at"), app)
        names = ("queue", "status", "priority", "key")
        self._equal = {name: like[name] for name in names if name in like}  # type: ignore[literal-required]

    def fits(self, run: Run) -> bool:
        return (
            all(getattr(run, name) == value for name, value in self._equal.items())
            and set(self._tags) <= set(run.tags)
            and all(n in run.input and _same(v, run.input[n]) for n, v in self._args.items())
            and (self._at is None or abs(run.scheduled_for - self._at) <= _NEAR)
        )

    def __str__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in self._equal.items()]
        parts += [f"args={dict(self._args)!r}"] if self._args else []
        parts += [f"at={self._at.isoformat()}"] if self._at is not None else []
        parts += [f"tags={list(self._tags)!r}"] if self._tags else []
        return f" with {', '.join(parts)}" if parts else ""


def _instant(at: datetime | Duration | None, app: Windlass) -> datetime | None:
    if at is None or isinstance(at, datetime):
        return None if at is None else check_instant("at", at)
    return app.sources.now() + timedelta(seconds=parse_duration(at))


def _same(expected: Any, found: Any) -> bool:
    """Whether they are equal, as JSON has them too: a date is given, its text was stored."""
    if expected == found:
        return True
    try:
        return bool(codec.decode(codec.encode(expected, what="argument")) == found)
    except BadPayload:  # such as a matcher, which has been asked already
        return False


def _shown(runs: Sequence[Run]) -> str:
    if not runs:
        return " Nothing at all was enqueued."
    lines = [f"  {_line(run)}" for run in runs[-_SHOWN:]]
    more = [f"  … and {len(runs) - _SHOWN} before them"] if len(runs) > _SHOWN else []
    return "\n".join([f" {_runs(len(runs))} in all:", *more, *lines])


def _line(run: Run) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in run.input.items())
    also = f" key={run.key!r}" if run.key else ""
    also += f" tags={list(run.tags)!r}" if run.tags else ""
    when = f" for {run.scheduled_for.isoformat()}" if run.status is Status.SCHEDULED else ""
    return f"{run.job}({arguments}) queue={run.queue!r} {run.status.value}{when}{also}"


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"


def _name(job: "AnyJob | str") -> str:
    return job if isinstance(job, str) else job.name


def _app_of(job: "AnyJob | str", app: Windlass | None) -> Windlass:
    """The application whose store is looked at, which must be the one that has the job."""
    if not isinstance(job, str):
        if app is not None and app is not job.app:
            raise UsageError(
                f"{job.name!r} is a job of another application than app=, whose store has none of "
                "its runs: leave app= out, or name the application under test in pytest's ini file."
            )
        return job.app
    if app is None:
        raise UsageError(f"Which application has {job!r}? Give app=, or the job itself.")
    if job not in app.jobs and job not in _stored_jobs(app):
        raise UnknownJob(job, list(app.jobs))
    return app


def _stored_jobs(app: Windlass) -> set[str]:
    """The jobs that were enqueued by name, or served by another program."""
    refuse_real_store(app)
    return {row.name for row in app.store.run(app.store.operations.list_jobs(app.settings.tenant))}
