"""What a worker holds: its leases, and where each attempt stands.

Shared by the loop, which changes it, and the renewal thread, which reads it. The one rule of
order is in :meth:`Holdings.settle` and :meth:`Holdings.snapshot`: a claim's runs are held before
its number counts as settled, and the reader takes ``settled`` first. So a renewal can never give
back a run whose claim reply has just arrived.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from logging import LogRecord
from typing import Any, NamedTuple, Protocol

import msgspec

from windlass.domain.job import JobSpec
from windlass.domain.outcome import Outcome, decide_failure
from windlass.domain.run import Claimed, Finish, Held
from windlass.durable.acts import Suspension
from windlass.durable.ledger import Ledger
from windlass.gauge import Gauge
from windlass.notebook import Notebook


class Stop(StrEnum):
    """Why an attempt was told to end."""

    CANCEL = "cancel"  # an operator canceled the run
    TIMEOUT = "timeout"  # the attempt took too long
    DEADLINE = "deadline"  # the run had to be done by now
    SHUTDOWN = "shutdown"  # the worker goes, the grace is over
    LOST = "lost"  # the lease is another's


class DurableWork(Protocol):
    """The steps and waits of one attempt."""

    ledger: Ledger
    suspension: Suspension | None


class Holding(msgspec.Struct, eq=False):
    """One lease, from claim to the recorded end."""

    claimed: Claimed
    spec: JobSpec
    started: float | None = None  # when it got its seat, by the loop's clock
    stop: Stop | None = None
    reason: str | None = None
    stopping: bool = False
    pausing: bool = False  # an operator asks it to pause, at its next step, wait or checkpoint
    heard_at: float | None = None  # when it was asked to end or to pause, by the loop's clock
    concluded: bool = False  # its outcome is decided; what comes later is ignored
    task: asyncio.Task[None] | None = None
    suspect: bool = False  # it runs in a child process because a worker has died under it
    isolated: bool = False  # it runs in a child process
    pid: int | None = None  # of the child process that it runs in
    exists: Callable[[], bool] = lambda: False  # whether that process is there, from any thread
    told: Callable[[], None] | None = None  # passes on how it stands to a child process
    accused: Finish | None = None  # its end, if it outlives a worker that it may have stopped
    joined: Finish | None = None  # its end, as its handler gave it to a transaction of its own
    bench: Callable[[], Any] | None = None  # what makes its durable work, while it runs
    work: DurableWork | None = None  # its steps and waits, if it has any
    gauge: Gauge | None = None  # what it tells of its progress, if anything
    notebook: Notebook | None = None  # what it logs, if anything
    keep_line: Callable[[LogRecord], None] | None = None  # what notes that

    @property
    def version(self) -> str | None:
        """Which version it runs, of a definition that may change while the worker runs."""
        return self.spec.version if self.spec.home is not None else None

    @property
    def max_attempts(self) -> int:
        """How many failures end the run: its own number, else its job's."""
        options = self.claimed.options
        own = options.max_attempts if options else None
        return own or self.spec.max_attempts

    @property
    def canceled(self) -> bool:
        """Whether the handler should end, for whatever reason: what it sees as `ctx.canceled`."""
        return self.stop is not None

    @property
    def lost(self) -> bool:
        """Whether nothing can be recorded under its lease any more."""
        return self.concluded or self.stop is Stop.LOST

    def is_final(self, error: BaseException) -> bool:
        """Whether the run fails for good if this attempt ends by the error."""
        stopped = self.stop is not None and isinstance(error, asyncio.CancelledError)
        if stopped and self.stop is not Stop.TIMEOUT:
            return self.stop is Stop.DEADLINE
        verdict = decide_failure(
            self.spec.retry,
            TimeoutError() if stopped else error,
            failures_before=self.claimed.failures,
            max_attempts=self.max_attempts,
            timed_out=stopped,
            random=0.0,  # how long it waits is not asked
        )
        return verdict.outcome is Outcome.FAILED

    @property
    def held(self) -> Held:
        """The lease as the store knows it."""
        return Held(self.claimed.tenant, self.claimed.id, self.claimed.token)


class Standing(NamedTuple):
    """What a worker held at one moment, and the number of the last claim that it had begun."""

    held: Sequence[Holding]
    claims: int


@dataclass(slots=True)
class Holdings:
    """All leases of one worker, and the numbers of its claims."""

    _by_run: dict[tuple[str, str], Holding] = field(default_factory=dict)
    _open_claims: set[int] = field(default_factory=set)
    _claim_no: int = 0
    _renounced: int = 0

    def __len__(self) -> int:
        return len(self._by_run)

    def begin_claim(self) -> int:
        """Number a claim that is about to be sent."""
        number = self._claim_no + 1
        self._open_claims.add(number)  # first: whoever sees the number sees that it is open
        self._claim_no = number
        return number

    def settle(self, claim_no: int) -> None:
        """A claim was answered (its runs are added already) or given up."""
        self._open_claims.discard(claim_no)

    def give_up_claims(self) -> None:
        """The name they were sent under is dead: what they bring is not waited for."""
        self._open_claims.clear()

    def standing(self) -> Standing:
        """What is held, and how many claims were begun; from any thread."""
        return Standing(self.all(), self._claim_no)

    def renounce_claims(self, last: int) -> None:
        """Nobody reads the replies of those under way, up to this one: what they bring is given
        back. Called by another thread, while the loop is blocked, or just comes back and begins
        the next."""
        self._renounced = max(self._renounced, last)
        self._open_claims.difference_update([n for n in self._open_claims.copy() if n <= last])

    def is_renounced(self, claim_no: int) -> bool:
        """Whether what this claim brings has been given back."""
        return 0 < claim_no <= self._renounced

    def add(self, holding: Holding) -> Holding | None:
        """Hold a run that was just claimed; returns an older lease of it that was still here."""
        run = holding.claimed.tenant, holding.claimed.id
        older = self._by_run.get(run)
        self._by_run[run] = holding
        return older

    def drop(self, claimed: Claimed) -> None:
        """Forget a lease, unless a newer one of the same run has taken its place."""
        self.drop_ended([claimed])

    def drop_ended(self, leases: Iterable[Claimed | Finish]) -> bool:
        """Forget leases that are over, as :meth:`drop` does; returns whether one was of a child."""
        by_run = self._by_run
        children = False
        for lease in leases:
            run = lease.tenant, lease.id
            holding = by_run.get(run)
            if holding is not None and holding.claimed.token == lease.token:
                del by_run[run]
                extras = holding.claimed.extras
                children = children or (extras is not None and extras.is_child)
        return children

    def find(self, tenant: str, run: str, token: int) -> Holding | None:
        """The holding of exactly this lease."""
        holding = self._by_run.get((tenant, run))
        return holding if holding is not None and holding.claimed.token == token else None

    def all(self) -> list[Holding]:
        """Everything held now."""
        return list(self._by_run.values())

    def snapshot(self) -> tuple[int, list[Held]]:
        """For the renewal thread: the settled claim number, and what is held."""
        last = self._claim_no  # first: one that begins while we look is not settled
        settled = min(self._open_claims.copy(), default=last + 1) - 1
        return settled, [holding.held for holding in self._by_run.copy().values()]
