"""The settings of one application, resolved once.

Each setting is taken from the first of these that has it: the keyword argument; the environment
variable `WINDLASS_<NAME>`; the table `[windlass]` of the nearest `windlass.toml`, looked for in
the working directory and upwards; the default. An argument of None and an empty variable count
as absent. A value that cannot be right is an error that names the setting and its source.

A relative path (of the jobs folder, or of a SQLite file) in windlass.toml begins in the folder of
that file, so that a command finds the same store wherever below it you stand. So do the defaults,
if there is such a file. In an argument or a variable it begins in the working directory.
"""

import os
import re
import reprlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypedDict
from urllib.parse import quote

from windlass.ages import (
    DAY,
    DELETE_AFTER,
    STALE_AFTER,
    Age,
    AgeGiven,
    Ages,
    read_age,
    read_ages,
)
from windlass.duration import Duration, format_duration, parse_duration
from windlass.errors import BadDuration, BadOption

FILE_NAME: Final = "windlass.toml"
PREFIX: Final = "WINDLASS_"

SQLITE: Final = "sqlite:///"
DEFAULT_URL: Final = f"{SQLITE}windlass.db"
DEFAULT_LEASE: Final = 30.0
DEFAULT_ARTIFACT_LIMIT: Final = 1024**3
DEFAULT_PROCESS_SEATS: Final = os.cpu_count() or 1
DEFAULT_SUSPECT_SEATS: Final = min(32, max(8, 4 * DEFAULT_PROCESS_SEATS))
JOBS: Final = "jobs"
SCHEMES: Final = ("sqlite", "postgresql", "postgres")

_DEFAULT = "default"

LogKind = Literal["console", "json"]


class WorkerChanges(TypedDict, total=False):
    """The settings that one worker may have of its own, as they may be written."""

    lease: Duration | None
    renew: Duration | None
    sweep: Duration | None
    drain: Duration | None
    poll: Duration | None
    max_crashes: int | None
    max_steps: int | None
    run_logs: int | None
    concurrency: int | None
    threads: int | None
    process_seats: int | None
    suspect_seats: int | None
    cancel_grace: Duration | None
    recycle_runs: int | None
    recycle_memory: int | None
    queues: str | Sequence[str] | None


class SettingOptions(WorkerChanges, total=False):
    """All settings but the url."""

    app: str | None
    jobs: str | os.PathLike[str] | None
    max_attempts: int | None
    processes: int | None
    tenant: str | None
    schema: str | None
    payload_limit: int | None
    ballast: int | None
    artifacts: str | os.PathLike[str] | None
    artifact_limit: int | None
    stale_after: AgeGiven | None
    delete_after: AgeGiven | None
    delete_feed_after: Duration | None
    delete_audit_after: Duration | None
    delete_slots_after: Duration | None
    log: LogKind | None
    log_level: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an application was told; lengths of time are in seconds.

    >>> settings = Settings.load(environ={"WINDLASS_LEASE": "1m"}, max_attempts=3)
    >>> settings.lease, settings.renew, settings.max_attempts
    (60.0, 20.0, 3)
    """

    url: str = DEFAULT_URL
    app: str | None = None
    """Where the application is: `module:name`."""
    jobs: Path = Path(JOBS)
    """The folder of job files, beside windlass.toml unless set."""
    jobs_named: bool = False
    """Whether that folder was set, and is not the default."""
    lease: float = DEFAULT_LEASE
    """How long a worker that falls silent keeps its runs."""
    renew: float = DEFAULT_LEASE / 3
    """How often leases are renewed: a third of the lease unless set."""
    sweep: float = DEFAULT_LEASE / 6
    """How often dead workers and due runs are looked for: a sixth of the lease unless set."""
    drain: float = 25.0
    """How long running handlers may go on after SIGTERM."""
    max_crashes: int = 3
    max_attempts: int = 5
    max_steps: int = 1024
    """How many durable steps a run may have, unless its job says otherwise."""
    run_logs: int = 1_000
    """How many lines that handlers log are kept of each attempt; 0 keeps none."""
    poll: float = 1.0
    """How often an idle worker looks for runs without being woken."""
    concurrency: int = 100
    """Async handlers at a time in one worker."""
    threads: int = 10
    """Sync handlers at a time in one worker."""
    process_seats: int = DEFAULT_PROCESS_SEATS
    """Handlers in child processes at a time in one worker: as many as there are cores."""
    suspect_seats: int = DEFAULT_SUSPECT_SEATS
    """Suspects in child processes at a time in one worker: four per core, from 8 to 32."""
    cancel_grace: float = 5.0
    """How long a handler that was told to end may go on."""
    processes: int = 1
    """Worker processes that `windlass worker` starts."""
    recycle_runs: int | None = None
    """After so many runs a process that runs handlers is replaced."""
    recycle_memory: int | None = None
    """Above so many megabytes a process that runs handlers is replaced."""
    queues: tuple[str, ...] | None = None
    """The queues a worker serves; None means all of them, for the jobs that it has."""
    tenant: str = "default"
    schema: str | None = None
    """The schema in a PostgreSQL database; None means that of the URL, or `windlass`."""
    payload_limit: int = 1024 * 1024
    """The most bytes of JSON for an input, a result or a step's value; the stores take no more."""
    ballast: int = 1024 * 1024
    """Bytes kept beside a SQLite file, let go when the disk is full."""
    artifacts: str | None = None
    """Where artifacts are kept: a folder, or `s3://bucket/prefix`; None means beside the SQLite
    file."""
    artifact_limit: int = DEFAULT_ARTIFACT_LIMIT
    """The most bytes of one artifact."""
    stale_after: Ages = STALE_AFTER
    """How long after its end a run becomes stale, unless its job says otherwise; None is never."""
    delete_after: Ages = DELETE_AFTER
    """How long after its end a run is deleted, unless its job says otherwise; None is never."""
    delete_feed_after: Age = 30 * DAY
    """How old a page of the feed is when it goes; so for the next two."""
    delete_audit_after: Age = 365 * DAY
    delete_slots_after: Age = 90 * DAY
    log: LogKind = "console"
    log_level: str = "INFO"

    @classmethod
    def load(
        cls,
        *,
        environ: Mapping[str, str] | None = None,
        directory: Path | None = None,
        **options: Any,
    ) -> Self:
        """Resolve the settings. Raises BadOption.

        `environ` and `directory` stand for those of the process.
        """
        found: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for name, value, source in _candidates(
            options, os.environ if environ is None else environ, directory or Path.cwd()
        ):
            if name not in _READERS:
                raise BadOption(name, f"there is no such setting; there are {_KNOWN}", source)
            if name not in found:
                found[name] = _read(name, value, source)
                sources[name] = source
        found["jobs_named"] = sources.get("jobs", _DEFAULT) != _DEFAULT
        settings = cls(**_with_shares({"lease": DEFAULT_LEASE} | found))
        _check_relations(settings, sources)
        return settings

    def having(self, **options: Any) -> Self:
        """The same settings with some of them changed. Raises BadOption.

        A new lease brings its shares, renew and sweep, unless they are given as well.
        """
        found: dict[str, Any] = {}
        for name, value, source in _candidates(options, {}, None):
            if name not in _READERS:
                raise BadOption(name, f"there is no such setting; there are {_KNOWN}", source)
            found[name] = _read(name, value, source)
        settings = replace(self, **_with_shares(found))
        _check_relations(settings, dict.fromkeys(found, "argument"))
        return settings


def find_file(directory: Path) -> Path | None:
    """Return the nearest windlass.toml, in the directory or above it."""
    folders = (directory, *directory.parents)
    return next((path for path in (f / FILE_NAME for f in folders) if path.is_file()), None)


def _with_shares(found: dict[str, Any]) -> dict[str, Any]:
    if "lease" not in found:
        return found
    return {"renew": found["lease"] / 3, "sweep": found["lease"] / 6, **found}


def _candidates(
    options: Mapping[str, object], environ: Mapping[str, str], directory: Path | None
) -> Iterator[tuple[str, object, str]]:
    """Yield (name, value, source), the strongest source first."""
    for name, value in options.items():
        # An unknown name is told even if it is None.
        if value is not None or name not in _READERS:
            yield name, value, "argument"
    for name in _READERS:
        variable = PREFIX + name.upper()
        if environ.get(variable, "").strip():
            yield name, environ[variable].strip(), f"environment variable {variable}"
    path = find_file(directory) if directory is not None else None
    if path is not None:
        for name, value in _table(path).items():
            yield name, _from_folder(name, value, path.parent), f"file {path}"
        # Without them too: all that work below this file share one store and one folder of jobs.
        for name, value in (("jobs", JOBS), ("url", DEFAULT_URL)):
            yield name, _from_folder(name, value, path.parent), _DEFAULT


def _from_folder(name: str, value: object, folder: Path) -> object:
    """A value of windlass.toml, whose relative paths begin in that file's folder."""
    if not isinstance(value, str) or not value.strip():
        return value
    if name == "jobs" or (name == "artifacts" and not value.startswith("s3://")):
        return str(folder / value)
    if name == "url" and value.startswith(SQLITE):
        file = value.removeprefix(SQLITE)
        # An empty name and :memory: are refused later, by name.
        if file not in ("", ":memory:") and not file.startswith(("/", "%2F", "%2f")):
            return f"{SQLITE}{quote(os.fsencode(folder))}/{file}"
    return value


def _table(path: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not TOML, or not UTF-8
        raise BadOption(FILE_NAME, f"it cannot be read: {error}", f"file {path}") from error
    table = document.get("windlass", {})
    if not isinstance(table, dict):
        raise BadOption("windlass", "it must be a table: [windlass]", f"file {path}")
    return table


def _read(name: str, value: object, source: str) -> object:
    try:
        return _READERS[name](value)
    except BadDuration as error:
        raise BadOption(name, str(error).rstrip("."), source) from error
    except ValueError as error:
        # A URL may hold a password.
        given = "the value given" if name == "url" else reprlib.repr(value)
        raise BadOption(name, f"{given} is not {error}", source) from None


def _check_relations(settings: Settings, sources: Mapping[str, str]) -> None:
    lease = format_duration(settings.lease)
    for name, good, most in (
        # A worker starts nothing once two thirds of its lease have passed without an answer: the
        # renewal, and the time that it takes, must fit in.
        ("renew", settings.renew <= settings.lease / 2, "at most half of"),
        ("sweep", settings.sweep < settings.lease, "shorter than"),
    ):
        if not good:
            given = format_duration(getattr(settings, name))
            why = f"{given} is too long: it must be {most} the lease, which is {lease}"
            raise BadOption(name, why, sources.get(name, _DEFAULT))


def _duration(*, least: float) -> Callable[[object], float]:
    def read(value: object) -> float:
        if not isinstance(value, (int, float, str, timedelta)):
            raise ValueError("a duration such as '30s'")
        seconds = parse_duration(value)
        if seconds < least:
            raise ValueError(f"a duration of at least {format_duration(least)}")
        return seconds

    return read


def _integer(least: int, most: int) -> Callable[[object], int]:
    allowed = f"a whole number from {least:,} to {most:,}"

    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(allowed)
        return value

    return read


def _matching(pattern: str, allowed: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError(allowed)
        return value

    return read


def _choice(*allowed: str, fold: Callable[[str], str]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or fold(value) not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return fold(value)

    return read


def _queues(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple, set, frozenset)) or not names:
        raise ValueError("a list of queues, or their names with commas between")
    return tuple(_queue(name.strip() if isinstance(name, str) else name) for name in names)


def _folder(value: object) -> Path:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ValueError("the path of a folder")
    return Path(text)


def _place(value: object) -> str:
    """A folder, or a bucket as it is written."""
    if isinstance(value, str) and value.startswith("s3://"):
        return value
    return str(_folder(value))


_queue = _matching(
    r"[^\s,\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}", "the name of a queue (no spaces or commas)"
)

_READERS: Mapping[str, Callable[[object], object]] = MappingProxyType(
    {
        "url": _matching(
            rf"({'|'.join(SCHEMES)})://[^\x00-\x1f]*",
            "a URL such as sqlite:///windlass.db or postgresql://… (without a driver: no +psycopg)",
        ),
        "app": _matching(r"[\w.]+(:[\w.]+)?", "a place such as myapp.jobs:app"),
        "jobs": _folder,
        "lease": _duration(least=0.1),
        "renew": _duration(least=0.01),
        "sweep": _duration(least=0.01),
        "drain": _duration(least=0),
        "max_crashes": _integer(1, 1000),
        "max_attempts": _integer(1, 1_000_000),
        "max_steps": _integer(1, 100_000),
        "run_logs": _integer(0, 100_000),
        "poll": _duration(least=0.01),
        "concurrency": _integer(1, 100_000),
        "threads": _integer(1, 10_000),
        "process_seats": _integer(1, 1_000),
        "suspect_seats": _integer(1, 1_000),
        "cancel_grace": _duration(least=0),
        "processes": _integer(1, 1_000),
        "recycle_runs": _integer(1, 1_000_000_000),
        "recycle_memory": _integer(1, 100_000_000),
        "queues": _queues,
        "tenant": _matching(
            r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", "letters, digits, '_', '.' and '-'"
        ),
        "schema": _matching(r"[a-z_][a-z0-9_]{0,62}", "small letters, digits and '_'"),
        "payload_limit": _integer(1, 1024 * 1024),
        "ballast": _integer(0, 1024 * 1024 * 1024),
        "artifacts": _place,
        "artifact_limit": _integer(1, 500 * 1024**3),
        "stale_after": partial(read_ages, default=STALE_AFTER),
        "delete_after": partial(read_ages, default=DELETE_AFTER),
        "delete_feed_after": read_age,
        "delete_audit_after": read_age,
        "delete_slots_after": read_age,
        "log": _choice("console", "json", fold=str.lower),
        "log_level": _choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", fold=str.upper),
    }
)

_KNOWN = ", ".join(_READERS)
