"""Signals: free where nobody listens, complete and in order for those who do."""

from __future__ import annotations

import asyncio
import threading

import pytest

from windlass.engine.signals import Signal


async def test_a_signal_is_heard_in_order_from_the_beginning_of_the_block_to_its_end() -> None:
    signal: Signal[int] = Signal()
    signal.emit(0)  # nobody listens
    with signal.heard() as first, signal.heard() as second:
        for number in range(1, 4):
            signal.emit(number)
        assert [await first.next(), await first.next()] == [1, 2]
        assert await second.until(lambda number: number == 3) == 3
    signal.emit(4)
    assert first.all == second.all == [1, 2, 3]


async def test_whoever_waits_hears_what_another_thread_emits() -> None:
    signal: Signal[str] = Signal()
    with signal.heard() as heard:
        waiting = asyncio.create_task(heard.next())
        await asyncio.sleep(0)
        thread = threading.Thread(target=signal.emit, args=("done",))
        thread.start()
        assert await waiting == "done"
        thread.join()


async def test_a_wait_for_what_does_not_happen_ends() -> None:
    signal: Signal[int] = Signal()
    with signal.heard() as heard:
        signal.emit(1)
        heard.skip()
        with pytest.raises(TimeoutError):
            await heard.next(within=0.01)
        signal.emit(2)
        with pytest.raises(TimeoutError):
            await heard.until(lambda number: number == 3, within=0.01)
        assert heard.all == [1, 2]


def test_a_listener_is_called_where_the_signal_is_emitted() -> None:
    signal: Signal[int] = Signal()
    called: list[int] = []
    with signal.calling(called.append):
        signal.emit(1)
        assert called == [1]
    signal.emit(2)
    assert called == [1]
