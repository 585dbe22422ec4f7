"""The jobs of an application: those defined in code, and those of its job files."""

import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.client import Scope
from windlass.domain.job import JobSpec
from windlass.errors import DuplicateJob, JobFileError
from windlass.files.definition import Plan
from windlass.files.faces import JobFaces
from windlass.files.loader import NOTHING, JobFile, Loaded, load_folder
from windlass.files.verbs import JobVerbs
from windlass.files.watch import Watcher
from windlass.job import Job

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.engine.worker import Worker

log = logging.getLogger(__name__)

AnyJob = Job[Any, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredJob:
    """A job as `app.jobs.list()` shows it.

    One of a file that is broken has an `error`, and still runs as its last good `version`; that
    is None where the file has never been good.
    """

    name: str
    file: Path | None = None
    schedule: str | None = None
    version: str | None = None
    error: JobFileError | None = None


class Jobs(Mapping[str, AnyJob], JobFaces):
    """The jobs of an application, by name. Workers that run see what changes here."""

    def __init__(self, app: "Windlass", scope: Scope) -> None:
        self._app = app
        self._scope = scope
        self._lock = threading.RLock()
        self._code: dict[str, AnyJob] = {}
        self._loaded: Loaded = NOTHING
        self._folder: Path | None = None
        self._all: Mapping[str, AnyJob] = {}
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._watcher: Watcher | None = None
        self.first: tuple[str, ...] = ()  # modules that a fresh process imports before any job
        self.withdrawn: set[str] = set()  # jobs whose files had a schedule, until they were edited

    def __getitem__(self, name: str) -> AnyJob:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return f"<Jobs {', '.join(self)}>"

    @property
    def folder(self) -> Path | None:
        """The folder of job files, once it is loaded."""
        return self._folder

    def specs(self) -> Sequence[JobSpec]:
        """The definitions, for a worker."""
        return [job.spec for job in self._all.values()]

    # -- definitions ------------------------------------------------------------------------

    def add(self, job: AnyJob) -> AnyJob:
        """Register a job that is defined in code. Raises DuplicateJob."""
        with self._lock:
            known = self._all.get(job.name)
            if known is not None:
                raise DuplicateJob(job.name, _place(known.spec), _place(job.spec))
            self._code[job.name] = job
            self._settle(self._loaded)
        return job

    def load(self, folder: str | Path | None = None) -> Sequence[JobFileError]:
        """Load the job files of a folder, that of the settings unless given.

        A folder that is missing is empty. Files that cannot be loaded are returned as errors; the
        others are jobs from now on, in workers that run as well.
        """
        with self._lock:
            self._folder = Path(folder or self._scope.settings.jobs).absolute()
            return self.reload()

    def reload(self) -> Sequence[JobFileError]:
        """Load what has changed: new files, changed ones, and none for those that are gone.

        A broken file keeps its last good version. Running attempts finish on the code they
        started with.
        """
        with self._lock:
            if self._folder is not None:
                taken = {name: _place(job.spec) for name, job in self._code.items()}
                before = self.plans().keys()
                loaded = load_folder(self._folder, taken, self._loaded)
                self.withdrawn |= before - _plans(loaded).keys()
                self._settle(loaded)
            return [item.error for item in self._loaded.files if item.error is not None]

    def list(self) -> Sequence[RegisteredJob]:
        """Every job, by name, and every job file that is none for its error."""
        found = [RegisteredJob(name=n, version=j.spec.version) for n, j in self._code.items()]
        found += [_registered(item) for item in self._loaded.files]
        return sorted(found, key=lambda job: (job.name, str(job.file)))

    def plans(self) -> Mapping[str, Plan]:
        """When the job files run by themselves, by the job's name."""
        return _plans(self._loaded)

    def shutdown(self) -> None:
        """Stop watching, and forget the job files: nothing of them starts any more.

        What runs, finishes. Workers go on with the jobs that are defined in code.
        """
        self.unwatch()
        with self._lock:
            self._folder = None
            self._settle(NOTHING)

    @property
    def _verbs(self) -> JobVerbs:
        return JobVerbs(self._scope, self)

    # -- while it runs ----------------------------------------------------------------------

    def watch(self, changed: Callable[[], None] | None = None) -> None:
        """Load the files, and again whenever one changes, until :meth:`unwatch`.

        `changed` is called after each change, in the thread that watches. Needs watchfiles.
        """
        if self._folder is None:
            self.load()
        assert self._folder is not None
        self.unwatch()

        def reload() -> None:
            before = self._loaded
            self.reload()
            if changed is not None and self._loaded is not before:
                changed()

        self._watcher = Watcher(self._folder, reload)
        self._watcher.start()

    def unwatch(self) -> None:
        """Stop watching; what is loaded stays."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()

    def served_by(self, worker: "Worker") -> None:
        """Keep a worker informed of what changes."""
        self._workers.add(worker)

    # -- inside -----------------------------------------------------------------------------

    def _settle(self, loaded: Loaded) -> None:
        before, self._loaded = self._loaded, loaded
        jobs = dict(self._code)
        for item in loaded.files:
            if item.definition is not None:
                jobs[item.name] = Job(self._app, self._scope, item.definition.spec)
        self._all = jobs
        if loaded is not before:
            _report(before, loaded)
        for worker in list(self._workers):
            worker.adopt(self.specs())


def _plans(loaded: Loaded) -> Mapping[str, Plan]:
    found = {item.name: item.definition for item in loaded.files}
    return {name: d.plan for name, d in found.items() if d is not None and d.plan is not None}


def _registered(item: JobFile) -> RegisteredJob:
    plan = item.definition.plan if item.definition is not None else None
    return RegisteredJob(
        name=item.name,
        file=item.file,
        schedule=None if plan is None else plan.cron,
        version=None if item.definition is None else item.definition.spec.version,
        error=item.error,
    )


def _report(before: Loaded, now: Loaded) -> None:
    """Tell what has changed, file by file."""
    known = {item.file: item for item in before.files}
    for item in now.files:
        was = known.pop(item.file, None)
        if item.error is not None:
            if was is None or was.error is None or was.error.args != item.error.args:
                kept = "" if item.definition is None else "; its last good version stays"
                log.error("job file not loaded%s", kept, extra={"error": str(item.error)})
        elif was is None or was.error is not None or _version(was) != _version(item):
            log.info("job file loaded", extra={"job": item.name, "version": _version(item)})
    for gone in known.values():
        log.info("job file gone", extra={"job": gone.name})


def _version(item: JobFile) -> str | None:
    return None if item.definition is None else item.definition.spec.version


def _place(spec: JobSpec) -> str:
    code = getattr(inspect.unwrap(spec.handler), "__code__", None)
    name = f"{spec.handler.__module__}.{getattr(spec.handler, '__qualname__', spec.name)}"
    return f"{name} (line {code.co_firstlineno})" if code is not None else name
