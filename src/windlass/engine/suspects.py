"""Suspects that no child process can run: in groups of their own, halved at each crash.

A run under which a worker has died (`domain.blame`) is run in a child process. Where no fresh
process can find its job (a closure, or a job of a test), it runs in the worker, but apart: the
worker claims nothing more, and the *group* starts when everything else here has ended, or has had
its time to. So a death of the worker during that time is the fault of one of the group.

A group goes through three states: none; *waiting* for the worker to be free of others; *started*.
It is formed of the suspects that one claim brought: of those with the most crashes, half. All
others go back to their queue before the group starts, uncounted, for a lease that this worker held
when it died would be counted.

What holds, however many workers take part:

- A group holds runs with equal `crash_count`, so its members were all in the crash before.
- Who goes on holding nothing but its group when it dies leaves `crash_count` + 1 with exactly
  these. The next worker that claims them takes half of what it gets: after log2 N crashes a run
  that kills its worker is alone, and `max_crashes` gives it up. Those beside it have crashes that
  count only at ten times that (`domain.blame`), and never come to so many.
- A group that comes through clears its members: they have ended. The rest of the same claim may
  then run together as they are, since they are the other half (`cleared`).

When the worker dies here: before the group has started, its members are counted with whatever else
the worker held, as in any crash; afterwards, see above. Whatever a worker knew of groups is gone
with it, and nothing of it is needed: the counts are in the store.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.domain.blame import group_size
from windlass.domain.job import Executor
from windlass.engine.holdings import Holding
from windlass.engine.lanes import Lane


@dataclass(slots=True)
class SuspectGroup:
    """Suspects that have the worker to themselves; empty: there are none."""

    lanes: Mapping[Executor, Lane]
    members: list[Holding] = field(default_factory=list)
    started: bool = False
    _cleared: int = 0
    _left: int = 0

    def __contains__(self, holding: object) -> bool:
        return holding in self.members

    def form(self, suspects: Sequence[Holding]) -> Sequence[Holding]:
        """Make a group of some of these, unless there is one; returns those that must go back."""
        if self.members:
            return suspects
        most = max(holding.claimed.crash_count for holding in suspects)
        alike = [holding for holding in suspects if holding.claimed.crash_count == most]
        size = group_size(len(alike), crashes=most, cleared=self._cleared)
        free = Counter({lane.executor: lane.seats for lane in self.lanes.values()})
        for holding in alike[:size]:
            free[holding.spec.executor] -= 1
            if free[holding.spec.executor] >= 0:  # all of a group must be able to start
                self.members.append(holding)
        self._left, self._cleared = len(alike) - len(self.members), 0
        return [holding for holding in suspects if holding not in self.members]

    def start(self) -> Sequence[Holding]:
        """Let it start now; returns who is to start, nobody if they have already."""
        starting = [] if self.started else list(self.members)
        self.started = bool(self.members)
        return starting

    def leave(self, holding: Holding) -> None:
        """One of them is concluded."""
        if holding in self.members:
            self.members.remove(holding)
            if not self.members:
                self._cleared = self._left if self.started else 0
                self.started = False
