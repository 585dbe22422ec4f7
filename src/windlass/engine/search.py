"""The search of a lane: where a claim looks for runs.

A queue is read in claim order. In the way may be runs that this lane cannot take: of jobs that
this worker does not know or that are another lane's, expired, locked by others. Thousands of them
one after another are a *wall*. No claim reads through one: each looks at a bounded number of rows
(`Want.window`), and the store tells for each queue whether the window ended the look, and where
(`CycleReply.stops`). There are four ways to look:

- A *head* claim looks at the first rows of each queue, 1,000 more than it has seats for. It is the
  first claim, the one after a wake-up of an idle lane, and every quarter of a second under load
  (where each enqueue is a wake-up): so long an urgent run waits at most for seats that are free.
- A *deep* claim looks at as many behind the last key that the lane took. It is for saturation: it
  steps over index entries of runs that are gone already. It may miss what sorts before its mark
  (an urgent run, a late commit), so a head claim follows as soon as it comes back short.
- A *walk* goes through a wall. It begins where the window ended a head claim; each claim of it
  looks at the next 10,000 rows of one queue. Several queues are walked in turns. (An index by job
  would find what is behind a wall at once, and every enqueue and every claim would pay for it.)
- A *tail* claim looks at the end of a queue, where a walk has been before: what is enqueued behind
  a wall comes there. One follows each head claim that meets the wall, by turns with the walk.

A worker that serves all queues does not know them: with each claim that names none the store
searches for those that have something. In that search, too, PostgreSQL steps over the index entries
of runs that are gone, in every queue. So the store tells how long the search took, and deep claims
rest from it 24 times as long: they name the queues that were found last, without those that they
looked at in vain. Head claims always search, so a queue that is new waits a quarter of a second at
most; and not at all where the search is quick, which it is unless something keeps vacuum away.

What a lane knows of a queue with a wall (`Wall`): where its walk goes on (the last key looked at,
or taken where the seats were full; nothing between two walks), and where the tail begins (where the
look began that reached the end). A walk ends with such a look; the next head claim that meets the
wall begins another. A head claim that comes back short has seen all queues: where its window did
not end the look there is no wall any more, and it is forgotten.

What holds:

- Nothing is missed for ever. Whatever becomes ready where a walk has been (an urgent run, a late
  commit, one given back, one whose lock is gone) is met by a head or a tail claim or by the next
  walk; there is a head claim at least with every poll, so there is a next walk. Other jobs to run:
  everything is looked at anew.
- Whatever the lane finds at the heads, a walk has its time: a known run behind a wall of one queue
  does not wait for the end of a backlog in another.
- Walks and tails that bring nothing take a tenth of the time: a lane rests nine times as long as
  the look took, by the loop's clock and with the way to the store and back, so many walkers on
  one store slow each other down and not the store. The more a look brought the shorter the
  rest; there is none after one that filled all seats, unless the heads have something too.
- One such claim of a lane is on its way at a time, beside whatever other claim is.
- Where the queues are shorter than a head claim's window there is no walk, and no call for one. A
  lane without free seats asks nothing, and its walk waits where it is. With a transport that
  brings runs nothing looks at the heads, so there is no walk either.
- Each way of looking counts its own turns over the queues, in every lane: whichever queue is first
  has the best of a claim under load, and none is always first or always last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from windlass.domain.run import CycleReply, Mark, Want

_HEAD_EVERY = 0.25
_PASS_UNKNOWN = 1_000
_STRIDE = 10_000  # rows that one claim of a walk looks at
_REST = 9.0  # after such a claim, times what it took
_LEAST_REST = 0.02
_LONGEST_REST = 10.0
_SEARCH_REST = 24.0  # after a search for queues, times what it took


class Reach(Enum):
    """Where a claim looks."""

    DEEP = auto()
    HEAD = auto()
    WALK = auto()
    TAIL = auto()


_BEHIND = frozenset({Reach.WALK, Reach.TAIL})


@dataclass(frozen=True, slots=True)
class Look:
    """A claim of a lane, on its way."""

    want: Want
    reach: Reach
    sent: float  # by the loop's clock
    hints: int  # how often there had been a hint of work by then


@dataclass(slots=True)
class Wall:
    """How far a lane has come in a queue with a wall."""

    walk: Mark | None = None
    tail: Mark | None = None
    grown: bool = False  # whether the tail is to be looked at
    tailed: bool = False  # whether it was looked at last

    @property
    def next(self) -> Reach | None:
        """Where to look, by turns where there is both: head claims may be frequent."""
        if self.grown and not (self.tailed and self.walk is not None):
            return Reach.TAIL
        return None if self.walk is None else Reach.WALK

    def meet(self, stop: Mark) -> None:
        """A head claim has met it, and looked up to here."""
        if self.walk is None:
            self.walk = stop
        self.grown = self.tail is not None

    def passed(self, look: Look, end: Mark | None) -> None:
        """It was looked at up to here; up to the end of the queue if that is nothing."""
        self.tailed = look.reach is Reach.TAIL
        if self.tailed:
            self.tail, self.grown = end or self.tail, end is not None
        else:
            self.walk = end
            if end is None:
                (self.tail,) = look.want.after.values()


class Search:
    """Decides where the next claim of a lane looks, and learns from its answer."""

    def __init__(self, jobs: tuple[str, ...], queues: tuple[str, ...] | None) -> None:
        self.jobs = jobs
        self.queues = queues
        self.hungry = False  # whether the heads of the queues may have something
        self._hints = 0
        self._turns = dict.fromkeys(Reach, 0)
        self._marks: dict[str, Mark] = {}  # where deep claims begin
        self._next_head = 0.0
        self._found: tuple[str, ...] = ()  # queues with something, where all are served
        self._next_search = 0.0
        self._walls: dict[str, Wall] = {}  # by queue; the one that was looked at last is last
        self._walking = False  # whether a claim behind the heads is on its way
        self._next_walk = 0.0

    def start_over(self, jobs: tuple[str, ...]) -> None:
        """Look for these jobs from now on: what was passed over may be among them."""
        self.jobs = jobs
        self._marks = {}
        self._found = ()
        self._walls = {}

    def hear(self) -> None:
        """There may be something to claim."""
        self.hungry = True
        self._hints += 1

    def may_look(self, now: float) -> bool:
        """Whether a claim may find something."""
        return self.hungry or self._may_walk(now)

    def rests_until(self, now: float) -> float | None:
        """When its walk has rested, if that is what it waits for."""
        waits = not self._walking and now < self._next_walk and self._open_wall() is not None
        return self._next_walk if waits else None

    def look(self, limit: int, now: float) -> Look:
        """Claim so many; :meth:`settle` must follow, and :meth:`answered` if there is an answer."""
        reach = self._reach(now)
        self._turns[reach] += 1
        if reach is Reach.HEAD:
            self._next_head = now + _HEAD_EVERY
        self._walking = self._walking or reach in _BEHIND
        return Look(self._want(limit, reach, now), reach, now, self._hints)

    def answered(self, look: Look, reply: CycleReply, now: float) -> None:
        """Learn from a claim: was that all there is?"""
        full = len(reply.claimed) >= look.want.limit
        if look.reach in _BEHIND:
            self._walked(look, reply, full, now)
            return
        if self.queues is None:
            self._searched(look, reply, now)
        if look.reach is Reach.DEEP:
            self._marks = self._marks | reply.marks  # a new one: claims on their way have the old
            if not full:
                self._next_head = 0.0  # look at the head before believing that it is empty
        else:
            self._marks = reply.marks
            # From now on: the others have a turn however slow it was.
            self._next_head = now + _HEAD_EVERY
            self._met(reply.stops, full)
            # A hint that came while the claim was on its way may have come too late for it.
            self.hungry = full or look.hints != self._hints

    def settle(self, look: Look) -> None:
        """A claim was answered or given up."""
        if look.reach in _BEHIND:
            self._walking = False

    def _open_wall(self) -> str | None:
        return next((queue for queue, wall in self._walls.items() if wall.next), None)

    def _may_walk(self, now: float) -> bool:
        return not self._walking and now >= self._next_walk and self._open_wall() is not None

    def _reach(self, now: float) -> Reach:
        if now >= self._next_head:
            return Reach.HEAD
        if self._may_walk(now):
            return next(wall.next for wall in self._walls.values() if wall.next)
        return Reach.DEEP if self._marks else Reach.HEAD

    def _want(self, limit: int, reach: Reach, now: float) -> Want:
        if reach in _BEHIND:
            return self._want_behind(limit, reach)
        turn = self._turns[reach]
        queues = self.queues
        if queues is None and reach is Reach.DEEP and now < self._next_search:
            queues = self._found or None
        if queues:
            first = turn % len(queues)
            queues = queues[first:] + queues[:first]
        return Want(
            limit=limit,
            jobs=self.jobs,
            queues=queues,
            turn=turn,
            after=self._marks if reach is Reach.DEEP else {},
            window=_PASS_UNKNOWN + limit,
        )

    def _want_behind(self, limit: int, reach: Reach) -> Want:
        queue = self._open_wall()
        assert queue is not None
        wall = self._walls[queue]
        mark = wall.tail if reach is Reach.TAIL else wall.walk
        assert mark is not None
        return Want(
            limit=limit, jobs=self.jobs, queues=(queue,), after={queue: mark}, window=_STRIDE
        )

    def _searched(self, look: Look, reply: CycleReply, now: float) -> None:
        """Learn which queues have something."""
        asked = look.want.queues
        if asked is None:
            asked = reply.queues
            self._found = tuple(sorted(asked))
            self._next_search = now + _SEARCH_REST * reply.searched
        gave = [place for place, queue in enumerate(asked) if queue in reply.marks]
        vain = set(asked[: gave[-1]]) - reply.marks.keys() if gave else set()
        self._found = tuple(queue for queue in self._found if queue not in vain)

    def _met(self, stops: Mapping[str, Mark], full: bool) -> None:
        """A head claim looked up to these stops; unless it was full it has seen all queues."""
        if not full:
            self._walls = {queue: wall for queue, wall in self._walls.items() if queue in stops}
        for queue, stop in stops.items():
            self._walls.setdefault(queue, Wall()).meet(stop)

    def _walked(self, look: Look, reply: CycleReply, full: bool, now: float) -> None:
        (queue,) = look.want.after
        wall = self._walls.pop(queue, None)
        if wall is not None:
            wall.passed(look, (reply.marks if full else reply.stops).get(queue))
            self._walls[queue] = wall
        rest = _REST * (now - look.sent) / (1 + len(reply.claimed))
        rest = min(max(rest, _LEAST_REST), _LONGEST_REST)
        self._next_walk = now if full and not self.hungry else now + rest
