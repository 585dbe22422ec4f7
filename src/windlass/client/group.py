"""Group commit for the async face: what many coroutines enqueue at once goes in one transaction.

The first to come is sent at once; those that come while it is on its way gather and go together.
When many have gathered, and the store can write two groups abreast, they go as two: while one
half is written, the coroutines of the other make their next runs. Whoever listens is told once
per group, before its members hear. If a group is refused (one of its keys conflicts, say), each
member is sent alone, so that one caller's mistake is that caller's error only. For the same reason
who may not write now is refused before joining, and groups are sent in nobody's context.

Somebody's open transaction may hold a key. So a group waits for that for a moment only, and is
then sent member by member. One that is held up waits by itself, for as long as a single caller
would, and nobody waits for it.

A store that does not answer may be away. Or the group was too large for the way to it, or one of
its keys is held by somebody's open transaction, and the others are innocent. So a group that gets
no answer is sent member by member too, those without a key first, under the same ids: what was
recorded after all is not made twice. If then one without a key gets no answer, or two with keys one
after the other, the store is away: all members hear of it at once, and with them those who had come
before and waited as long. Were each tried with patience of its own, one outage would last for as
many as had gathered in it, while others come. A store that is full, or of another schema, is told
to all at once. Who came later is tried, so nobody waits for more than a few tries. A caller who
gives up while it waits is not sent; one who is on the way may make its run all the same.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from copy import copy
from typing import NamedTuple

from windlass.client.announce import publish_created
from windlass.domain.run import Enqueued, NewRun
from windlass.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    WindlassError,
)
from windlass.store.interface import Store
from windlass.transport.interface import Transport

_MOST = 500
_MOST_BYTES = 4 * 2**20  # of input: a call that takes long is one that many wait for
_EVERYBODYS = (StoreUnavailable, StoreFull, SchemaMismatch)
_WORTH_OVERLAPPING = 20
_MOST_APART = 2  # calls that wait for somebody's key at once: each has a connection
_AWAY = 2  # members with keys that got no answer, one after the other


class _Member(NamedTuple):
    number: int
    runs: Sequence[NewRun]
    answer: asyncio.Future[Sequence[Enqueued]]
    alone: bool = False
    apart: bool = False  # it waits for somebody who has its key, and nobody waits for it

    @property
    def keyed(self) -> bool:
        """Whether it may have to wait for somebody who has its key."""
        return any(run.key is not None for run in self.runs)


class GroupCommit:
    """Enqueues for all coroutines, each with those of its own loop."""

    def __init__(self, store: Store, transport: Transport) -> None:
        self._store = store
        self._transport = transport
        self._groups: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Group]
        self._groups = weakref.WeakKeyDictionary()

    def enqueue(self, runs: Sequence[NewRun]) -> asyncio.Future[Sequence[Enqueued]]:
        """Enqueue, together with whoever else does."""
        loop = asyncio.get_running_loop()
        group = self._groups.get(loop)
        if group is None:
            group = self._groups[loop] = _Group(self._store, self._transport)
        return group.enqueue(loop, runs)


class _Group:
    """The coroutines of one loop."""

    def __init__(self, store: Store, transport: Transport) -> None:
        self._store = store
        self._transport = transport
        self._waiting: deque[_Member] = deque()
        self._came = 0
        self._unanswered = 0  # members with keys, since something was answered
        self._senders: set[asyncio.Task[None]] = set()
        self._apart: set[asyncio.Task[None]] = set()
        self._patient = asyncio.Semaphore(_MOST_APART)

    def enqueue(
        self, loop: asyncio.AbstractEventLoop, runs: Sequence[NewRun]
    ) -> asyncio.Future[Sequence[Enqueued]]:
        self._store.admit("enqueue")
        answer: asyncio.Future[Sequence[Enqueued]] = loop.create_future()
        self._came += 1
        self._waiting.append(_Member(self._came, runs, answer))
        if not self._senders or self._is_worth_overlapping():
            self._start(loop)
        return answer

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        # Of its own: what the first to come has around it is not the others'.
        sender = loop.create_task(self._send(), name="windlass-enqueue", context=Context())
        self._senders.add(sender)

    def _is_worth_overlapping(self) -> bool:
        free = len(self._senders) < self._store.writes_abreast
        return free and len(self._waiting) >= 2 * _WORTH_OVERLAPPING

    async def _send(self) -> None:
        try:
            while self._waiting:
                if group := self._next_group():
                    await self._send_group(group)
        finally:
            # At once, not when the task is over: who comes in between would wait for nobody.
            self._senders -= {asyncio.current_task()}
            if not self._senders and any(not member.answer.done() for member in self._waiting):
                # An error ended this one, and it was not theirs.
                self._start(asyncio.get_running_loop())

    def _next_group(self) -> list[_Member]:
        """Those who go together now; nobody where all of them have given up."""
        waiting, group = self._waiting, list[_Member]()
        members = len(waiting)
        if members >= 2 * _WORTH_OVERLAPPING and self._store.writes_abreast > 1:
            members -= members // 2  # the others go with the next, which is sent beside this
        runs = size = 0
        for _ in range(members):
            member = waiting[0]
            if not member.answer.done():
                runs += len(member.runs)
                for run in member.runs:
                    size += len(run.input)
                if group and (group[0].alone or runs > _MOST or size > _MOST_BYTES):
                    break
                group.append(member)
            waiting.popleft()
        return group

    async def _send_group(self, group: list[_Member]) -> None:
        came = self._came
        runs = [run for member in group for run in member.runs]
        try:
            answers = await self._store.arun(
                self._store.operations.enqueue(runs, patient=group[0].apart)
            )
            if publish_created(self._transport, runs, answers):
                await self._store.anotify()
        except StoreBusy as error:
            if len(group) > 1:
                self._split(sorted(group, key=lambda member: member.keyed))
            elif group[0].apart:
                _refuse(group[0], error)
            else:
                self._send_apart(group[0]._replace(apart=True))
            return
        except _EVERYBODYS as error:
            self._unreached(group, came, error)
            return
        except WindlassError as error:
            if len(group) == 1:
                _refuse(group[0], error)
            else:
                self._split(group)
            return
        except BaseException as error:
            # Canceled, or a bug: nobody must be left waiting.
            for member in group:
                _refuse(member, error)
            raise
        self._unanswered = 0
        position = 0
        for member in group:
            end = position + len(member.runs)
            if not member.answer.done():
                member.answer.set_result(answers[position:end])
            position = end

    def _send_apart(self, member: _Member) -> None:
        """Let one that is held up wait by itself."""

        async def wait() -> None:
            async with self._patient:
                if not member.answer.done():
                    await self._send_group([member])

        task = asyncio.get_running_loop().create_task(
            wait(), name="windlass-enqueue-apart", context=Context()
        )
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)

    def _split(self, group: list[_Member]) -> None:
        """Send each alone, before all others."""
        self._waiting.extendleft(member._replace(alone=True) for member in reversed(group))

    def _unreached(self, group: list[_Member], came: int, error: WindlassError) -> None:
        """Find out whether it is one member's matter, if it can be."""
        if isinstance(error, StoreUnavailable):
            if len(group) > 1:
                self._split(sorted(group, key=lambda member: member.keyed))
                return
            if group[0].keyed:
                self._unanswered += 1
                if self._unanswered < _AWAY:
                    _refuse(group[0], error)
                    return
        self._turn_away(group, came, error)

    def _turn_away(self, group: list[_Member], came: int, error: WindlassError) -> None:
        """Refuse a group and who waits since before it was sent, each with an error of its own."""
        while self._waiting and self._waiting[0].number <= came:
            group.append(self._waiting.popleft())
        for member in group:
            own = copy(error)
            own.__cause__ = error.__cause__
            _refuse(member, own)


def _refuse(member: _Member, error: BaseException) -> None:
    if not member.answer.done():
        member.answer.set_exception(error)
