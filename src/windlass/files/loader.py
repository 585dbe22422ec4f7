"""Loads a folder of job files: each good file is a job, each bad one an error of its own."""

import re
import traceback
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from windlass.domain.failed import FAILURE_HANDLER
from windlass.errors import JobFileError
from windlass.files.definition import Definition, define, shared_handler_name
from windlass.files.interrupts import interrupts
from windlass.files.source import Reading, Source, read_folder
from windlass.files.version import Cache, Version

_PRIVATE = re.compile(r"@[0-9]+(?=[.'\"\s]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A job file: its definition, or its last good one beside an error."""

    name: str
    file: Path
    definition: Definition | None = None
    error: JobFileError | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """All job files of a folder at one moment."""

    digest: str
    files: Sequence[JobFile]
    cache: Cache = field(default_factory=dict, repr=False)


NOTHING = Loaded("", ())


def load_folder(folder: Path, taken: Mapping[str, str], before: Loaded = NOTHING) -> Loaded:
    """Load every file anew, unless nothing has changed.

    `taken` has the names that are no file's, with their places. A file that is broken keeps what
    it defined before.
    """
    reading = read_folder(folder)
    names = {source.name for source in reading.sources.values() if source.is_job}
    possible = names | {f"{name}.{FAILURE_HANDLER}" for name in names}
    digest = f"{reading.digest} {sorted(possible & taken.keys())}"
    if digest == before.digest:
        return before
    version = Version(reading, dict(before.cache))
    good = {item.file: item.definition for item in before.files}
    clashes = _shared_names(reading, taken)
    places = {s.name: str(s.file) for s in reading.sources.values() if s.is_job} | {**taken}
    files = []
    for source in reading.sources.values():
        if not source.is_job:
            continue
        found = clashes.get(source.file) or _load_uninterrupted(version, source)
        if isinstance(found, Definition):
            found = _handler_clash(found, source, places) or found
        if isinstance(found, JobFileError):
            kept = None if source.name in taken else good.get(source.file)
            if kept is not None and _handler_clash(kept, source, places) is not None:
                kept = None
            files.append(JobFile(name=source.name, file=source.file, definition=kept, error=found))
        else:
            files.append(JobFile(name=source.name, file=source.file, definition=found))
    alive = {(source.file, source.digest) for source in reading.sources.values()}
    cache = {key: code for key, code in version.cache.items() if key in alive}
    return Loaded(digest, tuple(files), cache)


def _load_uninterrupted(version: Version, source: Source) -> Definition | JobFileError:
    """Load a file; a Ctrl-C meanwhile is the program's, whatever the file made of it."""
    with interrupts() as raised:
        found = _load(version, source)
        if raised:
            raise raised[0]
        return found


def _load(version: Version, source: Source) -> Definition | JobFileError:
    try:
        return define(version, source, version.load(source))
    except JobFileError as error:
        return JobFileError(*error.args)  # without the frames that raised it
    except BaseException as error:  # noqa: BLE001 - a file may raise anything, even to end us
        return _failure(version, source, error)


def _failure(version: Version, source: Source, error: BaseException) -> JobFileError:
    """Say what failed and where, by the innermost line of the folder; keep no frame alive."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = {str(item.file) for item in version.reading.sources.values()}
    own = [(frame.filename, frame.lineno) for frame in frames if frame.filename in inside]
    file, line = own[-1] if own else (str(source.file), 1)
    if isinstance(error, SyntaxError) and error.filename and not own:
        line = error.lineno or 1
    kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
    text = _PRIVATE.sub("", _text_of(error)) or "it cannot be imported"
    return JobFileError(file, line, f"{kind}{text}")


def _text_of(error: BaseException) -> str:
    try:
        return " ".join(str(error).split()).rstrip(".")[:1000]
    except BaseException:  # noqa: BLE001 - foreign code, as above
        return "<no text>"


def _shared_names(reading: Reading, taken: Mapping[str, str]) -> Mapping[Path, JobFileError]:
    by_name: dict[str, list[Source]] = defaultdict(list)
    for source in reading.sources.values():
        if source.is_job:
            by_name[source.name].append(source)
    found = {}
    for name, sources in by_name.items():
        for source in sources:
            others = [str(item.file) for item in sources if item is not source]
            others += [taken[name]] if name in taken else []
            if others:
                why = f"its name {name!r} is also that of {' and '.join(others)}: rename one"
                found[source.file] = JobFileError(str(source.file), None, why)
    return found


def _handler_clash(
    definition: Definition, source: Source, places: Mapping[str, str]
) -> JobFileError | None:
    """The error of a file whose failure handler's name is taken."""
    handler = definition.handler
    if handler is None or handler.name not in places:
        return None
    return shared_handler_name(source, handler.name, places[handler.name])
