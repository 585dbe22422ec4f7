"""Pause and resume queues and jobs, as flows: the protocol is in `domain/pause.py`."""

from collections.abc import Sequence

from windlass.acting import actor
from windlass.client.filters import check_reason
from windlass.client.verbs import RunVerbs
from windlass.domain.job import check_name
from windlass.domain.pause import PauseKind, WorkPause
from windlass.store.flow import Flow, Hint


class PauseVerbs(RunVerbs):
    """Stop queues and jobs as a whole, and let them go on."""

    def pause_queue(self, queue: str, *, reason: str | None = None) -> Flow[WorkPause]:
        """Start nothing from a queue until `resume_queue`. Runs that are running go on.

        When this has returned, no worker anywhere starts a run of it. What waits keeps its place,
        and runs may be enqueued meanwhile; `expires` and `deadline` go on. You may repeat it:
        the first pause stays as it is. Raises StoreBusy if somebody keeps a claim in an open
        transaction: the pause is stored then, and you can repeat the call.
        """
        return (yield from self._pause(PauseKind.QUEUE, check_name("queue", queue), reason))

    def resume_queue(self, queue: str) -> Flow[bool]:
        """Let a queue go on; returns whether it was paused."""
        return (yield from self._resume(PauseKind.QUEUE, check_name("queue", queue)))

    def pause_job(self, job: str, *, reason: str | None = None) -> Flow[WorkPause]:
        """Start no run of a job, in any queue, until `resume_job`; otherwise as `pause_queue`."""
        return (yield from self._pause(PauseKind.JOB, check_name("job", job), reason))

    def resume_job(self, job: str) -> Flow[bool]:
        """Let a job go on; returns whether it was paused."""
        return (yield from self._resume(PauseKind.JOB, check_name("job", job)))

    def pauses(self) -> Flow[Sequence[WorkPause]]:
        """List the queues and jobs that are paused: since when, by whom and why."""
        found: Sequence[WorkPause] = yield self._operations.list_pauses(self._scope.tenant)
        return found

    def _pause(self, kind: PauseKind, name: str, reason: str | None) -> Flow[WorkPause]:
        why = check_reason(reason)
        paused: WorkPause = yield self._operations.pause_work(
            self._scope.tenant, kind, name, why, by=actor()
        )
        yield self._operations.settle_pauses()
        return paused

    def _resume(self, kind: PauseKind, name: str) -> Flow[bool]:
        call = self._operations.resume_work(self._scope.tenant, kind, name, by=actor())
        was_paused = (yield call) is not None
        yield Hint()  # there may be something to claim
        return was_paused
