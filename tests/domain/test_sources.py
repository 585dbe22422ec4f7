"""Clocks, ids and randomness: order, uniqueness and repeatability."""

import gc
import os
import sys
import threading
import uuid
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from random import Random  # noqa: TID251

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.sources import Clock, Ids, ManualClock, Sources, SystemClock

START = datetime(2030, 1, 1, tzinfo=UTC)


def test_system_clock_is_aware_and_monotonic() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() >= before


def test_manual_clock_stands_still_until_moved() -> None:
    clock = ManualClock(START)
    assert (clock.now(), clock.monotonic()) == (START, 0.0)
    assert (clock.now(), clock.monotonic()) == (START, 0.0)


def test_manual_clock_moves_wall_and_monotonic_together() -> None:
    clock = ManualClock(START)
    clock.advance(1.5)
    clock.advance(timedelta(minutes=1))
    assert clock.now() == START + timedelta(seconds=61.5)
    assert clock.monotonic() == 61.5
    clock.set(START + timedelta(hours=1))
    assert clock.monotonic() == 3600.0


def test_manual_clock_jumps_leave_monotonic_alone() -> None:
    clock = ManualClock(START)
    clock.jump(timedelta(days=-1))
    assert clock.now() == START - timedelta(days=1)
    assert clock.monotonic() == 0.0


def test_manual_clock_never_runs_backwards() -> None:
    clock = ManualClock(START)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="backwards"):
        clock.set(START - timedelta(seconds=1))
    assert (clock.now(), clock.monotonic()) == (START, 0.0)


def test_manual_clock_wants_aware_times_and_keeps_utc() -> None:
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2030, 1, 1))  # noqa: DTZ001
    berlin = datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert ManualClock(berlin).now().isoformat() == "2030-01-01T00:00:00+00:00"


def test_manual_clock_loses_no_step_of_concurrent_threads() -> None:
    clock = ManualClock(START)

    def work() -> None:
        for _ in range(500):
            clock.advance(1)

    run_together(8, work)
    assert clock.monotonic() == 4000.0
    assert clock.now() == START + timedelta(seconds=4000)


def test_id_is_a_canonical_uuid7_with_the_clocks_milliseconds() -> None:
    clock = ManualClock(datetime(2030, 1, 1, 0, 0, 0, 123_999, tzinfo=UTC))
    text = Ids(clock).new_id()
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == 1_893_456_000_123


@given(st.integers(min_value=0, max_value=4_102_444_800_000_000))
@example(1_095_567_485_047_000)  # a float cuts this one to .046
def test_id_carries_every_instant_exactly(microseconds: int) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    ids = Ids(ManualClock(epoch + timedelta(microseconds=microseconds)), Random(1))
    assert uuid.UUID(ids.new_id()).int >> 80 == microseconds // 1000


@given(st.lists(st.integers(min_value=-5000, max_value=5000), max_size=60), st.integers())
def test_ids_rise_whatever_the_wall_clock_does(jumps: list[int], seed: int) -> None:
    sources = Sources.manual(seed=seed)
    made = [sources.new_id()]
    for millis in jumps:
        sources.clock.jump(timedelta(milliseconds=millis))
        made.append(sources.new_id())
    assert made == sorted(set(made))


def test_id_is_still_rising_when_a_millisecond_is_used_up() -> None:
    class Greedy(Random):
        def getrandbits(self, k: int, /) -> int:
            return (1 << k) - 1

    ids = Ids(ManualClock(START), Greedy())
    first = ids.new_id()
    ids._tail = 0xBFFF_FFFF_FFFF_FFFF
    second = ids.new_id()
    assert second > first
    assert uuid.UUID(second).int >> 80 == (uuid.UUID(first).int >> 80) + 1
    assert uuid.UUID(second).variant == uuid.RFC_4122


class Slow(Random):
    """Is in Python, so that threads can be switched in the middle of an id."""

    def getrandbits(self, k: int, /) -> int:
        return super().getrandbits(k)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(START)])
def test_ids_of_concurrent_threads_are_unique_and_rise_in_each(
    clock: Clock, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    ids = Ids(clock, Slow())
    made: list[list[str]] = []
    run_together(8, lambda: made.append([ids.new_id() for _ in range(400)]))
    assert all(chunk == sorted(chunk) for chunk in made)
    assert len({text for chunk in made for text in chunk}) == 3200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("seeded", [False, True])
def test_forked_children_make_other_ids_even_if_the_lock_was_held(seeded: bool) -> None:
    # With a clock that stands still, nothing but new randomness keeps the processes apart.
    ids = Ids(ManualClock(START), Random(7) if seeded else None)
    ids.new_id()
    with ids._lock:
        children = [forked(lambda: "".join(ids.new_id() for _ in range(20))) for _ in range(2)]
    made = [text[at : at + 36] for text in children for at in range(0, len(text), 36)]
    made += [ids.new_id() for _ in range(20)]
    assert len(set(made)) == len(made) == 60


def forked(work: Callable[[], str]) -> str:
    """Return what the work returns in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, work().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return text


def test_ids_are_collected_although_forks_know_them() -> None:
    ids = Ids(ManualClock(START))
    watch = weakref.ref(ids)
    del ids
    gc.collect()
    assert watch() is None


def test_manual_sources_repeat_with_the_seed() -> None:
    def draw(seed: int) -> list[object]:
        sources = Sources.manual(start=START, seed=seed)
        return [sources.new_id(), sources.new_id(), sources.jitter(), sources.now()]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_jitter_is_of_the_half_open_unit_interval() -> None:
    for sources in (Sources.system(), Sources.manual()):
        drawn = [sources.jitter() for _ in range(200)]
        assert all(0 <= number < 1 for number in drawn)
        assert len(set(drawn)) == 200


def run_together(count: int, work: Callable[[], object]) -> None:
    """Run the work in threads that start at the same moment."""
    barrier = threading.Barrier(count)

    def start() -> None:
        barrier.wait()
        work()

    threads = [threading.Thread(target=start) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
