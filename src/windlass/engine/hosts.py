"""What each part of a worker sees of it.

A part is given one host to talk to, by a Protocol that names what this part needs and no more. In a
worker, the hub is the host of all of them (:mod:`windlass.engine.hub`). A test gives a part a host
of its own.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from windlass.domain.run import Claimed, Finish, Held, ProgressWrite, RenewReply, RunRef
from windlass.domain.runlog import LogWrite

if TYPE_CHECKING:
    from windlass.engine.joined import JoinedEnds
    from windlass.engine.reporting import Reports


class IntakeHost(Protocol):
    """The worker, as its intake sees it."""

    @property
    def poll_every(self) -> float:
        """Seconds without a wake-up after which to look for runs."""

    def woken(self) -> None:
        """The store was changed; called twice for each wake-up."""

    def runs_ready(self) -> None:
        """There was no wake-up for long: look all the same."""

    def room(self) -> int:
        """How many runs a transport may bring now."""

    async def seat_freed(self) -> None:
        """Wait until there may be more room."""

    def delivered(self, runs: tuple[RunRef, ...], /) -> None:
        """A transport brought these."""

    def task_ended(self, task: "asyncio.Task[None]", /) -> None:
        """A task is over, canceled or by an error."""


class PumpHost(Protocol):
    """The worker, as its pump sees it."""

    @property
    def may_claim(self) -> bool:
        """Whether to ask for runs."""

    def claimed(self, runs: Sequence[Claimed], /) -> None:
        """A claim brought these."""

    async def before_ends(self, ends: Sequence[Finish], /) -> Sequence[Held]:
        """Write what must be written before these ends; returns those that must wait for it."""

    @property
    def joined(self) -> "JoinedEnds":
        """Ends that handlers gave to transactions of their own."""

    def recorded(self, ends: Sequence[Finish], /) -> None:
        """The store has answered these ends: their leases are over."""

    async def requeued(self, runs: Sequence[RunRef], /) -> None:
        """These are ready again, by their ends."""

    def runs_ready(self) -> None:
        """A run failed for good: that of its failure handler may be there."""

    def renew_soon(self) -> None:
        """The store refused a claim, or a claim came too late: ask it how we stand."""

    def task_ended(self, task: "asyncio.Task[None]", /) -> None:
        """A round trip is over, canceled or by an error."""


class SeatsHost(Protocol):
    """The worker, as its seats see it."""

    @property
    def may_start(self) -> bool:
        """Whether the leases are ours beyond doubt."""

    def concluded(self, finish: Finish, /) -> None:
        """The end of an attempt is decided: record it."""

    @property
    def joined(self) -> "JoinedEnds":
        """Ends that handlers gave to transactions of their own."""

    @property
    def progress(self) -> "Reports[ProgressWrite]":
        """What writes the progress that attempts tell."""

    @property
    def lines(self) -> "Reports[LogWrite]":
        """What writes the lines that attempts log."""

    def freed(self) -> None:
        """A seat is free, or a lease is gone."""


class ReportsHost(Protocol):
    """The worker, as its reports see it."""

    def disowned(self, held: Held, /) -> None:
        """The store says that this lease is another's."""

    def task_ended(self, task: "asyncio.Task[None]", /) -> None:
        """A write is over, canceled or by an error."""


class HeartHost(Protocol):
    """The worker, as its heart sees it. All of it is called on the event loop."""

    def renewed(self, worker: str, reply: RenewReply, /) -> None:
        """The store has answered the heartbeat under this name."""

    def disowned(self, held: Held, /) -> None:
        """The heartbeat gave this lease up, and the store took it."""

    def failed(self, error: Exception, /) -> None:
        """The heartbeat has ended by this error."""


class RosterHost(Protocol):
    """The worker whose jobs are stored."""

    @property
    def worker(self) -> str:
        """Its name in the store now."""

    async def jobs_stored(self) -> None:
        """The store knows the jobs; raises what keeps it from knowing what belongs to them."""


class ServiceHost(Protocol):
    """The worker that runs a service, as the service sees it."""

    def runs_ready(self) -> None:
        """The service moved runs to their queues: there may be something to claim."""

    def task_ended(self, task: "asyncio.Task[None]", /) -> None:
        """The task of the service is over, canceled or by an error."""
