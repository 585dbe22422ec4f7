"""What runs remember of their steps, and the signals that are sent to them."""

from collections.abc import Sequence

import msgspec

from windlass.domain.approval import AnswerReply, OpenApproval
from windlass.domain.run import Held, RunRef
from windlass.domain.step import Generation, Signal, Step, StepWrite
from windlass.store.operations.declare import read, write


class StepOperations:
    """The calls of handlers that have durable steps, and of those who send signals."""

    @read(for_handlers=True)
    def list_steps(
        self, tenant: str, run: str, after: str | None, limit: int, generation: int = 0
    ) -> Sequence[Step]:
        """The steps of a run by path, after a path, at most ``limit``."""

    @write(patient=True, for_handlers=True)
    def record_steps(self, held: Held, steps: Sequence[StepWrite]) -> Sequence[Step] | None:
        """Remember steps under the run's token; returns them as they are now. None: it is lost.

        A step that has ended stays as it is. One that waits keeps the time until which it waits;
        if a signal of its name is there that answered no other, the first of them answers it, and
        if its time is over, it has timed out.
        """

    @read()
    def list_generations(
        self, tenant: str, run: str, after: int, limit: int
    ) -> Sequence[Generation]:
        """The inputs that a run went on from, in order, after a number."""

    @write(patient=True, repeatable=lambda run, name, payload, key, by: key is not None)
    def signal(
        self,
        run: RunRef,
        name: str,
        payload: msgspec.Raw,
        key: str | None,
        *,
        by: str | None = None,
    ) -> Signal:
        """Send a signal to a run that has not ended. A run that waits for it is made ready.

        The key of one that was sent before, under that name, returns that one. Raises RunNotFound,
        IllegalTransition.
        """

    @write(patient=True)
    def answer_approval(
        self,
        run: RunRef,
        path: str,
        approved: bool,
        by: str | None,
        comment: str | None,
        token: str | None,
        *,
        actor: str | None = None,
    ) -> AnswerReply:
        """Answer an approval that a run has asked for; the first answer counts.

        ``by`` is who the handler sees, ``actor`` who the audit log has, if ``by`` is not given.

        ``token`` is the hash of one that must be the approval's, None for those who need none.
        Raises RunNotFound, IllegalTransition.
        """

    @read()
    def list_approvals(
        self, tenant: str, after: tuple[str, str] | None, limit: int
    ) -> Sequence[OpenApproval]:
        """What is asked for and has no answer, by run and path, after a run and a path."""

    @read()
    def list_signals(self, tenant: str, run: str, after: int, limit: int) -> Sequence[Signal]:
        """The signals that were sent to a run, in order, after a number."""
