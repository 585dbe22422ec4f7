"""From a job file's module to the job it defines.

    schedule = "0 3 * * *"        # all of these are optional
    timezone = "Europe/Berlin"
    timeout = "10m"

    async def run(ctx, day=None): ...

Variables count where the file assigns them. What it imports under such a name counts only if it
may be meant so: `import queue` does not name a queue.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final

from windlass.domain.job import JobSpec, define_job
from windlass.domain.policy import Retry
from windlass.domain.scheduling.catchup import CatchUp
from windlass.domain.scheduling.cron import cached_cron
from windlass.domain.scheduling.definition import parse_overlap
from windlass.domain.scheduling.rows import Overlap
from windlass.domain.zone import LOCAL, parse_zone
from windlass.errors import BadArguments, BadDuration, BadOption, JobFileError
from windlass.files.compiled import Compiled
from windlass.files.source import Source
from windlass.files.version import Version

MAX_ATTEMPTS: Final = 3
RETRY: Final = Retry.fixed("5s", jitter=0.0)

_JOB = ("retry", "timeout", "queue", "max_attempts", "priority", "executor")
_MEANT = (Retry, CatchUp, str, int, float)  # what may be imported as an option
_PLAN = ("schedule", "timezone", "overlap", "catch_up")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """When runs of a job file are made by themselves."""

    cron: str
    timezone: str
    overlap: Overlap
    catch_up: CatchUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a job file says."""

    spec: JobSpec
    plan: Plan | None


def define(version: Version, source: Source, module: ModuleType) -> Definition:
    """Read a module's definition. Raises JobFileError with the line at fault."""
    compiled = version.compiled(source)
    options = _options(module, compiled)
    lines = dict(compiled.assigned)
    run = _run(source, module)
    lines["handler"] = lines["name"] = _line_of(run)
    try:
        preset: dict[str, Any] = {"max_attempts": MAX_ATTEMPTS, "retry": RETRY}
        spec = define_job(run, name=source.name, **(preset | _given(options, _JOB)))
        plan = _plan(_given(options, _PLAN))
    except BadOption as error:
        option = "schedule" if error.option == "cron" else error.option
        why = error.why if option == "handler" else f"{option}: {error.why}"
        raise JobFileError(str(source.file), lines.get(option, 1), why) from None
    except BadDuration as error:
        line = lines.get("timeout", 1)
        raise JobFileError(str(source.file), line, f"timeout: {error}".rstrip(".")) from None
    _check_parameters(source, spec, _line_of(run))
    hash_ = version.hash_of(source)
    spec = replace(spec, version=hash_, home=version, folder=version.reading.text)
    return Definition(spec=spec, plan=plan)


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


def _run(source: Source, module: ModuleType) -> Callable[..., Any]:
    run = vars(module).get("run")
    if run is None:
        what = "it is empty" if not source.data.strip() else "it has no `run`"
        raise JobFileError(str(source.file), 1, f"{what}: write `def run(ctx):`")
    if not callable(run):
        kind = type(run).__name__
        raise JobFileError(str(source.file), 1, f"`run` is no function but {kind}")
    if inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run):
        why = "`run` is a generator, which nothing would run: do not yield in it"
        raise JobFileError(str(source.file), _line_of(run), why)
    function: Callable[..., Any] = run
    return function


def _check_parameters(source: Source, spec: JobSpec, line: int) -> None:
    if not spec.signature.takes_context:
        why = "`run` must take the context first: `def run(ctx):`"
        raise JobFileError(str(source.file), line, why)
    if spec.signature.required:
        names = ", ".join(sorted(spec.signature.required))
        why = f"`run` needs {names}, which a schedule cannot give: give it a default"
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
    if "schedule" not in options:
        return None
    cron = cached_cron(_text(options["schedule"])).text
    return Plan(cron=cron, timezone=zone, overlap=overlap, catch_up=catch_up)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadOption("schedule", f"{value!r} is not an expression such as '0 3 * * *'")
    return value


def _line_of(run: Callable[..., Any]) -> int:
    code = getattr(inspect.unwrap(run), "__code__", None)
    return int(getattr(code, "co_firstlineno", 1))
