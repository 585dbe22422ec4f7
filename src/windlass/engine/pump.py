"""The pump: a worker's traffic with the store, finishes out and claims in, in one round trip.

Ends of attempts gather in a buffer. Whenever there is something to send or to ask for, and no
round trip is on its way, one starts: at once, so an idle worker waits for nothing. While one is
on its way the next batch gathers behind it, so a busy worker sends large ones; a second may
overlap it once there is enough to be worth it. Nothing waits for a timer.

What happens when it dies here:

- before a round trip is sent: the ends are lost with the process, the leases run out, the runs
  are tried again (effects happen at least once);
- after the store has committed, before the reply: successes are recorded; claimed runs are
  leased to a worker that does not know it, and its next renewal gives them back; if the process
  is dead, the reaper does;
- the worker is declared dead before the reply: the runs were leased to a name that it has given up,
  and are another's or will be. The reply is dropped, whatever it brings;
- the trip is canceled with every task of its loop: ends are kept for the worker's last words;
- the connection breaks: ends are kept and sent again. The second time the store may answer
  ``lost`` for what it had recorded the first time; the run is forgotten either way;
- a trip is too large for the way to the store: it is cut off, which looks the same from here, or
  takes long, while everything else waits for it. After any of these the next carries less (see
  :mod:`windlass.engine.allowance`);
- the store refuses a batch: each end is sent by itself. One that the store cannot hold becomes a
  failure that says so; what fails for any other reason is the store's trouble, of whatever kind,
  and is kept (see :mod:`windlass.engine.resending`): a success is never told otherwise because the
  store had a bad moment;
- somebody has a lease locked: its end comes back as ``busy``, neither recorded nor lost, and is
  sent again; the others of its trip are recorded, and the claim goes on. If another row or a whole
  table is locked, the store gives up on the trip soon (``StoreBusy``): then ends and claims go
  apart, ends that fail together go one by one, and one that fails alone is kept as above;
- the schema has outgrown this program: the trip ends by that error, and the worker with it.
"""

import asyncio
import contextvars
import os
from collections import deque
from collections.abc import Sequence

from windlass.domain.outcome import Outcome, describe_error
from windlass.domain.run import CycleReply, Finish, Held, RunRef, Want
from windlass.domain.states import Failure
from windlass.engine.allowance import Allowance
from windlass.engine.environment import Environment
from windlass.engine.holdings import Holdings
from windlass.engine.hosts import PumpHost
from windlass.engine.lanes import Lane
from windlass.engine.outbox import Outbox
from windlass.engine.resending import FailedEnds, LockedEnds
from windlass.engine.signals import Signal
from windlass.engine.trip import Trip, exchange, goes_back
from windlass.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    UsageError,
    WindlassError,
)
from windlass.logs import steady_log

log = steady_log(__name__)

_MOST_TRIPS = 2
_WORTH_OVERLAPPING = 200
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_ENOUGH_TROUBLE = 3  # ends refused one after another, and it is not they that are at fault
_LONG_BUSY = 0.5  # seconds between two tries of an end whose lease is locked, to tell of it
_LONG_TRIP = 5.0  # seconds, after which the next carries less: everything else waits meanwhile
# What is wrong with an end itself, at any moment.
_REFUSED = (StoreRefused, UsageError)


class Pump:
    """Sends ends, brings runs."""

    def __init__(
        self,
        environment: Environment,
        holdings: Holdings,
        lanes: Sequence[Lane],
        host: PumpHost,
    ) -> None:
        self._store = environment.store
        self._sources = environment.sources
        self._holdings = holdings
        self._lanes = deque(lanes)
        self._host = host
        self._ends = Outbox(self._store.batch)
        self._failed = FailedEnds()
        self._locked = LockedEnds()
        self._runs = Allowance(self._store.batch, 1)
        self._kinds = Allowance(2, 1)
        self._ends_next = True  # where ends and claims go by turns
        self._delivered: deque[tuple[RunRef, ...]] = deque()
        self.brought = 0  # runs that a transport brought, and whose claim was not answered yet
        self._trips: set[asyncio.Task[None]] = set()
        self._apart: set[asyncio.Task[None]] = set()  # those of ends that go alone
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._scheduled = False
        self._alarm: asyncio.TimerHandle | None = None
        self._context = contextvars.copy_context()
        self._resume_at = 0.0
        self._pause = _FIRST_PAUSE
        self._process = os.getpid()
        self.worker = ""
        self.claiming = True
        self.sent: Signal[Trip] = Signal()
        self.rested: Signal[float | None] = Signal()
        """There is nothing to send now; when it asks again by itself, if it does."""

    def end(self, finish: Finish) -> None:
        """Send the end of an attempt."""
        self._ends.append(finish)
        self._quiet.clear()
        self.nudge()

    def hunger(self) -> None:
        """There may be something to claim."""
        for lane in self._lanes:
            lane.hear()
        self.nudge()

    def deliver(self, runs: tuple[RunRef, ...]) -> None:
        """Claim the runs that a transport brought."""
        self._delivered.append(runs)
        self.brought += len(runs)
        self.nudge()

    @property
    def idle(self) -> bool:
        """Whether nothing is to be sent and nothing is on its way."""
        kept = self._ends or self._failed or self._locked
        return not kept and not self._trips and not self._apart

    @property
    def under_way(self) -> int:
        """How many round trips are under way, those of single ends aside."""
        return len(self._trips)

    @property
    def may_claim_at_once(self) -> int:
        """How many runs one trip may bring, as the way to the store is."""
        return self._runs.now

    def nudge(self) -> None:
        """Look, after what the loop has to do right now, whether to send something."""
        # Deferred, so that a whole batch of quick handlers ends before it is looked at.
        if not self._scheduled:
            self._scheduled = True
            # A trip serves many: it runs in nobody's context.
            asyncio.get_running_loop().call_soon(self._start_trips, context=self._context)

    def start_over(self) -> None:
        """The worker is dead to the store: what was claimed under its name is not ours."""
        self.worker = ""
        self._holdings.give_up_claims()

    async def flushed(self) -> None:
        """Wait until every end has been answered."""
        self.nudge()
        await self._quiet.wait()

    def _start_trips(self) -> None:
        self._scheduled = False
        if os.getpid() != self._process:
            return  # a fork that a handler made and let go on: what is held is not its own
        loop = asyncio.get_running_loop()
        if loop.time() < self._resume_at:
            return
        # Beside the others: nobody waits for it, whatever it waits for.
        if not self._apart and (end := self._failed.next(loop.time())) is not None:
            self._send(Trip([end], alone=True), self._apart)
        while len(self._trips) < _MOST_TRIPS:
            trip = self._next_trip(loop.time())
            if trip is None:
                self._set_alarm(loop)
                return
            self._send(trip, self._trips)

    def _send(self, trip: Trip, beside: set[asyncio.Task[None]]) -> None:
        trip.worker = self.worker
        self._quiet.clear()
        self.sent.emit(trip)
        task = asyncio.get_running_loop().create_task(self._go(trip), name="windlass-trip")
        beside.add(task)
        task.add_done_callback(self._came_back)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look again when the walk of a lane has rested."""
        if self._alarm is not None:
            self._alarm.cancel()
        now = loop.time()
        times = [at for lane in self._lanes if (at := lane.asks_again(now)) is not None]
        self._alarm = loop.call_at(min(times), self.nudge) if times else None
        self.rested.emit(min(times, default=None))

    def _next_trip(self, now: float) -> Trip | None:
        self._ends.add(self._locked.due(now))
        brought = self._delivered and self._may_take()
        lane = None if brought else self._hungry_lane(now)
        room = min(lane.room(now), self._runs.now) if lane is not None else 0
        apart = self._kinds.now == 1
        if self._trips and (apart or max(len(self._ends), room) < _WORTH_OVERLAPPING):
            return None  # one is on its way: let the next batch gather
        asks = bool(brought) or lane is not None
        if not self._ends and not asks:
            return None
        sends = bool(self._ends)
        if apart and asks and sends:
            sends, self._ends_next = self._ends_next, not self._ends_next
            asks = not sends
        finishes, weight = self._ends.pack() if sends else ([], 0)
        trip = Trip(finishes, weight=weight)
        if asks:
            self._ask(trip, lane, room, now)
        return trip

    def _ask(self, trip: Trip, lane: Lane | None, room: int, now: float) -> None:
        """Let it bring runs: what a lane wants, or, without one, what a transport brought."""
        if lane is None:
            trip.want = self._want_delivered()
        else:
            trip.lane, trip.look = lane, lane.look(room, now)
            trip.want = trip.look.want
            self._lanes.remove(lane)
            self._lanes.append(lane)
        trip.claim_no = self._holdings.begin_claim()

    def _hungry_lane(self, now: float) -> Lane | None:
        """The lane that wants runs, has room, and was not asked for the longest time."""
        if not self._may_take():
            return None
        return next((lane for lane in self._lanes if lane.asks(now)), None)

    def _want_delivered(self) -> Want:
        """A run that a transport brought may be any lane's."""
        runs, most = self._delivered.popleft(), self._runs.now
        if len(runs) > most:
            self._delivered.appendleft(runs[most:])
            runs = runs[:most]
        jobs = tuple(job for lane in self._lanes for job in lane.jobs)
        return Want(limit=len(runs), jobs=jobs, queues=self._lanes[0].queues, ids=runs)

    def _may_take(self) -> bool:
        return self.claiming and self._host.may_claim and not self._ends.is_full

    async def _go(self, trip: Trip) -> None:
        began = asyncio.get_running_loop().time()
        try:
            reply = await exchange(self._store, self._host, trip)
        except StoreBusy as error:
            await self._sort_out(trip, error)
        except (StoreUnavailable, StoreFull) as error:
            self._postpone(trip, error)
        except SchemaMismatch:
            raise  # nothing can be recorded any more: the worker ends by it
        except WindlassError as error:
            log.error("store refused a batch", extra={"error": str(error)})
            await self._one_by_one(trip.finishes)
            if not trip.alone:
                self._rest()  # it may refuse every claim: do not ask without end
        except asyncio.CancelledError:
            self._ends.put_back(trip.finishes)
            raise
        else:
            self._pause = _FIRST_PAUSE
            if asyncio.get_running_loop().time() - began < _LONG_TRIP:
                self._allow(trip, len(reply.claimed))
            else:
                self._allow_less(trip)
            if trip.alone:
                self._failed.recorded()
            finishes = self._read(trip, reply)
            kept = {(held.tenant, held.id) for held in reply.busy}
            ends = [f for f in finishes if f.outcome is not Outcome.SUCCEEDED]
            back = [RunRef(f.tenant, f.id) for f in ends if goes_back(f)]
            if kept:
                back = [run for run in back if (run.tenant, run.id) not in kept]
            if back:
                await self._host.requeued(back)
            if any(f.failure is not None for f in ends):
                self._host.runs_ready()  # the run of a failure handler may be
        finally:
            if trip.lane is not None and trip.look is not None:
                trip.lane.settle(trip.look)
            if trip.want is not None:
                if trip.lane is None:
                    self.brought -= trip.want.limit
                self._holdings.settle(trip.claim_no)

    def _read(self, trip: Trip, reply: CycleReply) -> Sequence[Finish]:
        """Pass on what the store has answered; returns the ends that count."""
        finishes, lost = self._host.joined.settle(trip.finishes, reply)
        for held in lost:
            log.warning(
                "lease lost, nothing recorded", extra={"run": held.id, "tenant": held.tenant}
            )
        self._settle(trip.finishes, reply)
        if trip.worker != self.worker or self._holdings.is_renounced(trip.claim_no):
            if reply.claimed:
                extra = {"worker": trip.worker, "runs": len(reply.claimed)}
                log.warning("claim answered too late, dropped", extra=extra)
                self._host.renew_soon()  # the next renewal gives them back
        elif reply.refused or reply.locked:
            if reply.refused:
                self._host.renew_soon()
            self._rest()
        else:
            if trip.lane is not None and trip.look is not None:
                trip.lane.answered(trip.look, reply, asyncio.get_running_loop().time())
            if reply.claimed:
                self._host.claimed(reply.claimed)
        return finishes

    def _settle(self, finishes: Sequence[Finish], reply: CycleReply) -> None:
        """Forget the leases that are over; ends whose lease is locked are sent again."""
        if not reply.busy and not self._locked.unsettled:  # nearly always
            if finishes:
                self._host.recorded(finishes)
            return
        busy, pauses, loop = frozenset(reply.busy), set(), asyncio.get_running_loop()
        ends = []
        for finish in finishes:
            held = Held(finish.tenant, finish.id, finish.token)
            if held in busy:
                pause = self._locked.add(finish, loop.time())
                if pause not in pauses:
                    pauses.add(pause)
                    loop.call_later(pause, self.nudge)
                if pause >= _LONG_BUSY:
                    log.warning("end kept, the lease is locked", extra={"run": finish.id})
            else:
                self._locked.settled(held)
                ends.append(finish)
        if ends:
            self._host.recorded(ends)

    def _allow(self, trip: Trip, claimed: int) -> None:
        """It arrived: more may."""
        self._kinds.arrived(trip.kinds)
        self._ends.allowed.arrived(trip.weight)
        self._runs.arrived(claimed)

    def _allow_less(self, trip: Trip) -> None:
        """It was lost, or took so long that others waited for it."""
        self._kinds.lost(trip.kinds)
        if trip.weight:
            self._ends.allowed.lost(trip.weight)
        if trip.want is not None:
            self._runs.lost(trip.want.limit)

    def _postpone(self, trip: Trip, error: WindlassError) -> None:
        """The store cannot be reached: keep the ends, and try again with less after a pause."""
        if len(trip.finishes) == 1:
            self._ends.add(trip.finishes)  # it may be too large by itself: let the others pass
        else:
            self._ends.put_back(trip.finishes)
        # By turns, whichever of them is lost: neither keeps the other from its turn.
        self._ends_next = trip.want is not None
        self._allow_less(trip)
        self._rest()
        log.warning("store unavailable", extra={"error": str(error)})

    async def _sort_out(self, trip: Trip, error: WindlassError) -> None:
        """Somebody has locked what it needs, other than a lease: find out what, and go round it."""
        if trip.kinds == 2:  # the claim, or one of the ends: they go apart for a while
            self._ends.put_back(trip.finishes)
            self._ends_next = True
            self._kinds.lost(trip.kinds)
        elif len(trip.finishes) == 1:
            self._keep(trip.finishes[0], error)
            return
        else:
            await self._one_by_one(trip.finishes)
        log.warning("store busy", extra={"error": str(error)})
        self._rest()

    def _rest(self) -> None:
        """Send nothing for a while, longer each time until something succeeds."""
        pause = self._pause * (0.5 + self._sources.jitter() / 2)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        loop = asyncio.get_running_loop()
        self._resume_at = loop.time() + pause
        loop.call_later(pause, self.nudge)

    async def _one_by_one(self, finishes: Sequence[Finish]) -> None:
        """One end that the store refuses must not take its neighbours with it."""
        left, trouble = deque(finishes), 0
        try:
            while left and trouble < _ENOUGH_TROUBLE:
                trouble = 0 if await self._try_alone(left[0]) else trouble + 1
                left.popleft()
        finally:
            self._ends.put_back(left)

    async def _try_alone(self, finish: Finish) -> bool:
        """Whether it is settled; if not, it is kept."""
        try:
            await self._send_alone(finish)
        except _REFUSED as error:
            self._host.recorded([finish])
            log.error("end not recorded", extra={"run": finish.id, "error": str(error)})
        except SchemaMismatch:
            raise
        except WindlassError as error:
            self._keep(finish, error)
            return False
        return True

    def _keep(self, finish: Finish, error: WindlassError) -> None:
        """Try an end that is not at fault itself again, alone."""
        log.warning("end kept", extra={"run": finish.id, "error": str(error)})
        loop = asyncio.get_running_loop()
        loop.call_later(self._failed.add(finish, loop.time()), self.nudge)

    async def _send_alone(self, finish: Finish) -> None:
        operations = self._store.operations
        if await self._host.before_ends([finish]):
            raise StoreBusy("Somebody has the run locked: its progress cannot be written now.")
        try:
            reply = await self._store.arun(operations.cycle(self.worker, 0, [finish], None))
        except _REFUSED as error:
            substitute = Finish(
                tenant=finish.tenant,
                id=finish.id,
                token=finish.token,
                outcome=Outcome.FAILED,
                failure=Failure.FATAL,
                error=describe_error(error),
                counts=True,
            )
            reply = await self._store.arun(operations.cycle(self.worker, 0, [substitute], None))
        self._host.joined.settle([finish], reply)
        self._settle([finish], reply)

    def _came_back(self, task: asyncio.Task[None]) -> None:
        self._trips.discard(task)
        self._apart.discard(task)
        if self.idle:
            self._quiet.set()
        self._host.task_ended(task)
        self.nudge()
