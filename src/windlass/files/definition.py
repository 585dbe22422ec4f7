"""From a job file's module to the job it defines.

    schedule = "0 3 * * *"        # all of these are optional; or interval = "10m"
    timezone = "Europe/Berlin"
    timeout = "10m"

    async def run(ctx, day=None): ...

    async def on_failure(failed: FailedRun): ...      # optional: of runs that failed for good

Variables count where the file assigns them. What it imports under such a name counts only if it
may be meant so: `import queue` does not name a queue.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any, Final

from windlass.domain.failed import FAILURE_HANDLER
from windlass.domain.job import Executor, JobSpec, define_job, describe_handler
from windlass.domain.policy import Retry
from windlass.domain.retention import Retention
from windlass.domain.scheduling.catchup import CatchUp
from windlass.domain.scheduling.cron import cached_cron
from windlass.domain.scheduling.definition import Every, parse_overlap
from windlass.domain.scheduling.rows import Overlap
from windlass.domain.zone import LOCAL, parse_zone
from windlass.duration import format_duration, parse_duration
from windlass.errors import BadArguments, BadDuration, BadOption, JobFileError
from windlass.files.compiled import Compiled
from windlass.files.source import Source
from windlass.files.version import Version
from windlass.job import Job

MAX_ATTEMPTS: Final = 3
KEEP_LAST: Final = 50
EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
RETRY: Final = Retry.fixed("5s", jitter=0.0)

_JOB = (
    "retry", "timeout", "queue", "max_attempts", "max_steps", "priority", "executor", "tags",
    "expires", "deadline", "unique", "key_ttl", "retention", "default_input",
)  # fmt: skip
_MEANT = (
    Retry,
    Retention,
    CatchUp,
    timedelta,
    str,
    int,
    float,
)  # what may be imported as an option
_PLAN = ("schedule", "interval", "timezone", "overlap", "catch_up")
_DURATIONS = ("timeout", "expires", "deadline", "key_ttl", "interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """When runs of a job file are made by themselves."""

    cron: str | None = None
    interval: float | None = None  # in seconds
    timezone: str | None = None  # of the cron expression
    overlap: Overlap
    catch_up: CatchUp

    @property
    def shown(self) -> str:
        """When it runs, as the file says it."""
        return self.cron or f"every {format_duration(self.interval or 0)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a job file says."""

    spec: JobSpec
    plan: Plan | None
    on_failure: JobSpec | Job[Any, Any, Any] | None = None
    """Its failure handler: a function of its own, or a handler that the application defines."""

    @property
    def handler(self) -> JobSpec | None:
        """The job that its own failure handler is."""
        return self.on_failure if isinstance(self.on_failure, JobSpec) else None


def define(version: Version, source: Source, module: ModuleType) -> Definition:
    """Read a module's definition. Raises JobFileError with the line at fault."""
    compiled = version.compiled(source)
    options = _options(module, compiled)
    lines = dict(compiled.assigned)
    run = _run(source, module, compiled)
    line = lines["handler"] = lines["name"] = _line_of("run", compiled)
    try:
        preset: dict[str, Any] = {"max_attempts": MAX_ATTEMPTS, "retry": RETRY}
        spec = define_job(run, name=source.name, **(preset | _given(options, _JOB)))
        spec = replace(spec, retention=(spec.retention or Retention()).keeping(KEEP_LAST))
        plan = _plan(_given(options, _PLAN))
    except BadOption as error:
        option = "schedule" if error.option == "cron" else error.option
        why = error.why if option == "handler" else f"{option}: {error.why}"
        raise JobFileError(str(source.file), lines.get(option, 1), why) from None
    except BadDuration as error:
        option = _wrong_duration(options)
        why = f"{option}: {error}".rstrip(".")
        raise JobFileError(str(source.file), lines.get(option, 1), why) from None
    _check_parameters(source, spec, line)
    spec = _at_home(spec, version, source)
    handler = _failure_handler(source, module, compiled, spec.executor)
    if isinstance(handler, JobSpec):
        handler = _at_home(handler, version, source)
    return Definition(spec=spec, plan=plan, on_failure=handler)


def _at_home(spec: JobSpec, version: Version, source: Source) -> JobSpec:
    """The same with the version of the file that defines it."""
    hash_ = version.hash_of(source)
    return replace(spec, version=hash_, home=version, folder=version.reading.text)


def _options(module: ModuleType, compiled: Compiled) -> Mapping[str, Any]:
    found = {}
    for name in (*_JOB, *_PLAN):
        value = vars(module).get(name)
        if name not in compiled.assigned and not isinstance(value, _MEANT):
            continue
        if name == "executor" and not isinstance(value, str):
            continue  # a pool of threads, more likely than a mistake
        if value is not None:
            found[name] = value
    return found


def _given(options: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _run(source: Source, module: ModuleType, compiled: Compiled) -> Callable[..., Any]:
    run = vars(module).get("run")
    if run is None:
        what = "it is empty" if not source.data.strip() else "it has no `run`"
        raise JobFileError(str(source.file), 1, f"{what}: write `def run(ctx):`")
    return _function(run, "run", source, compiled)


def _function(given: Any, name: str, source: Source, compiled: Compiled) -> Callable[..., Any]:
    """Refuse what cannot be called as a handler."""
    why = None
    if not callable(given):
        why = f"`{name}` is no function but {type(given).__name__}"
    elif inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given):
        why = f"`{name}` is a generator, which nothing would run: do not yield in it"
    if why is not None:
        raise JobFileError(str(source.file), _line_of(name, compiled), why)
    function: Callable[..., Any] = given
    return function


def _failure_handler(
    source: Source, module: ModuleType, compiled: Compiled, executor: Executor
) -> JobSpec | Job[Any, Any, Any] | None:
    """What handles failures of the file's runs, if it says so.

    A function becomes a job like `run`, with the same defaults. The file's options are those of
    `run`, but what is to be kept out of the worker's process is so for both.
    """
    given = vars(module).get(FAILURE_HANDLER)
    name = f"{source.name}.{FAILURE_HANDLER}"
    line = _line_of(FAILURE_HANDLER, compiled)
    if isinstance(given, ModuleType) and given.__name__.startswith(f"{module.__name__}."):
        # The job file of that name, which Python makes an attribute of this one.
        if FAILURE_HANDLER not in compiled.bound:
            return None
        raise shared_handler_name(source, name, str(given.__file__))
    if given is None:
        return None
    if isinstance(given, Job):
        if given.as_failure_handler is None:
            why = f"`on_failure` is the ordinary job {given.name!r}: write a function to enqueue it"
            raise JobFileError(str(source.file), line, why)
        return given
    function = _function(given, FAILURE_HANDLER, source, compiled)
    if isinstance(given, type):
        raise JobFileError(str(source.file), line, "`on_failure` is a class: write a function")
    isolated = Executor.PROCESS if executor is Executor.PROCESS else None
    try:
        spec = define_job(
            function, name=name, max_attempts=MAX_ATTEMPTS, retry=RETRY, executor=isolated
        )
        describe_handler(spec, {})
    except BadOption as error:
        raise JobFileError(str(source.file), line, f"`on_failure`: {error.why}") from None
    return spec


def shared_handler_name(source: Source, name: str, place: str) -> JobFileError:
    """The error of a file whose failure handler has the name of another job."""
    why = f"its failure handler's name {name!r} is also that of {place}: rename one"
    return JobFileError(str(source.file), None, why)


def _check_parameters(source: Source, spec: JobSpec, line: int) -> None:
    if not spec.signature.takes_context:
        why = "`run` must take the context first: `def run(ctx):`"
        raise JobFileError(str(source.file), line, why)
    if spec.default_input is not None:
        return  # it was checked with the options
    if spec.signature.required:
        names = ", ".join(sorted(spec.signature.required))
        why = (
            f"`run` needs {names}, which a schedule cannot give: give it a default, or write "
            "`default_input`"
        )
        raise JobFileError(str(source.file), line, why)
    try:
        spec.signature.encode((), {})
    except BadArguments as error:
        raise JobFileError(str(source.file), line, error.why) from None


def _plan(options: Mapping[str, Any]) -> Plan | None:
    overlap = parse_overlap(options.get("overlap", Overlap.SKIP))
    catch_up = CatchUp.parse(options.get("catch_up", CatchUp.skip()))
    zone = options.get("timezone", LOCAL)
    if "timezone" in options or "schedule" in options:
        parse_zone(zone)
    if "schedule" in options and "interval" in options:
        raise BadOption("interval", "give either a schedule or an interval, not both")
    if "interval" in options:
        interval = parse_duration(options["interval"])
        Every.of(interval, EPOCH)  # refuses what is no interval
        return Plan(interval=interval, overlap=overlap, catch_up=catch_up)
    if "schedule" not in options:
        return None
    cron = cached_cron(_text(options["schedule"])).text
    return Plan(cron=cron, timezone=zone, overlap=overlap, catch_up=catch_up)


def _wrong_duration(options: Mapping[str, Any]) -> str:
    """The option that is no length of time."""
    for name in _DURATIONS:
        try:
            parse_duration(options.get(name, 0))
        except BadDuration:
            return name
    return "timeout"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadOption("schedule", f"{value!r} is not an expression such as '0 3 * * *'")
    return value


def _line_of(name: str, compiled: Compiled) -> int:
    """Where the file has a name from; it may be imported with everything of another module."""
    return compiled.bound.get(name, 1)
