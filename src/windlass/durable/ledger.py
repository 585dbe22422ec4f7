"""What one attempt knows of the steps of its run."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from windlass.domain.child import ChildRow, Started
from windlass.domain.run import Held, NewRun
from windlass.domain.step import MOST_STEPS, Numbering, Step, StepKind, StepWrite, check_replay
from windlass.durable.acts import Join, Stage, StepFlow
from windlass.errors import LeaseLost, TooLate, TooManySteps
from windlass.store.operations import Operations

_PAGE = 1000


class _Known(NamedTuple):
    step: Step
    read_at: float


class Ledger:
    """The steps that are recorded, those that were asked for, and the numbers of their names.

    It is shared by all tasks, or threads, of one handler; nothing in it waits.
    """

    def __init__(
        self,
        operations: Operations,
        held: Held,
        *,
        is_new: bool,
        monotonic: Callable[[], float],
        is_stopped: Callable[[], bool],
        is_pausing: Callable[[], bool] = lambda: False,
        limit: int = MOST_STEPS,
        stage: Stage | None = None,
    ) -> None:
        self._operations = operations
        self._held = held
        self._monotonic = monotonic
        self.is_stopped = is_stopped  # whether the attempt is to end
        self.is_pausing = is_pausing  # whether an operator asks the run to pause
        self._limit = limit
        self.stage = stage
        self._known: dict[str, _Known] = {}
        self._asked: set[str] = set()
        self.numbers = Numbering()
        self.joined: dict[Hashable, str] = {}  # names, and the paths they were last joined by
        self.is_loaded = is_new  # a run that starts for the first time remembers nothing
        self.is_over = False  # the handler has returned

    @property
    def run(self) -> str:
        """The id of the run."""
        return self._held.id

    @property
    def tenant(self) -> str:
        """Whose run it is."""
        return self._held.tenant

    def load(self) -> StepFlow[None]:
        """Read what is recorded, once."""
        last: str | None = None
        while not self.is_loaded:
            found: Sequence[Step] = yield self._operations.list_steps(
                self._held.tenant, self._held.id, last, _PAGE
            )
            for step in found:
                self._keep(step)
                last = step.path
            self.is_loaded = len(found) < _PAGE

    def check(self, path: str) -> None:
        """Refuse to go on where nothing may be done any more."""
        if self.is_over:
            raise TooLate(path)
        if self.is_stopped():
            raise asyncio.CancelledError

    def find(self, path: str, kind: StepKind, given: str | None = None) -> Step | None:
        """What is recorded of a step that the handler asks for. Raises Nondeterminism."""
        self.check(path)
        self._asked.add(path)
        known = self._known.get(path)
        if known is None:
            if len(self._known) >= self._limit:
                raise TooManySteps(self._held.id, self._limit)
            return None
        check_replay(self._held.id, known.step, kind, given)
        return known.step

    def recorded(self, path: str) -> Step | None:
        """What is recorded of a step, for one who does not ask for it yet."""
        known = self._known.get(path)
        return None if known is None else known.step

    def record(self, write: StepWrite) -> StepFlow[Step]:
        """Remember a step; returns it as it is now. Raises LeaseLost."""
        found: Sequence[Step] | None = yield self._operations.record_steps(self._held, [write])
        if found is None:
            raise LeaseLost(self._held.id, self._held.token)
        step = self._keep(found[0])
        if self.stage is not None and step.state.ended:
            self.stage.recorded(step.path)
        return step

    def join(self, connection: object, path: str, write: StepWrite | None) -> StepFlow[Step | None]:
        """Look for a step, or record it, in the caller's transaction.

        It is not kept here: nobody tells us whether the transaction is committed.
        """
        self.check(path)
        self._asked.add(path)
        found: Step | None = yield Join(connection, self._held, path, write)
        return found

    def start(
        self, write: StepWrite, first: int, runs: Sequence[NewRun], parallel: int | None = None
    ) -> StepFlow[Started]:
        """Start children in a step. Raises LeaseLost."""
        call = self._operations.start_children(self._held, write, first, runs, parallel)
        done: Started = yield call
        if done.lost:
            raise LeaseLost(self._held.id, self._held.token)
        return done

    def look_at_children(self, path: str, *, tolerant: bool) -> StepFlow[Step]:
        """The step that has started children, as it is now. Raises LeaseLost."""
        call = self._operations.await_children(self._held, path, tolerant)
        step: Step | None = yield call
        if step is None:
            raise LeaseLost(self._held.id, self._held.token)
        self._keep(step)
        if self.stage is not None and step.state.ended:
            self.stage.recorded(path)
        return step

    def children(self, path: str, after: int, limit: int) -> StepFlow[Sequence[ChildRow]]:
        """Children of a step, by their places."""
        rows: Sequence[ChildRow] = yield self._operations.list_children(
            self._held.tenant, self._held.id, path, (path, after), limit
        )
        return rows

    def left(self, step: Step) -> float:
        """How many seconds a step still waits."""
        if step.left is None:
            return 0.0
        return step.left - (self._monotonic() - self._known[step.path].read_at)

    @property
    def is_replaying(self) -> bool:
        """Whether there is something recorded that the handler has not come to yet."""
        return any(path not in self._asked for path in self._known)

    @property
    def unasked(self) -> Sequence[str]:
        """What is recorded, and was not asked for."""
        return sorted(path for path in self._known if path not in self._asked)

    def _keep(self, step: Step) -> Step:
        self._known[step.path] = _Known(step, self._monotonic())
        return step
