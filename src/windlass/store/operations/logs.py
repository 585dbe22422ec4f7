"""What is kept of the logs of runs: see `domain/runlog.py`."""

from collections.abc import Sequence

from windlass.domain.run import ProgressReply
from windlass.domain.runlog import LogChunk, LogPlace, LogWrite
from windlass.store.operations.declare import read, write


class LogOperations:
    """The lines that handlers logged."""

    @write()
    def record_logs(self, writes: Sequence[LogWrite]) -> ProgressReply:
        """Write pieces of logs, each under the token of its attempt.

        The reply names those that were not written: another attempt has the run, or somebody has
        it locked. A piece that is there already stays as it is. Nothing waits for a lock.
        """

    @read()
    def list_logs(
        self, tenant: str, run: str, after: LogPlace | None, limit: int
    ) -> Sequence[LogChunk]:
        """The pieces of a run's log after a place, by token and number, at most ``limit``."""
