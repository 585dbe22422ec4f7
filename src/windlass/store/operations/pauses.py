"""Pauses of queues and jobs: the protocol is in `domain/pause.py`."""

from collections.abc import Sequence

from windlass.domain.pause import PauseKind, WorkPause
from windlass.store.operations.declare import read, write


class PauseOperations:
    """Stops queues and jobs, and lets them go on."""

    @write(patient=True)
    def pause_work(
        self,
        tenant: str,
        kind: PauseKind,
        name: str,
        reason: str | None = None,
        *,
        by: str | None = None,
    ) -> WorkPause:
        """Pause a queue or a job, which need not exist yet; one that is paused stays as it is.

        Claims that are under way may not have seen it: :meth:`settle_pauses` must follow.
        """

    @write(patient=True)
    def settle_pauses(self) -> None:
        """Wait until every claim is over that may not have seen the pauses of before this call.

        Raises StoreBusy if one does not end, because somebody keeps its transaction open.
        """

    @write(patient=True)
    def resume_work(
        self, tenant: str, kind: PauseKind, name: str, *, by: str | None = None
    ) -> WorkPause | None:
        """Let a queue or a job go on; returns the pause that was there."""

    @read()
    def list_pauses(self, tenant: str | None) -> Sequence[WorkPause]:
        """What is paused, by kind and name; None: of all tenants."""
