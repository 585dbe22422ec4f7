"""The store's seam: what every store can do, said once.

**A call is one transaction, described but not yet run.** The methods of `Operations`
(``store/operations``) do no I/O; they return a :class:`Call`, and a :class:`Store` runs
it, blocking (:meth:`Store.run`) or on the loop (:meth:`Store.arun`). So there is one
declaration of each operation and two small drivers, instead of two trees of code. The
seam is internal and free to change; ``tests/conformance`` is its definition.

Positions
    A live run has exactly one position row, in ``timers`` (scheduled), ``ready``
    (queued) or ``leases`` (running); a finished run has none, and ``runs.status`` is
    set. Every move starts by deleting the position row by key: that row is the mutex.
    The row carries attempt, failures, crash_count, token and seq, and hands them on.
Fencing
    ``token`` grows by one at each claim. Whatever a worker writes names (run, token);
    where the lease is gone or has another token, nothing is written and the worker is
    told (``lost``). Nothing else decides who may write: no clock, no status.
Time
    The store's clock is the only one that is written. Callers send delays, not times,
    except where the user named an instant.
Events
    Every state change appends its event, with the next ``seq`` of its run, in the same
    transaction.
Repeats
    A driver repeats a call whose outcome is unknown (the reply was lost) only if
    ``repeatable``. Enqueue is repeatable because ids are made by the client; finish
    because the second try finds no lease, so a repeated finish may report ``lost`` for
    what it did record: the worker asks no more of it than to forget the run. Claim is
    not; the leases of a lost reply are given back by the next renewal (``claim_no``).
    Nor is what would answer otherwise the second time, to somebody who asks: how many were
    discarded, whether an artifact was there. Nobody asks whether a schedule was.
"""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from windlass.domain.run import Finish, Held, NewRun, ProgressWrite
from windlass.domain.run import RunRef as RunRef
from windlass.domain.step import Step, StepWrite
from windlass.store.blocking import BlockingCalls
from windlass.store.callers_transaction import Joined, TransactionScope
from windlass.store.checks import Check
from windlass.store.operations import Call as Call
from windlass.store.operations import Operations

T = TypeVar("T")


class Wakeups(Protocol):
    """Hints that there may be something to claim. They may be lost; polling finds all."""

    async def wait(self, timeout: float) -> bool:
        """Return true when woken, false after ``timeout`` seconds."""
        ...

    async def close(self) -> None:
        """Stop listening."""
        ...


class Migration(NamedTuple):
    """What a migration did: the versions before and after, and what had been damaged."""

    before: int
    after: int
    mended: tuple[str, ...] = ()


class Store(Protocol):
    """A store: connections, transactions, retries. Opens nothing until first used."""

    operations: Operations  # where calls are made

    def admit(self, write: str) -> None:
        """Raise UsageError if the caller holds a transaction: another thread is about to write on
        its behalf, and could not see that. ``write`` names the call."""
        ...

    def run(self, call: Call[T]) -> T:
        """Run a call, blocking; usable from any thread and, after a fork, in the child."""
        ...

    async def arun(self, call: Call[T]) -> T:
        """Run a call without blocking the loop."""
        ...

    def join(self, connection: object, runs: Sequence[NewRun]) -> Joined:
        """Enqueue in the caller's transaction: the runs exist if and only if it commits.

        As :meth:`Operations.enqueue`, but never repeated. No hint reaches a worker before the
        commit. Raises BadOption for a connection on which that cannot be done.
        """
        ...

    async def ajoin(self, connection: object, runs: Sequence[NewRun]) -> Joined:
        """As :meth:`join`, on the loop."""
        ...

    def join_step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None:
        """A step in the caller's transaction: it is recorded if and only if that commits.

        Without ``write``: lock the run, and return the step if it is recorded. With it: record the
        step, and return it. Under a token that is not the lease's, raises LeaseLost, and the
        transaction cannot be committed any more.
        """
        ...

    async def ajoin_step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None:
        """As :meth:`join_step`, on the loop."""
        ...

    def join_finish(self, connection: object, finish: Finish, told: ProgressWrite | None) -> None:
        """The end of an attempt in the caller's transaction: it counts if and only if that commits.

        As by :meth:`Operations.cycle`; before it, what the handler told last of its progress. Under
        a token that is not the lease's, raises LeaseLost, and the transaction cannot be committed
        any more.
        """
        ...

    async def ajoin_finish(
        self, connection: object, finish: Finish, told: ProgressWrite | None
    ) -> None:
        """As :meth:`join_finish`, on the loop."""
        ...

    def transaction(self) -> TransactionScope:
        """A transaction for statements of the caller's own, and to :meth:`join`."""
        ...

    def notify(self) -> None:
        """Hint to workers that something became ready; coalesced, never raises."""
        ...

    async def anotify(self) -> None:
        """As :meth:`notify`, on the loop."""
        ...

    async def listen(self) -> Wakeups:
        """Start receiving hints."""
        ...

    @property
    def place(self) -> str:
        """Where it is, as a URL for people: without a password."""
        ...

    def checks(self, *, full: bool = False) -> Sequence[Check]:
        """What the store looks at in itself when it is asked how it is.

        ``full``: also what takes long, such as every page of a large file.
        """
        ...

    blocking: BlockingCalls  # those that hold up an event loop are told
    migrates_itself: bool  # an older schema is brought up to date by whoever uses it next
    writes_abreast: int  # how many writes of one process make headway at once
    batch: int  # the most runs that a worker claims, and ends that it sends, in one call

    def migrate(self) -> Migration:
        """Bring the schema up to date, and mend what can be mended."""
        ...

    def outdated(self) -> Sequence[str]:
        """The names of what :meth:`migrate` would make anew although the version is right."""
        ...

    def schema_version(self) -> tuple[int, int]:
        """The schema's version as found (0: there is none) and as this program needs it.

        Changes nothing, and tells at once when the database cannot be reached.
        """
        ...

    def backup(self, place: Path, *, replace: bool) -> int:
        """Copy the store to a file while it is in use; return the bytes written.

        Raises UsageError where the file may not be written, or where this is for other tools.
        """
        ...

    def close(self) -> None:
        """Close what this thread or process opened for the sync face."""
        ...

    async def aclose(self) -> None:
        """Close everything."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
