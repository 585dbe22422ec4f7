"""Runs that runs start and wait for: see `domain/child.py`."""

from collections.abc import Sequence

from windlass.domain.child import ChildRow, Started
from windlass.domain.run import Held, NewRun
from windlass.domain.step import Step, StepWrite
from windlass.store.operations.declare import read, write


class ChildOperations:
    """The calls of handlers that have children."""

    @write(new_work=True, patient=True, for_handlers=True)
    def start_children(
        self,
        held: Held,
        step: StepWrite,
        first: int,
        runs: Sequence[NewRun],
        parallel: int | None = None,
    ) -> Started:
        """Start children in a step of a run, under its token; the step is recorded as waiting.

        The first of them has place ``first`` among all of the step's. Those whose place is taken
        were started before. If more than ``parallel`` would be live, the others are held.
        """

    @write(patient=True, for_handlers=True)
    def await_children(self, held: Held, path: str, tolerant: bool = False) -> Step | None:
        """The step that has started children: it ends if they have. None: the lease is lost.

        It fails if one of them has not succeeded; of several, not if ``tolerant``.
        """

    @read(for_handlers=True)
    def list_children(
        self,
        tenant: str,
        run: str,
        path: str | None,
        after: tuple[str, int] | None,
        limit: int,
    ) -> Sequence[ChildRow]:
        """The children of a run, or of one of its steps, by step and place, after a place."""
