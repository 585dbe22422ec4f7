"""What can be asked about jobs, those of other programs included."""

from collections.abc import Collection, Sequence

from windlass.client.run import Run
from windlass.client.scope import Scope
from windlass.client.verbs import RunVerbs
from windlass.errors import UnknownJob
from windlass.files.stored import StoredJob, stored_job
from windlass.store.flow import Flow

LATEST = 50


class JobVerbs(RunVerbs):
    """The verbs of `app.jobs`."""

    __slots__ = ("_here",)

    def __init__(self, scope: Scope, here: Collection[str]) -> None:
        """`here` are the names of the jobs that this process knows."""
        super().__init__(scope)
        self._here = here

    def stored(self) -> Flow[Sequence[StoredJob]]:
        """Every job that a worker has ever had, by name; its code need not be here."""
        found = yield self._operations.list_jobs(self._scope.tenant)
        return [stored_job(record) for record in found]

    def look_up(self, name: str) -> Flow[StoredJob | None]:
        """A job as the store knows it, or None if no worker has ever had it."""
        found = yield self._operations.get_job(self._scope.tenant, name)
        return None if found is None else stored_job(found)

    def runs(self, name: str) -> Flow[Sequence[Run]]:
        """The last 50 runs of a job, newest first. Raises UnknownJob."""
        if name not in self._here:
            stored = yield self._operations.get_job(self._scope.tenant, name)
            if stored is None:
                raise UnknownJob(name, sorted(self._here))
        return (yield from self.list(job=name, limit=LATEST))
