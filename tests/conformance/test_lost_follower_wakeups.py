"""No follower waits for ever that is enqueued while what it comes after ends and somebody sweeps.

Three sessions take their steps by hand, in every order: somebody enqueues the follower, and
commits; the worker of the awaited run ends it, and commits; somebody sweeps, and commits. A
step that waits for a lock lets the others go on. Whatever the order, the follower must start in the
end, with no more than the wakes that are left.

The mechanisms that keep this promise are also taken out: without them, the follower is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import permutations

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver
from tests.conformance.places import PostgresPlace, opened
from tests.conformance.test_lost_wakeups import PATIENCE, Session, change_function
from windlass.domain.run import RunRef
from windlass.domain.states import Status
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore

ENQUEUE = "select windlass.enqueue_many(%s::json, false)"
END = "select windlass.succeed(array['default'], array[%s]::uuid[], array[%s]::bigint[])"
TEND = "select id from windlass.tend()"


class Scene:
    """A run that is running, one that is to come after it, and who moves them."""

    def __init__(self, drive: Driver, caller: Session, worker: Session, sweeper: Session) -> None:
        self.drive = drive
        self.caller, self.worker, self.sweeper = caller, worker, sweeper
        self.first = drive.start()
        self.follower = RunRef("default", drive.new().id)

    def enqueue(self) -> None:
        """Somebody enqueues the follower, in a transaction of their own."""
        item = {
            "id": self.follower.id, "job": "send", "queue": "default", "input": {},
            "after": [self.first.id],
        }  # fmt: skip
        self.caller.conn.execute(ENQUEUE, (json.dumps([item]),))

    def enqueued(self) -> None:
        self.caller.conn.commit()

    def end(self) -> None:
        """The worker of the awaited run ends it."""
        assert self.worker.conn.execute(END, (self.first.id, self.first.token)).fetchall() == []

    def ended(self) -> None:
        self.worker.conn.commit()

    def tend(self) -> None:
        """Somebody sweeps."""
        self.sweeper.conn.execute(TEND)

    def tended(self) -> None:
        self.sweeper.conn.commit()

    def play(self, order: str) -> None:
        """Take the steps in an order, as far as locks allow it; then sweep."""
        steps = {
            "Q": (self.caller, self.enqueue), "q": (self.caller, self.enqueued),
            "E": (self.worker, self.end), "e": (self.worker, self.ended),
            "T": (self.sweeper, self.tend), "t": (self.sweeper, self.tended),
        }  # fmt: skip
        taken = [session.take(step) for session, step in (steps[letter] for letter in order)]
        for future in taken:
            future.result(PATIENCE)
        for _ in range(3):
            self.tend()
            self.tended()

    def is_lost(self) -> bool:
        """Whether the follower still waits, and nobody will ever look."""
        return self.drive.get(self.follower).status is not Status.QUEUED


@pytest.fixture
def scene(each_pg_database: str) -> Iterator[Callable[[], Scene]]:
    """Begins scenes, in a database whose functions a test may change."""
    sources = Sources.system()
    with ExitStack() as stack:
        store = stack.enter_context(PostgresStore(each_pg_database, sources=sources))
        tables = stack.enter_context(opened(PostgresPlace(each_pg_database)))
        drive = Driver(store, store.run, sources, tables)
        sessions = [Session(each_pg_database, name) for name in ("caller", "worker", "sweeper")]
        for session in sessions:
            stack.callback(session.close)
        yield lambda: Scene(drive, *sessions)


def orders() -> list[str]:
    """Every order of Q, q (the caller's), E, e (the worker's) and T, t (the sweeper's)."""
    found = {"".join(order) for order in permutations("QqEeTt")}
    pairs = [("Q", "q"), ("E", "e"), ("T", "t")]
    return sorted(o for o in found if all(o.index(a) < o.index(b) for a, b in pairs))


def test_there_are_ninety_orders() -> None:
    assert len(orders()) == 90


@pytest.mark.parametrize("part", range(3))
def test_no_order_loses_the_follower(scene: Callable[[], Scene], part: int) -> None:
    for order in orders()[part::3]:
        begun = scene()
        begun.play(order)
        assert not begun.is_lost(), order
    assert violations(History.read(begun.drive.tables)) == []


def lost_orders(scene: Callable[[], Scene], among: list[str]) -> list[str]:
    lost = []
    for order in among:
        begun = scene()
        begun.play(order)
        if begun.is_lost():
            lost.append(order)
    return lost


def test_a_wake_that_is_not_kept_loses_the_follower(
    scene: Callable[[], Scene], each_pg_database: str
) -> None:
    """The sweeper finds the awaited run locked by whoever ends it, and cannot mark it."""
    change_function(
        each_pg_database,
        "312_look_at_follower.sql",
        "and coalesce(r.links & 4, 0) = 0) then\n      insert",
        "and false) then\n      insert",
    )

    assert lost_orders(scene, ["QqETte", "QqTtEe"]) == ["QqETte"]


def test_an_awaited_run_without_a_mark_loses_the_follower(
    scene: Callable[[], Scene], each_pg_database: str
) -> None:
    """The follower's own wake is gone, and the end leaves none."""
    change_function(
        each_pg_database,
        "037_children.sql",
        "if old.links & 4 <> 0 or (tg_op = 'UPDATE' and new.links & 4 <> 0) then",
        "if false then",
    )

    assert lost_orders(scene, ["QqTtEe", "EeQqTt"]) == ["QqTtEe"]


def test_whoever_enqueues_holds_nobody_up(scene: Callable[[], Scene]) -> None:
    """A caller's transaction may be open for hours: the awaited run ends all the same."""
    begun = scene()
    begun.enqueue()
    begun.end()
    begun.ended()
    assert begun.drive.get(begun.first.ref).status is Status.SUCCEEDED
    begun.enqueued()
    begun.play("")
    assert not begun.is_lost()
