"""Lanes by themselves: how much they look for, and where they look."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import pytest

from windlass.domain.job import Executor, define_job
from windlass.domain.run import Claimed, CycleReply, Mark
from windlass.engine import lanes
from windlass.engine.holdings import Holding
from windlass.engine.lanes import Lane, Tempo
from windlass.engine.search import Look, Reach


async def handler() -> None: ...


def claimed(run: str = "a", queue: str = "default") -> Claimed:
    return Claimed(
        tenant="default", id=run, job="handler", queue=queue, token=1, attempt=1,
        failures=0, crash_count=0, input=msgspec.Raw(b"{}"),
    )  # fmt: skip


def mark(place: int) -> Mark:
    return Mark(0, str(place), "a")


def make_lane(seats: int = 10, queues: tuple[str, ...] | None = None) -> Lane:
    lane = Lane(Executor.ASYNC, seats, ("handler",), queues)
    lane.search.hungry = True
    return lane


@dataclass
class Store:
    """Answers a lane's claims at once, or after so many seconds. `now` is the loop's clock."""

    lane: Lane
    now: float = 100.0
    looks: list[Look] = field(default_factory=list)

    def claim(
        self,
        found: int,
        *,
        limit: int = 5,
        marks: dict[str, Mark] | None = None,
        stops: dict[str, Mark] | None = None,
        took: float = 0.0,
        queues: str = "",
        searched: float = 0.0,
    ) -> Reach:
        """Let the lane look once, and answer; returns where it looked."""
        look = self.send(limit)
        self.now += took
        self.answer(look, found, marks=marks, stops=stops, queues=queues, searched=searched)
        return look.reach

    def send(self, limit: int = 5) -> Look:
        assert self.lane.asks(self.now)
        look = self.lane.look(limit, self.now)
        self.looks.append(look)
        return look

    def answer(
        self,
        look: Look,
        found: int,
        *,
        marks: dict[str, Mark] | None = None,
        stops: dict[str, Mark] | None = None,
        queues: str = "",
        searched: float = 0.0,
    ) -> None:
        runs = tuple(claimed(str(n)) for n in range(found))
        if marks is None:
            marks = {"default": mark(1)} if found else {}
        reply = CycleReply(
            now=datetime.max,  # noqa: DTZ901
            claimed=runs,
            marks=marks,
            stops=stops or {},
            queues=tuple(queues),
            searched=searched,
        )
        self.lane.answered(look, reply, self.now)
        self.lane.settle(look)

    def rest(self) -> float:
        """Let the walk have its rest; returns how long it was."""
        at = self.lane.asks_again(self.now)
        assert at is not None
        rest, self.now = at - self.now, at
        return rest


# -- how much -------------------------------------------------------------------------------------


def test_room_is_what_neither_runs_nor_waits_nor_was_asked_for() -> None:
    lane = make_lane()
    assert lane.room(0.0) == 10
    looks = [lane.look(2, 0.0)]
    lane.running = 3
    lane.waiting.append(Holding(claimed(), define_job(handler)))
    assert lane.room(0.0) == 4
    looks.append(lane.look(18, 0.0))
    assert lane.room(0.0) == 0
    assert not lane.asks(0.0)
    for look in looks:
        lane.settle(look)
    assert lane.room(0.0) == 6


def test_lane_looks_ahead_only_while_runs_are_quick() -> None:
    lane = make_lane()
    now = 100.0
    for _ in range(400):  # two thousand a second
        now += 0.0005
        lane.running += 1
        lane.ended(now)
    assert lane.room(now) == pytest.approx(10 + 2000 * lanes._AHEAD_SECONDS, abs=3)
    assert lane.room(now + 1) == 10  # it says nothing about what comes after a silence
    lane.calm()
    assert lane.room(now) == 10


def test_slow_runs_are_never_taken_ahead() -> None:
    lane = make_lane()
    for n in range(100):
        lane.running += 1
        lane.ended(n * 0.01)
    assert lane.room(1.0) == 10


def test_tempo_forgets() -> None:
    tempo = Tempo()
    for n in range(300):
        tempo.count(50 + n / 1000)
    assert tempo.rate(50.3) == pytest.approx(1000, rel=0.05)
    assert tempo.rate(51.0) == 0
    tempo.count(99.0)  # the first after a long silence
    assert tempo.rate(99.0) == 0


# -- heads, and deep under load -------------------------------------------------------------------


def test_claims_look_deep_under_load_and_at_the_head_now_and_then() -> None:
    lane = make_lane()
    store = Store(lane)
    assert store.claim(5) is Reach.HEAD
    store.now = 100.1
    assert store.claim(5) is Reach.DEEP
    store.now = 100.3
    assert store.claim(5) is Reach.HEAD
    head, deep, again = (look.want for look in store.looks)
    assert (head.after, deep.after, again.after) == ({}, {"default": mark(1)}, {})


def test_short_deep_claim_is_not_believed() -> None:
    lane = make_lane()
    store = Store(lane)
    store.claim(5)
    assert store.claim(2) is Reach.DEEP
    assert lane.search.hungry
    assert store.claim(0) is Reach.HEAD
    assert not lane.asks(store.now)  # the head was looked at


def test_no_claim_is_without_a_bound() -> None:
    store = Store(make_lane(seats=1000))
    store.claim(500, limit=500)
    store.claim(1, limit=500)
    store.claim(0, limit=500, stops={"default": mark(2)})
    store.claim(0, limit=500, stops={"default": mark(3)})
    assert [look.reach for look in store.looks] == [Reach.HEAD, Reach.DEEP, Reach.HEAD, Reach.WALK]
    assert [look.want.window for look in store.looks] == [1500, 1500, 1500, 10_000]


def test_work_told_of_while_a_claim_was_on_its_way_is_looked_for_again() -> None:
    """It may have been committed behind what the claim saw, and nobody tells of it twice."""
    lane = make_lane()
    store = Store(lane)
    look = store.send(5)
    lane.hear()
    store.answer(look, 1)
    assert lane.search.hungry
    assert store.claim(0) is Reach.DEEP
    assert store.claim(0) is Reach.HEAD
    assert not lane.search.hungry


def test_a_full_head_claim_leaves_a_lane_hungry() -> None:
    lane = make_lane()
    store = Store(lane)
    store.claim(0, stops={"default": mark(1)})
    assert not lane.search.hungry
    store.now += 1
    assert store.claim(5) is Reach.HEAD  # it walks, so it looks at the heads too
    assert lane.search.hungry


# -- turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_named_queues_are_first_in_turns(number: int) -> None:
    names = tuple("abcde"[:number])
    store = Store(make_lane(seats=100, queues=names))
    firsts = [(store.send(1).want.queues or ("",))[0] for _ in range(3 * number)]
    assert set(Counter(firsts).values()) == {3}
    assert firsts[:number] == firsts[number : 2 * number]


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("heads", [2, 3, 4])
def test_each_way_of_looking_has_turns_of_its_own(heads: int, number: int) -> None:
    """Were they counted together, every second claim would always find the same queue first."""
    store = Store(make_lane())
    for n in range(number * heads * 2):
        store.now += 1 if n % heads == 0 else 0  # time to look at the heads
        store.claim(5)
    for reach in (Reach.HEAD, Reach.DEEP):
        turns = [look.want.turn for look in store.looks if look.reach is reach]
        assert {turn % number for turn in turns} == set(range(number))


def test_lanes_count_turns_each_for_itself() -> None:
    """Lanes are asked alternately: numbers that they share would be all odd for one of them."""
    pair = [Store(make_lane()), Store(make_lane())]
    for n in range(8):
        pair[n % 2].claim(5)
    for store in pair:
        assert {look.want.turn % 2 for look in store.looks} == {0, 1}


# -- which queues ---------------------------------------------------------------------------------


def searched(seconds: float, queues: str = "ab") -> Store:
    """A lane that serves all queues, and whose search for them took so long."""
    store = Store(make_lane(seats=100))
    store.claim(5, queues=queues, searched=seconds, marks={queues[0]: mark(1)})
    return store


def test_queues_are_searched_for_with_each_claim_while_that_is_quick() -> None:
    store = searched(0.0001)
    store.now += 0.01
    assert store.claim(5, queues="ab", searched=0.0001) is Reach.DEEP
    assert [look.want.queues for look in store.looks] == [None, None]


def test_a_lane_rests_from_a_search_that_was_slow() -> None:
    store = searched(0.005)  # rests 0.12 s
    for _ in range(3):
        store.claim(5)
        store.now += 0.039
    assert [look.want.queues for look in store.looks[1:]] == [("b", "a"), ("a", "b"), ("b", "a")]
    store.now += 0.01
    assert store.claim(5, queues="ab") is Reach.DEEP
    assert store.looks[-1].want.queues is None


def test_a_head_claim_searches_however_slow_that_is() -> None:
    store = searched(9.0)
    store.now += 0.25
    assert store.claim(5) is Reach.HEAD
    assert store.looks[-1].want.queues is None


def test_a_queue_that_was_looked_at_in_vain_is_left_out() -> None:
    store = searched(9.0, "abc")
    look = store.send()
    assert look.want.queues == ("b", "c", "a")
    store.answer(look, 5, marks={"c": mark(1)})
    assert set(store.send().want.queues or ()) == {"a", "c"}


def test_queues_that_a_full_claim_did_not_reach_stay() -> None:
    store = searched(9.0, "abc")
    store.answer(store.send(), 5, marks={"b": mark(1)})
    assert set(store.send().want.queues or ()) == {"a", "b", "c"}


def test_without_a_queue_that_is_known_the_store_searches() -> None:
    store = Store(make_lane())
    store.claim(5, searched=9.0)
    assert store.claim(5) is Reach.DEEP
    assert store.looks[-1].want.queues is None


def test_other_jobs_have_the_queues_searched_for_anew() -> None:
    store = searched(9.0)
    store.lane.serve(("handler", "other"), 100)
    assert store.claim(5, queues="b", searched=0.0) is Reach.HEAD
    assert store.claim(5) is Reach.DEEP
    assert store.looks[-1].want.queues is None


def test_named_queues_are_not_searched_for() -> None:
    store = Store(make_lane(queues=("a", "b")))
    store.claim(5, marks={"b": mark(1)}, searched=9.0)
    assert set(store.send().want.queues or ()) == {"a", "b"}


# -- walls ----------------------------------------------------------------------------------------


def walled(queues: tuple[str, ...] = ("default",), *, seats: int = 10) -> Store:
    """A lane whose look at the heads has met a wall in each of these queues."""
    store = Store(make_lane(seats))
    store.claim(0, stops={queue: mark(1000) for queue in queues})
    return store


def test_a_walk_goes_on_from_stop_to_stop_and_ends_with_the_queue() -> None:
    store = walled()
    for place in (11_000, 21_000):
        assert store.claim(0, stops={"default": mark(place)}) is Reach.WALK
        store.rest()
    assert store.claim(1) is Reach.WALK
    assert [look.want.after.get("default") for look in store.looks] == [
        None,
        mark(1000),
        mark(11_000),
        mark(21_000),
    ]
    assert all(look.want.queues == ("default",) for look in store.looks[1:])
    assert not store.lane.asks(store.now + 3600)
    assert store.lane.asks_again(store.now) is None


def test_the_next_head_claim_begins_another_walk() -> None:
    store = walled()
    store.claim(0)  # to the end of the queue
    store.lane.search.hungry = True
    store.now += 1
    assert store.claim(0, stops={"default": mark(1005)}) is Reach.HEAD
    assert store.claim(0) is Reach.TAIL
    assert store.looks[-1].want.after == {"default": mark(1000)}
    store.rest()
    assert store.claim(0) is Reach.WALK
    assert store.looks[-1].want.after == {"default": mark(1005)}


def test_a_head_claim_does_not_move_a_walk_that_is_under_way() -> None:
    store = walled()
    store.claim(0, stops={"default": mark(11_000)})
    store.lane.search.hungry = True
    store.claim(0, stops={"default": mark(1000)})
    store.rest()
    store.claim(0)
    assert store.looks[-1].want.after == {"default": mark(11_000)}


def walked(queues: tuple[str, ...] = ("default",)) -> Store:
    """A lane that has gone through its walls once, and then met them anew; they have tails."""
    store = walled(queues)
    for _ in queues:
        (queue,) = store.send().want.queues or ()
        store.answer(store.looks[-1], 0, stops={queue: mark(11_000)})
        store.rest()
    for _ in queues:
        assert store.claim(0) is Reach.WALK
        store.now += 0.02
    store.lane.search.hungry = True
    store.now += 1
    assert store.claim(0, stops={queue: mark(1000) for queue in queues}) is Reach.HEAD
    store.looks.clear()
    return store


def test_what_comes_behind_a_wall_is_looked_for_at_the_tail() -> None:
    """As often as the head is looked at, beside the walk."""
    store = walked()
    for walk in (1000, 11_000, 21_000):
        assert store.claim(0) is Reach.TAIL
        assert store.looks[-1].want.after == {"default": mark(11_000)}
        store.rest()
        assert store.claim(0, stops={"default": mark(walk + 10_000)}) is Reach.WALK
        assert store.looks[-1].want.after == {"default": mark(walk)}
        store.now += 0.3
        assert store.claim(0, stops={"default": mark(1000)}) is Reach.HEAD


def test_a_tail_that_has_grown_is_looked_at_to_its_end() -> None:
    store = walked()
    assert store.claim(0, stops={"default": mark(21_000)}) is Reach.TAIL
    store.rest()
    assert store.claim(0) is Reach.WALK  # to the end
    store.rest()
    assert store.claim(5, marks={"default": mark(21_400)}) is Reach.TAIL
    assert store.claim(0) is Reach.TAIL
    assert store.looks[-1].want.after == {"default": mark(21_400)}
    assert not store.lane.asks(store.now + 3600)


@pytest.mark.parametrize("took", [0.01, 0.05, 0.5])
def test_a_walk_goes_on_however_often_the_head_is_looked_at(took: float) -> None:
    """Where looks are slow there is a head claim, and so a look at the tail, after every rest."""
    store = walked()
    for n in range(100):
        store.claim(0, took=took, stops={"default": mark(n)})
        store.now = store.lane.asks_again(store.now) or store.now
    reaches = Counter(look.reach for look in store.looks)
    assert reaches[Reach.WALK] >= reaches[Reach.TAIL] - 1 > 5


def test_tails_have_their_turns_with_other_queues() -> None:
    store = walked(("a", "b"))
    for _ in range(4):
        store.send()
        (queue,) = store.looks[-1].want.queues or ()
        store.answer(store.looks[-1], 0, stops={} if len(store.looks) < 3 else {queue: mark(1)})
        store.rest()
    assert [look.want.queues for look in store.looks] == [("a",), ("b",)] * 2
    assert [look.reach for look in store.looks] == [Reach.TAIL] * 2 + [Reach.WALK] * 2


def test_a_wall_that_is_gone_is_forgotten() -> None:
    store = walked(("a", "b"))
    store.lane.search.hungry = True
    store.now += 0.3
    store.claim(0, stops={"b": mark(1000)})
    for _ in range(2):
        store.claim(0)
        assert store.looks[-1].want.queues == ("b",)
        store.now += 0.1
    assert not store.lane.asks(store.now + 3600)


def test_a_full_head_claim_says_nothing_of_queues_that_it_did_not_reach() -> None:
    store = walked(("a", "b"))
    store.now += 0.3
    store.lane.search.hungry = True
    store.claim(5, stops={"a": mark(1000)})
    queues = set()
    for _ in range(2):
        queues.add(store.send().want.queues)
        store.answer(store.looks[-1], 0)
        store.now += 0.1
    assert queues == {("a",), ("b",)}


def test_no_wall_no_walk() -> None:
    lane = make_lane()
    store = Store(lane)
    store.claim(2)
    assert not lane.asks(store.now + 3600)
    assert lane.asks_again(store.now) is None


@pytest.mark.parametrize("took", [0.005, 0.02, 0.1])
def test_a_walk_that_brings_nothing_takes_a_tenth_of_the_time(took: float) -> None:
    store = walled()
    for n in range(100):
        began = store.now
        reach = store.claim(0, took=took, stops={"default": mark(n)})
        if reach is Reach.WALK:
            rest = store.rest()
            assert took <= (store.now - began) / 10 + 1e-9
            assert rest == pytest.approx(9 * took)


def test_a_walk_rests_a_little_and_not_for_ever() -> None:
    store = walled()
    store.claim(0, stops={"default": mark(1)})
    assert store.rest() == pytest.approx(0.02)
    while store.claim(0, took=60.0, stops={"default": mark(1)}) is not Reach.WALK:
        pass
    assert store.rest() == pytest.approx(10.0)


def test_the_more_a_walk_brought_the_sooner_it_goes_on() -> None:
    rests = []
    for found in (0, 1, 4):
        store = walled()
        store.claim(found, took=0.2, stops={"default": mark(2)})
        rests.append(store.rest())
    assert rests == pytest.approx([1.8, 0.9, 0.36])


def test_a_walk_that_filled_all_seats_goes_on_at_once_behind_what_it_took() -> None:
    store = walled()
    store.claim(5, took=0.01, marks={"default": mark(1400)})
    assert store.claim(0, took=0.01) is Reach.WALK
    assert store.looks[-1].want.after == {"default": mark(1400)}


def test_a_walk_that_filled_all_seats_rests_where_the_heads_have_something_too() -> None:
    store = walled()
    store.lane.search.hungry = True
    store.claim(5, took=0.01, marks={"default": mark(1400)})
    assert store.claim(5, took=0.01) is Reach.HEAD
    assert store.claim(5, took=0.01) is Reach.DEEP


def test_a_backlog_at_the_heads_does_not_keep_a_lane_from_walking() -> None:
    store = Store(make_lane())
    walks = 0
    for _ in range(200):  # ten seconds; queue a always has something, queue b has a wall
        reach = store.claim(5, took=0.05, marks={"a": mark(1)}, stops={"b": mark(2)})
        walks += reach is Reach.WALK
    assert 3 <= walks <= 100


def test_the_heads_are_looked_at_while_a_lane_walks() -> None:
    store = walled()
    since = store.now
    for _ in range(100):  # a dense stretch behind the wall: walks are full, and do not rest
        if store.claim(5, took=0.01, stops={"default": mark(1)}) is Reach.HEAD:
            since = store.now
            store.lane.search.hungry = False
        assert store.now - since <= 0.3


def test_queues_are_walked_in_turns() -> None:
    store = walled(("a", "b", "c"))
    for n in range(6):
        (queue,) = store.send().want.queues or ()
        store.answer(store.looks[-1], 0, stops={queue: mark(n)})
        store.rest()
    (queue,) = store.send().want.queues or ()
    store.answer(store.looks[-1], 0)  # the end of this one
    walked = [look.want.queues for look in store.looks[1:]]
    assert walked == [("a",), ("b",), ("c",)] * 2 + [("a",)]
    store.rest()
    assert store.send().want.queues == ("b",)


def test_one_walk_of_a_lane_is_on_its_way_at_a_time() -> None:
    store = walled()
    walk = store.send()
    assert walk.reach is Reach.WALK
    assert not store.lane.asks(store.now)
    assert store.lane.asks_again(store.now) is None
    store.lane.search.hungry = True  # woken
    head = store.send()
    assert head.reach is Reach.HEAD
    store.answer(head, 0, stops={"default": mark(1000)})
    store.answer(walk, 0, stops={"default": mark(11_000)})
    store.rest()
    assert store.send().want.after == {"default": mark(11_000)}


def test_a_walk_that_was_not_answered_is_asked_again() -> None:
    store = walled()
    store.lane.settle(store.send())
    assert store.claim(0) is Reach.WALK
    assert store.looks[-1].want.after == {"default": mark(1000)}


def test_a_lane_without_free_seats_does_not_walk() -> None:
    store = walled()
    store.claim(0, stops={"default": mark(11_000)})
    store.lane.running = 10
    assert store.lane.asks_again(store.now) is None
    assert not store.lane.asks(store.now + 60)
    store.lane.running = 9
    store.now += 0.1
    assert store.claim(0) is Reach.WALK
    assert store.looks[-1].want.after == {"default": mark(11_000)}


def test_other_jobs_start_the_walk_over() -> None:
    store = walled()
    walk = store.send()
    store.lane.serve(("handler", "another"), 10)
    store.answer(walk, 0, stops={"default": mark(11_000)})
    assert not store.lane.asks(store.now + 60)
    store.lane.search.hungry = True
    assert store.claim(0) is Reach.HEAD
    assert store.looks[-1].want.jobs == ("handler", "another")
