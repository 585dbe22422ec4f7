"""What operators do to runs: end them, reopen them, move them in time."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from windlass.domain.bulk import BULK_VERBS, Applied
from windlass.domain.changes import Changes
from windlass.domain.run import RunRecord, RunRef
from windlass.store.operations.declare import write


class ControlOperations:
    """The verbs of operators. A run that does not exist raises RunNotFound.

    ``by`` says who acts, for the audit log (`domain/audit.py`).
    """

    @write(patient=True)
    def cancel(self, run: RunRef, reason: str | None, *, by: str | None = None) -> RunRecord:
        """End a run that has not started (final); ask for the end of a running one.

        Repeating it is harmless. A finished run raises IllegalTransition, except one that
        is canceled already, which is returned as it is.
        """

    @write(patient=True)
    def pause(self, run: RunRef, reason: str | None, *, by: str | None = None) -> RunRecord:
        """Stop a run for now; ask a running one to stop at its next step, wait or checkpoint.

        It remembers what it was doing. Repeating it is harmless, and so is pausing a run that was
        asked to end: that stands. A finished run raises IllegalTransition.
        """

    @write(patient=True)
    def resume(self, run: RunRef, *, by: str | None = None) -> RunRecord:
        """Let a paused run go on where it was; take the request to pause a running one back.

        Any other live run stays as it is. A finished run raises IllegalTransition.
        """

    @write(patient=True)
    def terminate(self, run: RunRef, reason: str | None, *, by: str | None = None) -> RunRecord:
        """End a run now, as canceled; a running one loses its lease.

        Repeating it is harmless. A finished run raises IllegalTransition, except one that
        is canceled already, which is returned as it is.
        """

    @write(repeatable=False, patient=True)
    def restart(self, run: RunRef, step: str | None, *, by: str | None = None) -> RunRecord:
        """Let a run that does not run begin anew: queued, with a fresh budget.

        Its steps are forgotten, all of them, or ``step`` and those recorded after it, which must be
        recorded (BadArguments). Their children that live are canceled; signals that they took may
        be taken again. A running run raises IllegalTransition, and so does one that succeeded,
        unless it is stale.
        """

    @write(repeatable=False, patient=True)
    def retry(
        self,
        run: RunRef,
        max_attempts: int | None,
        input: msgspec.Raw | None = None,
        *,
        by: str | None = None,
    ) -> RunRecord:
        """Reopen a failed, canceled or stale run: queued, with a fresh budget.

        Token, attempt and seq go on; failures and crash_count start at zero. With ``input`` it
        starts with that; its key still answers for the input that it was enqueued with.
        """

    @write(repeatable=False, patient=True)
    def reschedule(
        self,
        run: RunRef,
        *,
        at: datetime | None = None,
        delay: float | None = None,
        by: str | None = None,
    ) -> RunRecord:
        """Move a run that has not started to another time; reopen one that ended, for that time.

        Either ``at`` or ``delay``, in seconds from the store's now. A time that has come makes it
        ready. A run that waits keeps its counts, expiry and deadline: one that would have ended
        by then raises RunExpires. What ended is reopened as by :meth:`retry`, which also takes
        its expiry and deadline away. A running or succeeded run raises IllegalTransition.
        """

    @write(patient=True)
    def reprioritize(
        self,
        run: RunRef,
        *,
        priority: int | None = None,
        queue: str | None = None,
        by: str | None = None,
    ) -> RunRecord:
        """Give a run that has not started another priority, another queue, or both.

        It keeps its time: in its new place it comes before what became ready after it. Repeating
        it is harmless. A run that is running or has ended raises IllegalTransition.
        """

    @write(patient=True)
    def change(self, run: RunRef, changes: Changes, *, by: str | None = None) -> RunRecord:
        """Give a run that waits another input, other tags, another timeout, expiry or deadline.

        It keeps its place, its time and its counts. Its key still answers for the input that it
        was enqueued with. An expiry or deadline that comes before it can start raises RunExpires. A
        run that is running or has ended raises IllegalTransition. Repeating it is harmless.
        """

    @write(repeatable=False, patient=True)
    def discard(self, tenant: str, runs: Sequence[str], *, by: str | None = None) -> int:
        """Take failed runs off the list of dead letters; returns how many were on it."""

    @write(repeatable=lambda verb, *_: BULK_VERBS[verb].repeatable, patient=True)
    def apply_to_many(
        self, verb: str, tenant: str, runs: Sequence[str], arguments: Mapping[str, Any]
    ) -> Sequence[Applied]:
        """Apply a verb to several runs, each as the verb for one run would be, with its arguments.

        A run that refuses does not undo the others. It waits for no run that another transaction
        has locked: such a run is answered with StoreBusy. See `client/bulk.py`.
        """
