"""Group commit for the async face: what many coroutines enqueue at once goes in one transaction.

The first to come is sent at once; those that come while it is on its way gather and go together.
If a group is refused (one of its keys conflicts, say), each member is sent alone, so that one
caller's mistake is that caller's error only.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from windlass.domain.run import Enqueued, NewRun
from windlass.errors import WindlassError
from windlass.store.interface import Store

_MOST = 500


class _Member(NamedTuple):
    runs: Sequence[NewRun]
    answer: asyncio.Future[Sequence[Enqueued]]


class GroupCommit:
    """Enqueues for all coroutines, each with those of its own loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Group]
        self._groups = weakref.WeakKeyDictionary()

    async def enqueue(self, runs: Sequence[NewRun]) -> Sequence[Enqueued]:
        """Enqueue, together with whoever else does."""
        loop = asyncio.get_running_loop()
        group = self._groups.get(loop)
        if group is None:
            group = self._groups[loop] = _Group(self._store)
        return await group.enqueue(runs)


class _Group:
    """The coroutines of one loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[_Member] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def enqueue(self, runs: Sequence[NewRun]) -> Sequence[Enqueued]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[Enqueued]] = loop.create_future()
        self._waiting.append(_Member(runs, answer))
        if self._sender is None:
            self._sender = loop.create_task(self._send(), name="windlass-enqueue")
        return await answer

    async def _send(self) -> None:
        try:
            while self._waiting:
                await self._send_group(self._next_group())
        finally:
            self._sender = None

    def _next_group(self) -> list[_Member]:
        group = [self._waiting.popleft()]
        size = len(group[0].runs)
        while self._waiting and size + len(self._waiting[0].runs) <= _MOST:
            member = self._waiting.popleft()
            size += len(member.runs)
            group.append(member)
        return group

    async def _send_group(self, group: list[_Member]) -> None:
        runs = [run for member in group for run in member.runs]
        try:
            answers = await self._store.arun(self._store.operations.enqueue(runs))
        except WindlassError as error:
            if len(group) == 1:
                _refuse(group[0], error)
                return
            for member in group:
                await self._send_group([member])
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


def _refuse(member: _Member, error: BaseException) -> None:
    if not member.answer.done():
        member.answer.set_exception(error)
