"""The tail: one thread of a process that follows the feed, for all who listen there.

    store ── list_feed ──> Tail ──> Mailbox of each listener ──> for event in app.events()

**One reader for all.** A thread asks the store for what is new and gives it to every listener that
asked for such events. So an idle process costs two short queries a second, however many listen.
Hints of the store wake it (they say that something became ready); otherwise it asks again after a
pause that grows from 20 ms to half a second while nothing comes. It begins with the first listener
and ends with the last.

**Nothing is missed.** The place in the feed is the store's: whatever is committed later has a later
place, and what a transaction still writes is held back (decision 12). A listener's place is that of
the last event that was looked at for it. One that begins in the past is behind: it is read for on
its own, as fast as it takes what it gets, until its page is not full. Then it goes along with the
others; nothing twice, because only later places are given to it.

**A slow listener harms nobody.** Its mailbox is bounded. If it overflows, the listener is cut: it
gets what is there, then :class:`~windlass.errors.ListenerTooSlow`, whose cursor it goes on from.

**Trouble.** While the store cannot be reached the tail tries again, and the listeners wait. Any
other error ends all of them with that error. The thread is a daemon: a program that forgets a
listener ends all the same. A forked child has no such thread, and its first listener starts one.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from windlass.client.event_filter import EventFilter
from windlass.client.mailbox import Mailbox
from windlass.domain.envelope import About, Event, EventFacts, event_of
from windlass.domain.run import FeedEvent
from windlass.errors import ListenerTooSlow, StoreUnavailable
from windlass.logs import steady_log
from windlass.offloop import off_loop
from windlass.store.flow import Flow, run_flow
from windlass.store.interface import Store, Wakeups
from windlass.store.operations import Operations

log = steady_log(__name__)

T = TypeVar("T")

PAGE = 1000
"""Events that are read at once."""
BUFFER = 10_000
"""Events that wait for a slow listener."""

_FIRST_PAUSE = 0.02
_APART = 0.01  # seconds from one look to the next, however many hints come
_LONGEST_PAUSE = 0.5  # two queries a second
_OUTAGE_PAUSE = 5.0
_ENDING = 5.0  # seconds that a listener who leaves waits for the thread


class Listening:
    """One listener, as the tail knows it."""

    def __init__(self, tenant: str, wanted: EventFilter, cursor: str, buffer: int = BUFFER) -> None:
        self.tenant = tenant
        self.wanted = wanted
        self.cursor = cursor  # where it has been looked for
        self.behind = True
        self.box = Mailbox(buffer)
        self._gone = False  # whoever reads on by itself must not be given the same
        self._giving = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether there is room for a page of its own."""
        return self.box.room >= min(PAGE, self.box.limit)

    def wants(self, fed: FeedEvent) -> bool:
        """Whether it may want this event, as far as the feed says."""
        return fed.tenant == self.tenant and self.wanted.may_want(fed)

    def give(self, events: Sequence[Event], upto: str) -> bool:
        """Hand events over; False if there are too many, and it is cut."""
        with self._giving:
            return self._gone or self._give(events, upto)

    def drop(self) -> None:
        """Be given nothing more: the cursor stays where it is."""
        with self._giving:
            self._gone = True

    def _give(self, events: Sequence[Event], upto: str) -> bool:
        after = order_of(self.cursor)
        fresh = [e for e in events if self.is_for(e) and order_of(e.id) > after]
        if not self.behind and len(fresh) > self.box.room:
            self.box.close(ListenerTooSlow(self.cursor, self.box.limit))
            return False
        self.box.put(fresh)
        self.cursor = max(self.cursor, upto, key=order_of)
        return True

    def is_for(self, event: Event) -> bool:
        """Whether it asked for this event."""
        return event.tenant == self.tenant and self.wanted.wants(event)


class Tail:
    """Follows the feed of one store while somebody listens."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._listening: list[Listening] = []
        self._thread: threading.Thread | None = None
        self._poke: Callable[[], object] | None = None
        self._cursor: str | None = None  # of those who are not behind; None: there are none

    def join(self, listening: Listening) -> None:
        """Let a listener have what comes after its cursor."""
        if self._pid != os.getpid():
            self._begin_anew()
        with self._lock:
            self._listening.append(listening)
            if self._thread is None:
                self._cursor = None
                self._thread = threading.Thread(target=self._run, name="windlass-tail", daemon=True)
                self._thread.start()
        self.wake()

    def leave(self, listening: Listening) -> None:
        """Let a listener go; with the last one the thread ends, and is waited for."""
        thread = self._left(listening)
        if thread is not None and thread is not threading.current_thread():
            thread.join(_ENDING)

    async def aleave(self, listening: Listening) -> None:
        """As :meth:`leave`, on the loop."""
        thread = self._left(listening)
        if thread is not None:
            await off_loop(lambda: thread.join(_ENDING), "windlass-tail-end")

    def drop(self, listening: Listening) -> None:
        """Let a listener go, and wait for nothing; it is given nothing more."""
        listening.drop()
        self._left(listening)

    def wake(self) -> None:
        """Look for events now; from any thread."""
        poke = self._poke
        if poke is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                poke()

    def _begin_anew(self) -> None:
        """In a forked child: the thread is the parent's, and may have held the lock."""
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._listening, self._thread, self._poke = [], None, None

    def _left(self, listening: Listening) -> threading.Thread | None:
        if self._pid != os.getpid():
            return None  # it was the parent's
        with self._lock:
            if listening not in self._listening:
                return None
            self._listening.remove(listening)
            thread = None if self._listening else self._thread
        self.wake()
        return thread

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self._follow())

    async def _follow(self) -> None:
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._poke = lambda: loop.call_soon_threadsafe(woken.set)
        try:
            wakeups = await self._store.listen()
            hints = loop.create_task(_hear(wakeups, woken))
            try:
                await self._go_round(woken)
            finally:
                hints.cancel()
                await wakeups.close()
        except Exception as error:  # noqa: BLE001 - each listener raises it where it listens
            self._fail(error)

    async def _go_round(self, woken: asyncio.Event) -> None:
        now = asyncio.get_running_loop().time
        pause = _FIRST_PAUSE
        while self._has_work():
            began = now()
            came = await self._round()
            pause = _FIRST_PAUSE if came else pause * 1.5
            # None: the store is away.
            pause = min(pause, _OUTAGE_PAUSE if came is None else _LONGEST_PAUSE)
            if await _woken(woken, pause):
                pause = _FIRST_PAUSE
                await asyncio.sleep(max(0.0, began + _APART - now()))

    async def _round(self) -> bool | None:
        """Read for everybody; whether there was something, or None if the store is away."""
        try:
            came = await self._read_for_all()
            for listening in self._all(behind=True):
                if listening.ready:
                    came = await self._catch_up(listening) or came
        except StoreUnavailable as error:
            log.debug("feed not read", extra={"error": str(error)})
            return None
        return came

    async def _read_for_all(self) -> bool:
        listening = self._all(behind=False)
        if not listening:
            self._cursor = None
            return False
        page = await self._page(self._cursor)
        if page:
            self._cursor = page[-1].place
            await self._hand_out(page, listening)
        return bool(page)

    async def _catch_up(self, listening: Listening) -> bool:
        page = await self._page(listening.cursor)
        if page:
            await self._hand_out(page, [listening])
        if len(page) < PAGE:
            # It has seen all that there was after the others were last read for.
            listening.behind = False
            self._cursor = self._cursor or listening.cursor
        return bool(page)

    async def _hand_out(self, page: Sequence[FeedEvent], listening: Sequence[Listening]) -> None:
        wanted = [fed for fed in page if any(each.wants(fed) for each in listening)]
        events = await self._off(
            lambda: run_flow(self._store, tell_all(self._store.operations, wanted))
        )
        for each in listening:
            if not each.give(events, page[-1].place):
                log.warning("listener too slow", extra={"cursor": each.cursor})
                self._left(each)

    async def _page(self, after: str | None) -> Sequence[FeedEvent]:
        call = self._store.operations.list_feed(after, PAGE)
        return await self._off(lambda: self._store.run(call))

    async def _off(self, read: Callable[[], T]) -> T:
        # By the blocking face: its connections outlive this loop, and are closed by the app.
        return await off_loop(read, "windlass-tail-read")

    def _all(self, *, behind: bool) -> Sequence[Listening]:
        with self._lock:
            return [each for each in self._listening if each.behind is behind]

    def _has_work(self) -> bool:
        """Whether somebody listens; if not, the thread is over for whoever comes next."""
        with self._lock:
            ours = self._thread is threading.current_thread()
            if ours and not self._listening:
                self._thread = None
            return ours and bool(self._listening)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            left, self._listening, self._thread = self._listening, [], None
        for each in left:
            each.box.close(error)


async def _hear(wakeups: Wakeups, woken: asyncio.Event) -> None:
    while True:
        if await wakeups.wait(3600):
            woken.set()


async def _woken(event: asyncio.Event, pause: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause):
            await event.wait()
    woken = event.is_set()
    event.clear()
    return woken


def tell_all(operations: Operations, fed: Sequence[FeedEvent]) -> Flow[Sequence[Event]]:
    """Put together what is known of all of them: one query for each tenant."""
    facts: dict[tuple[str, str, int], EventFacts] = {}
    for tenant in {event.tenant for event in fed}:
        about = {About(each.subject, each.attempt): None for each in fed if each.tenant == tenant}
        found: Sequence[EventFacts] = yield operations.list_event_facts(tenant, list(about))
        facts |= {(tenant, each.id, each.attempt): each for each in found}
    return [event_of(each, facts.get((each.tenant, each.subject, each.attempt))) for each in fed]


def order_of(place: str) -> tuple[int, ...]:
    """What the places of a store are compared by."""
    return tuple(map(int, place.split(":")))
