"""Group commit for the async face: what many coroutines enqueue at once goes in one transaction.

The first to come is sent at once; those that come while it is on its way gather and go together.
When many have gathered, and the store can write two groups abreast, they go as two: while one
half is written, the coroutines of the other make their next runs. Whoever listens is told once
per group, before its members hear. If a group is refused (one of its keys conflicts, say), each
member is sent alone, so that one caller's mistake is that caller's error only. For the same reason
who may not write now is refused before joining, and groups are sent in nobody's context.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import NamedTuple

from windlass.domain.run import Enqueued, NewRun
from windlass.errors import WindlassError
from windlass.store.interface import Store

_MOST = 500
_WORTH_OVERLAPPING = 20

Announce = Callable[[Sequence[NewRun], Sequence[Enqueued]], Awaitable[None]]


class _Member(NamedTuple):
    runs: Sequence[NewRun]
    answer: asyncio.Future[Sequence[Enqueued]]


class GroupCommit:
    """Enqueues for all coroutines, each with those of its own loop."""

    def __init__(self, store: Store, announce: Announce) -> None:
        """`announce` tells workers of runs that were made; it must not fail."""
        self._store = store
        self._announce = announce
        self._groups: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Group]
        self._groups = weakref.WeakKeyDictionary()

    def enqueue(self, runs: Sequence[NewRun]) -> asyncio.Future[Sequence[Enqueued]]:
        """Enqueue, together with whoever else does."""
        loop = asyncio.get_running_loop()
        group = self._groups.get(loop)
        if group is None:
            group = self._groups[loop] = _Group(self._store, self._announce)
        return group.enqueue(loop, runs)


class _Group:
    """The coroutines of one loop."""

    def __init__(self, store: Store, announce: Announce) -> None:
        self._store = store
        self._announce = announce
        self._waiting: deque[_Member] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    def enqueue(
        self, loop: asyncio.AbstractEventLoop, runs: Sequence[NewRun]
    ) -> asyncio.Future[Sequence[Enqueued]]:
        self._store.admit("enqueue")
        answer: asyncio.Future[Sequence[Enqueued]] = loop.create_future()
        self._waiting.append(_Member(runs, answer))
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
                await self._send_group(self._next_group())
        finally:
            # At once, not when the task is over: who comes in between would wait for nobody.
            self._senders -= {asyncio.current_task()}
            if not self._senders and any(not member.answer.done() for member in self._waiting):
                # An error ended this one, and it was not theirs.
                self._start(asyncio.get_running_loop())

    def _next_group(self) -> list[_Member]:
        members = len(self._waiting)
        if members >= 2 * _WORTH_OVERLAPPING and self._store.writes_abreast > 1:
            members -= members // 2  # the others go with the next, which is sent beside this
        group = [self._waiting.popleft()]
        size = len(group[0].runs)
        while len(group) < members and size + len(self._waiting[0].runs) <= _MOST:
            member = self._waiting.popleft()
            size += len(member.runs)
            group.append(member)
        return group

    async def _send_group(self, group: list[_Member]) -> None:
        runs = [run for member in group for run in member.runs]
        try:
            answers = await self._store.arun(self._store.operations.enqueue(runs))
            await self._announce(runs, answers)
        except WindlassError as error:
            if len(group) == 1:
                _refuse(group[0], error)
                return
            await self._send_each(group)
            return
        except BaseException as error:
            # Canceled, or a bug: nobody must be left waiting.
            for member in group:
                _refuse(member, error)
            raise
        position = 0
        for member in group:
            end = position + len(member.runs)
            if not member.answer.done():
                member.answer.set_result(answers[position:end])
            position = end

    async def _send_each(self, group: list[_Member]) -> None:
        left = deque(group)
        try:
            while left:
                await self._send_group([left.popleft()])
        finally:
            self._waiting.extendleft(reversed(left))  # what ended this is one member's, not theirs


def _refuse(member: _Member, error: BaseException) -> None:
    if not member.answer.done():
        member.answer.set_exception(error)
