"""The jobs of an application: those defined in code, and those of its job files."""

import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.client import Scope
from windlass.domain.job import JobSpec
from windlass.domain.origin import ModuleMember
from windlass.errors import DuplicateJob, JobFileError
from windlass.files.definition import Definition, Plan
from windlass.files.faces import JobFaces
from windlass.files.loader import NOTHING, JobFile, Loaded, load_folder
from windlass.files.verbs import JobVerbs
from windlass.files.watch import Watcher
from windlass.job import Job, Membership, place_of_handler

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
        self._named = False  # whether somebody has said that this folder has job files
        self._all: Mapping[str, AnyJob] = {}
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._watcher: Watcher | None = None
        self.first: tuple[str, ...] = ()  # modules that a fresh process imports before any job
        self.place: ModuleMember | None = None  # of the application, if no module here has it
        self.withdrawn: set[str] = set()  # jobs whose files had a schedule, until they were edited
        self.finder: Callable[[str], None] | None = None
        """Defines the job of a name that says where it is, if there is one: for integrations."""

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
        """The definitions, for a worker, each with the handler of its failures."""
        return [_handled(job) for job in self._all.values()]

    def refresh(self) -> None:
        """Let workers know of definitions that have changed."""
        with self._lock:
            self._settle(self._loaded)

    # -- definitions ------------------------------------------------------------------------

    def add(self, job: AnyJob) -> AnyJob:
        """Register a job that is defined in code. Raises DuplicateJob."""
        with self._lock:
            self.check_free([job.spec])
            self._code[job.name] = job
            self._settle(self._loaded)
        return job

    def find(self, name: str) -> bool:
        """Whether there is such a job, now that it was looked for by its name."""
        if name not in self and self.finder is not None:
            self.finder(name)
        return name in self

    def check_free(self, specs: Sequence[JobSpec]) -> None:
        """Raise DuplicateJob if one of them has a name that a job here has, or another of them."""
        taken = {name: job.spec for name, job in self._all.items()}
        for spec in specs:
            known = taken.setdefault(spec.name, spec)
            if known is not spec:
                first, second = place_of_handler(known), place_of_handler(spec)
                raise DuplicateJob(spec.name, first, second)

    def remove(self, jobs: Sequence[AnyJob]) -> None:
        """Forget jobs that are defined in code; runs of them that have started go on."""
        with self._lock:
            for job in jobs:
                del self._code[job.name]
            self._settle(self._loaded)

    def load(self, folder: str | Path | None = None) -> Sequence[JobFileError]:
        """Load the job files of a folder, that of the settings unless given.

        A folder that is missing is empty. So is the default one if it is a package that the
        application imports itself. Files that cannot be loaded are returned as errors; the others
        are jobs from now on, in workers that run as well.
        """
        settings = self._scope.settings
        with self._lock:
            self._folder = Path(folder or settings.jobs).absolute()
            self._named = folder is not None or settings.jobs_named
            if self._is_own_package():
                log.info(
                    "folder is a package of the application, so it has no job files; the setting "
                    "`jobs` names another folder",
                    extra={"folder": str(self._folder)},
                )
            return self.reload()

    def reload(self) -> Sequence[JobFileError]:
        """Load what has changed: new files, changed ones, and none for those that are gone.

        A broken file keeps its last good version. Running attempts finish on the code they
        started with.
        """
        with self._lock:
            if self._folder is not None:
                taken = {name: place_of_handler(job.spec) for name, job in self._code.items()}
                before = self.plans().keys()
                own = self._is_own_package()
                loaded = NOTHING if own else load_folder(self._folder, taken, self._loaded)
                self.withdrawn |= before - _plans(loaded).keys()
                self._settle(loaded)
            return [item.error for item in self._loaded.files if item.error is not None]

    def list(self) -> Sequence[RegisteredJob]:
        """Every job, by name, and every job file that is none for its error."""
        found = [RegisteredJob(name=n, version=j.spec.version) for n, j in self._code.items()]
        found += [job for item in self._loaded.files for job in _registered(item)]
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

    def _is_own_package(self) -> bool:
        """Whether the default folder is what the application imports as a package of its own."""
        if self._folder is None or self._named:
            return False
        file = getattr(sys.modules.get(self._folder.name), "__file__", None)
        return file is not None and Path(file).resolve().parent == self._folder.resolve()

    def _settle(self, loaded: Loaded) -> None:
        before, self._loaded = self._loaded, loaded
        jobs = dict(self._code)
        for item in loaded.files:
            if item.definition is not None:
                jobs.update(self._jobs_of(item.definition))
        self._all = jobs
        if loaded is not before:
            _report(before, loaded)
        for worker in list(self._workers):
            worker.adopt(self.specs())

    def _jobs_of(self, definition: Definition) -> Iterator[tuple[str, AnyJob]]:
        """The job of a file, and that of its failure handler."""
        membership = Membership(definition.spec, self._app, self._scope)
        handler = definition.on_failure
        if isinstance(handler, JobSpec):
            handler = Job(Membership(handler, self._app, self._scope, handles={}))
            yield handler.name, handler
        membership.on_failure = handler
        yield definition.spec.name, Job(membership)


def _handled(job: AnyJob) -> JobSpec:
    handler = job.failure_handler
    return job.spec if handler is None else replace(job.spec, on_failure=handler.as_failure_handler)


def _plans(loaded: Loaded) -> Mapping[str, Plan]:
    found = {item.name: item.definition for item in loaded.files}
    return {name: d.plan for name, d in found.items() if d is not None and d.plan is not None}


def _registered(item: JobFile) -> Iterator[RegisteredJob]:
    definition = item.definition
    plan = None if definition is None else definition.plan
    job = RegisteredJob(
        name=item.name,
        file=item.file,
        schedule=None if plan is None else plan.shown,
        version=_version(item),
        error=item.error,
    )
    yield job
    if definition is not None and definition.handler is not None:
        yield replace(job, name=definition.handler.name, schedule=None)


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
