"""Durable work of handlers in threads: runs the flows, and unwinds the handler to suspend it."""

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from windlass.domain.run import Finish, Held, ProgressWrite
from windlass.domain.step import Step, StepWrite
from windlass.durable.acts import Body, Doing, Join, JoinEnd, StepFlow, Suspended, Suspension, Wait
from windlass.durable.awaited import Patience, whole, within
from windlass.durable.ledger import Ledger
from windlass.store.flow import drive
from windlass.store.operations import Call

T = TypeVar("T")


class BlockingStore(Protocol):
    """Where calls are done."""

    def run(self, call: Call[T]) -> T: ...


class BlockingJoins(Protocol):
    """What writes in the caller's own transaction."""

    def join_step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None: ...

    def join_finish(
        self, connection: object, finish: Finish, told: ProgressWrite | None
    ) -> None: ...


class BlockingWork:
    """The durable work of one attempt, in its thread."""

    def __init__(
        self,
        store: BlockingStore,
        joins: Callable[[], BlockingJoins],
        ledger: Ledger,
        patience: Patience,
    ) -> None:
        self._store = store
        self._joins = joins
        self.ledger = ledger
        self._patience = patience
        self._loading = threading.Lock()
        self.suspension: Suspension | None = None

    def run(self, path: str, make: Callable[[], StepFlow[T]]) -> T:
        """Run a flow of this attempt."""
        self.checkpoint(path)
        if not self.ledger.is_loaded:
            with self._loading:
                drive(self.ledger.load(), self._do)
        return drive(make(), self._do)

    def checkpoint(self, path: str) -> None:
        """Stop here if the run is to end or to pause; inside a step, other than a phase, it goes on
        to the end of that."""
        self._refuse(path)
        if self.ledger.is_pausing() and not whole.get():
            self.suspension = Suspension((Wait(path, None, None, pause=True),))
            raise Suspended

    def _refuse(self, path: str) -> None:
        self.ledger.check(path)
        if self.suspension is not None:
            raise Suspended  # it swallowed the first one

    def _do(self, doing: Doing) -> Any:
        match doing:
            case Body():
                self._refuse(doing.path)
                before, cut = within.set(doing.path), whole.set(whole.get() or not doing.phase)
                try:
                    return doing.function(*doing.args, **doing.kwargs)
                finally:
                    within.reset(before)
                    whole.reset(cut)
            case Wait():
                return self._wait(doing)
            case Join(connection, held, path, write):
                return self._joins().join_step(connection, held, path, write)
            case JoinEnd(connection, finish, told):
                return self._joins().join_finish(connection, finish, told)
            case _:
                return self._store.run(doing)

    def _wait(self, wait: Wait) -> None:
        self._refuse(wait.path)
        if wait.left is not None and wait.left <= self._patience.in_seat:
            time.sleep(wait.left)
            return
        self.suspension = Suspension((wait, *wait.beside))
        raise Suspended
