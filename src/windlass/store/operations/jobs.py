"""What is known of jobs."""

from collections.abc import Sequence

from windlass.domain.run import JobRecord, JobRow
from windlass.store.operations.declare import read, write


class JobOperations:
    """The definitions that workers announced."""

    @write()
    def sync_jobs(self, jobs: Sequence[JobRow], worker: str | None = None) -> None:
        """Insert or update job rows; rows equal to what is stored are not rewritten.

        ``worker``: these are the jobs that it runs from now on.
        """

    @read()
    def get_job(self, tenant: str, name: str) -> JobRecord | None:
        """One job row."""

    @read()
    def list_jobs(self, tenant: str) -> Sequence[JobRecord]:
        """All job rows of a tenant, by name."""
