"""Units: what may be told of them, their rate, and the line that people read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.progress import Pace, Units, check_units
from windlass.domain.run import Held, ProgressWrite
from windlass.errors import BadOption
from windlass.gauge import Gauge

LINES = [
    (Units(done=412, total=1000, rate=35.0), "412 of 1,000 units, 35/s, 17 s left"),
    (Units(done=410, failed=2, total=1000, rate=35.0),
     "412 of 1,000 units, 2 failed, 35/s, 17 s left"),
    (Units(done=1000, total=1000, rate=35.0), "1,000 of 1,000 units"),
    (Units(done=5, rate=0.1), "5 units, 6/min"),
    (Units(done=5, rate=0.001, total=6), "5 of 6 units, 3.6/h, 16 m 40 s left"),
    (Units(done=1), "1 unit"),
    (Units(total=0), "0 of 0 units"),
    (Units(done=3, total=10, rate=0.0), "3 of 10 units, 0/s"),
    (Units(done=3, total=10, rate=2.54), "3 of 10 units, 2.5/s, 3 s left"),
]  # fmt: skip


@pytest.mark.parametrize(("units", "line"), LINES)
def test_a_line_for_people(units: Units, line: str) -> None:
    assert str(units) == line


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "units"), ({"done": -1}, "done"), ({"done": True}, "done"), ({"failed": 1.5}, "failed"),
    ({"total": "ten"}, "total"), ({"done": 2**53 + 1}, "done"), ({"done": 6, "total": 5}, "units"),
    ({"done": 3, "failed": 3, "total": 5}, "units"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "option"), WRONG)
def test_nonsense_is_refused(told: dict[str, Any], option: str) -> None:
    given: dict[str, Any] = {"done": None, "failed": None, "total": None} | told
    with pytest.raises(BadOption) as caught:
        check_units(Units(), **given)
    assert caught.value.option == option


def test_what_is_not_told_stays() -> None:
    known = check_units(Units(), None, None, 10)
    known = check_units(known, 3, None, None)
    assert check_units(known, None, 2, None) == Units(done=3, failed=2, total=10)


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 50)), min_size=2, max_size=50))
def test_the_rate_is_that_of_the_latest_half_minute(steps: list[tuple[float, int]]) -> None:
    pace, at, count = Pace(), 0.0, 0
    samples = [(at, count)]
    pace.add(at, count)
    for seconds, units in steps:
        at, count = at + seconds, count + units
        rate = pace.add(at, count)
        samples.append((at, count))
        older = [s for s in samples if s[0] <= at - 30.0]
        first = older[-1] if older else samples[0]
        assert rate == pytest.approx((count - first[1]) / (at - first[0]))


def test_a_count_that_falls_begins_anew() -> None:
    pace = Pace()
    assert [pace.add(0.0, 0), pace.add(1.0, 10), pace.add(2.0, 5), pace.add(3.0, 6)] == [
        None, 10.0, None, 1.0,
    ]  # fmt: skip


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_gauge_asks_to_be_written_once_and_has_the_latest() -> None:
    clock, asked = Clock(), list[Gauge]()
    gauge = Gauge(Held("default", "x", 1), clock, asked.append)
    assert gauge.take() is None
    gauge.count(0, None, 100)
    for n in range(50):
        gauge.count(n, None, None)
    assert len(asked) == 1
    clock.now = 7.0
    write = gauge.take()
    assert isinstance(write, ProgressWrite)
    assert write.fraction == 0.49
    assert write.detail is not None
    assert write.detail.units == Units(done=49, total=100, rate=7.0)
    assert gauge.take() is None
    gauge.tell(0.5, "again")
    assert len(asked) == 2


def test_a_gauge_tells_of_the_phase_and_of_the_whole() -> None:
    clock = Clock()
    gauge = Gauge(Held("default", "x", 1), clock, lambda _: None)
    gauge.enter(("a", "b", "c"), 1)
    gauge.tell(0.5, "half")
    clock.now = 2.0
    write = gauge.take()
    assert write is not None
    assert (write.fraction, write.message) == (0.5, "half")
    assert write.detail is not None
    assert (write.detail.place, write.detail.own, write.detail.took) == (1, 0.5, 2.0)
    gauge.enter(("a", "b", "c"), 2)
    write = gauge.take()
    assert write is not None
    assert write.detail is not None
    assert (write.fraction, write.message, write.detail.own) == (2 / 3, None, 0.0)
    gauge.finish(("a", "b", "c"))
    write = gauge.take()
    assert write is not None
    assert write.fraction == 1.0
