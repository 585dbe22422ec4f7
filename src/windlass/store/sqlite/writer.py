"""The writer thread: many small writes of the loop become one commit.

A commit costs a flush of the disk, a row costs microseconds. So the thread takes what is
queued, runs it in one transaction, commits once and then answers all. Where there is more than
one call in a group, each has a savepoint: one that fails is undone alone and the others stand.
If the commit fails, or SQLite itself gives up the transaction, nothing was written and all of
the group are told so. A group ends after a few milliseconds or a few dozen calls, so that
nobody waits long for the first. Calls that say so (enqueues) are even done as one, table by
table, as long as none of them fails.

If few calls wait, one that needs only one statement runs without a transaction: between two
statements this thread needs Python's lock, and a handler that holds it for long (in a long call of
C) would keep all other processes waiting for the file's.

Loops of several threads share the writer. One lock is over what they do to it, so that there is
one thread at most and nothing is queued behind the word that ends it: that would never be answered.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from windlass.errors import StoreError, StoreRefused, StoreUnavailable
from windlass.offloop import off_loop
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.database_errors import FATAL
from windlass.store.sqlite.forks import gate
from windlass.store.sqlite.operations import Bound

T = TypeVar("T")

GROUP_CALLS = 64
GROUP_SECONDS = 0.005
MERGED_ROWS = 250
_FEW_BEHIND = 2


class _Item(NamedTuple):
    call: Bound[Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


class _Answer(NamedTuple):
    item: _Item
    result: Any
    error: BaseException | None


class Writer:
    """A thread with a connection of its own, started by the first call."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._lock = threading.Lock()  # over all that follows, and for who puts into the queue
        self._thread: threading.Thread | None = None
        self._closed = False

    async def submit(self, call: Bound[T]) -> T:
        """Run a write with whatever else is queued; return when it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The store is closed.")
            if self._thread is None:
                self._thread = self._started()
            self._queue.put(_Item(call, future, loop))
        return await future

    async def close(self) -> None:
        """Finish what is queued, end the thread and close its connection."""
        with self._lock:
            self._closed = True
            thread = self._thread
            if thread is not None:
                self._queue.put(None)
        if thread is not None:
            await off_loop(thread.join, "windlass-sqlite-close")
        self._connection.close()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._serve, name="windlass-sqlite-writer", daemon=True)
        thread.start()
        return thread

    def _serve(self) -> None:
        waiting: deque[_Item] = deque()
        group: list[_Item] = []
        try:
            while self._gather(waiting):
                group = list(waiting)
                with gate:
                    answers = self._run_group(waiting)
                _settle(answers)
                group.clear()
        finally:
            self._end([*group, *waiting])

    def _gather(self, waiting: deque[_Item]) -> bool:
        """Wait for a call and take those behind it; false: there are none, nor will there be."""
        try:
            while len(waiting) < GROUP_CALLS:
                item = self._queue.get_nowait() if waiting else self._queue.get()
                if item is None:
                    self._queue.put(None)  # for the next look: those before it are done first
                    break
                waiting.append(item)
        except Empty:
            pass
        return bool(waiting)

    def _end(self, left: list[_Item]) -> None:
        """Leave nobody waiting, if it was an error that ended the thread; the next call starts one.

        Who was answered already does not hear of it; an open transaction ends too.
        """
        self._connection.close()
        with self._lock:
            self._thread = None
            while not self._queue.empty():
                item = self._queue.get_nowait()
                if item is not None:
                    left.append(item)
        error = "The thread that writes ended by an error: try again."
        _settle([_Answer(item, None, StoreUnavailable(error)) for item in left])

    def _run_group(self, waiting: deque[_Item]) -> Sequence[_Answer]:
        """Run a group from the head of what waits, commit it, return the answers."""
        answers: list[_Answer] = []
        try:
            done = self._run_at_once(waiting)
            if done or not waiting:
                return done
            self._connection.begin()
            self._run_calls(waiting, answers)
            self._connection.commit()
        except Exception as error:  # noqa: BLE001 - the callers get it; the thread lives on
            told = self._connection.undo(error)
            if not answers:
                # The file could not even be opened or locked: nobody here will fare better.
                answers = [_Answer(item, None, told) for item in waiting]
                waiting.clear()
            return [_Answer(answer.item, None, answer.error or told) for answer in answers]
        return answers

    def _run_at_once(self, waiting: deque[_Item]) -> Sequence[_Answer]:
        """Run the first call, or calls that can be done as one, by one statement, if it can be.

        Those behind it wait for the next group. That costs a flush more for each, but no lock is
        held while this thread waits for others of this process. If many wait, flushes count more.
        """
        items = _alike(waiting)
        results: Sequence[Any] | None = None
        try:
            if items and len(waiting) <= _FEW_BEHIND:
                results = self._at_once(items)
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreRefused):
                raise  # no call's own fault, and it may have happened after the commit
            self._connection.undo(error)  # one of several may be at fault: see which
        finally:
            waiting.extendleft(reversed(items))
        if results is None:
            return []
        return [_Answer(waiting.popleft(), result, None) for result in results]

    def _at_once(self, items: Sequence[_Item]) -> Sequence[Any] | None:
        first = items[0].call
        if len(items) == 1:
            one = first.at_once
            return one and self._connection.at_once(lambda tx: _listed(one(tx)))
        merges = [item.call.merge for item in items if item.call.merge is not None]
        arguments = [merge.argument for merge in merges]
        return self._connection.at_once(lambda tx: merges[0].at_once(tx, arguments))

    def _run_calls(self, waiting: deque[_Item], answers: list[_Answer]) -> None:
        alone = len(waiting) == 1
        deadline = time.monotonic() + GROUP_SECONDS
        while waiting and (not answers or time.monotonic() < deadline):
            items = _alike(waiting)
            if len(items) > 1 and self._run_as_one(items, answers):
                continue
            try:
                while items:
                    self._run_one(items.popleft(), answers, alone=alone)
            finally:
                waiting.extendleft(reversed(items))  # not begun: for the next group

    def _run_one(self, item: _Item, answers: list[_Answer], *, alone: bool) -> None:
        tx = self._connection.transaction()
        try:
            if alone:
                result = item.call.body(tx)
            else:
                with tx.savepoint():
                    result = item.call.body(tx)
        except Exception as error:
            answers.append(_Answer(item, None, self._connection.explain(error)))
            if alone or self._is_over(error):
                raise
        else:
            answers.append(_Answer(item, result, None))

    def _run_as_one(self, items: Sequence[_Item], answers: list[_Answer]) -> bool:
        """Run calls of one sort as one; false: it failed, and nothing was done."""
        merges = [item.call.merge for item in items if item.call.merge is not None]
        tx = self._connection.transaction()
        try:
            with tx.savepoint():
                results = merges[0].together(tx, [merge.argument for merge in merges])
        except Exception as error:
            if self._is_over(error):
                answers += [_Answer(item, None, None) for item in items]
                raise
            return False
        answers += [_Answer(*pair, None) for pair in zip(items, results, strict=True)]
        return True

    def _is_over(self, error: Exception) -> bool:
        """Whether the whole group is lost: a failing disk, or a transaction that is gone."""
        return isinstance(error, FATAL) or not self._connection.in_transaction


def _listed(answer: Callable[[], T] | None) -> Callable[[], Sequence[T]] | None:
    return None if answer is None else lambda: [answer()]


def _alike(waiting: deque[_Item]) -> deque[_Item]:
    """Take the first call, and those after it that can be done as one with it."""
    items: deque[_Item] = deque()
    rows = 0
    while waiting:
        item = waiting[0]
        if not item.future.cancelled():
            merge = item.call.merge
            rows += len(merge.argument) if merge else 0
            if items and (rows > MERGED_ROWS or not _same_sort(items[0], item)):
                break
            items.append(item)
        waiting.popleft()
    return items


def _same_sort(one: _Item, other: _Item) -> bool:
    ours, others = one.call.merge, other.call.merge
    return ours is not None and others is not None and ours.together is others.together


def _settle(answers: Sequence[_Answer]) -> None:
    """Hand the answers to their loops, one call for all of a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer.item.loop, []).append(answer)
    for loop, part in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, part)
        except RuntimeError:
            continue  # the loop is closed: nobody waits any more


def _resolve(answers: Sequence[_Answer]) -> None:
    for item, result, error in answers:
        if item.future.done():
            continue
        if error is None:
            item.future.set_result(result)
        else:
            item.future.set_exception(error)
