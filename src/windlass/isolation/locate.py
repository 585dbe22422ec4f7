"""How a fresh process finds a job: what the worker sends, and how the child follows it.

A job that is a module's variable is imported by its name. One whose function is registered in
another way (`app.job(function)`), or on a router, is found in its application, if that is a
module's variable, or the command line has it from a factory. A job file's modules exist in this
process alone, so the text of the files is sent: the child runs the version that the worker has,
whatever is on the disk by now.
"""

import hashlib
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from windlass.config import Settings
from windlass.domain.failed import FAILURE_HANDLER
from windlass.domain.job import Executor, JobSpec
from windlass.domain.origin import Folder, ModuleMember, Origin
from windlass.errors import BadOption, JobFileError, UsageError
from windlass.files.definition import define
from windlass.files.source import Reading, Source
from windlass.files.version import Version
from windlass.isolation.main_module import MAIN, importable_name, why_not_importable
from windlass.job import Job

if TYPE_CHECKING:
    from windlass.app import Windlass

_FILE = "sqlite:///"


def check_findable(spec: JobSpec) -> None:
    """Refuse a job for child processes that none of them can find. Raises BadOption."""
    if spec.executor is not Executor.PROCESS:
        return
    why = _hidden(spec.handler)
    if sys.platform == "win32":
        why = "there are no child processes for handlers on Windows"
    if why is not None:
        raise BadOption("executor", f"'process' cannot run {spec.name!r}: {why}")


def origin_of(app: "Windlass", spec: JobSpec) -> Origin:
    """Where a fresh process finds a job of this application. Raises UsageError."""
    first = app.jobs.first
    if sys.platform == "win32":
        raise UsageError("There are no child processes for handlers on Windows.")
    if spec.folder is not None:
        return Origin(job=spec.name, first=first, folder=spec.folder, app=place_of(app))
    why = _hidden(spec.handler)
    if why is None:
        handler = spec.handler
        module = importable_name(handler.__module__)
        assert module is not None, "it would be hidden"
        here = ModuleMember(module, handler.__qualname__)
        found = _at(sys.modules.get(handler.__module__), here.name)
        if isinstance(found, Job) and found.is_own_job_of(app) and found.name == spec.name:
            return Origin(job=spec.name, first=first, place=here)
        there = place_of(app)
        if there is not None:
            return Origin(job=spec.name, first=first, app=there, imports=(here.module,))
        why = (
            f"neither the job nor its application is a variable of a module, such as "
            f"{here.module}.{here.name}"
        )
    raise UsageError(f"A child process cannot find job {spec.name!r}: {why}.")


def place_of(app: "Windlass") -> ModuleMember | None:
    """The module and the variable that hold an application, or the function that made it."""
    if app.made_by is not None:
        return app.made_by
    # A copy in one step. A list of pairs is made pair by pair: the garbage collector may run
    # meanwhile, and then modules of job files leave that nobody holds any more.
    for loaded, module in sys.modules.copy().items():
        name = importable_name(loaded)
        if name is None:
            continue
        for variable, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                return ModuleMember(name, variable)
    return app.jobs.place


def url_of(app: "Windlass") -> str:
    """The URL of an application's store, which leads any process in any folder to it.

    A file is meant as it was when the store was made; this process may be elsewhere by now.
    """
    place = app.store.place
    if not place.startswith(_FILE):
        return app.settings.url
    return _FILE + quote(place.removeprefix(_FILE), errors="surrogateescape")


def here() -> Path:
    """The working directory; where it has been removed, nothing can be said of it."""
    try:
        return Path.cwd()
    except OSError:
        return Path()


def search_path(home: Path) -> list[str]:
    """Where this process looks for modules; what is relative is taken from `home`."""
    return [str(home / place) for place in sys.path]


def move(app: "Windlass", url: str) -> None:
    """Let an application that has not been used yet work on another store."""
    settings = replace(app.settings, url=Settings.load(url=url).url)
    app.ground.move(settings, app.sources, app.transport)


class Finder:
    """Finds jobs, in a child process."""

    def __init__(self) -> None:
        self._folders: dict[str, Version] = {}
        self._apps: dict[ModuleMember, Windlass] = {}

    def find(self, origin: Origin) -> "tuple[JobSpec, Windlass | None]":
        """A job and its application. Raises UsageError, and whatever an import raises."""
        for module in origin.first:
            importlib.import_module(module)
        if origin.folder is not None:
            app = None if origin.app is None else self._application(origin.app)
            return self._in_folder(origin.folder, origin.job), app
        if origin.place is not None:
            job = _at(importlib.import_module(origin.place.module), origin.place.name)
            if not isinstance(job, Job) or job.name != origin.job:
                raise UsageError(f"{origin.place.module}.{origin.place.name} is not the job.")
            return job.spec, job.app
        assert origin.app is not None
        app = self._application(origin.app)
        for module in origin.imports:
            importlib.import_module(module)
        if not app.jobs.find(origin.job):
            raise UsageError(f"{origin.app.module}:{origin.app.name} has no job {origin.job!r}.")
        return app.jobs[origin.job].spec, app

    def _application(self, place: ModuleMember) -> "Windlass":
        """The application there; one that a factory makes is made once."""
        from windlass.app import Windlass

        if place not in self._apps:
            found = _at(importlib.import_module(place.module), place.name)
            if callable(found) and not isinstance(found, type):
                found = found()
            if not isinstance(found, Windlass):
                raise UsageError(f"{place.module}:{place.name} is no Windlass, and makes none.")
            self._apps[place] = found
        return self._apps[place]

    def _in_folder(self, folder: Folder, job: str) -> JobSpec:
        if folder.digest not in self._folders:
            self._folders[folder.digest] = Version(_reading(folder), {})
        version = self._folders[folder.digest]
        by_name = {source.name: source for source in version.reading.sources.values()}
        source = by_name.get(job) or by_name.get(job.removesuffix(f".{FAILURE_HANDLER}"))
        if source is not None:
            try:
                found = define(version, source, version.load(source))
            except JobFileError as error:
                raise UsageError(str(error)) from None
            for spec in (found.spec, found.handler):
                if spec is not None and spec.name == job:
                    return spec
        raise UsageError(f"There is no job {job!r} in {os.fsdecode(folder.folder)}.")


def _reading(folder: Folder) -> Reading:
    sources = [
        Source(
            Path(os.fsdecode(item.file)),
            item.parts,
            item.data,
            hashlib.sha256(item.data).hexdigest(),
        )
        for item in folder.files
    ]
    return Reading(Path(os.fsdecode(folder.folder)), {source.file: source for source in sources})


def _hidden(handler: Callable[..., Any]) -> str | None:
    """Why a function cannot be found by its name, if so."""
    module, name = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return "it is no function"
    if "<lambda>" in name:
        return "a lambda has no name that a fresh process could import; define a function"
    if "<locals>" in name:
        return "it is defined inside a function, where no other process finds it; define it outside"
    return why_not_importable() if module == MAIN else None


def _at(module: object, name: str) -> object:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module
