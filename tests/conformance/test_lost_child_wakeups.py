"""No parent waits for ever that begins to wait while its child ends and somebody sweeps.

Three sessions take their steps by hand, in every order: the worker of the parent looks whether the
child has ended, gives its lease up, and commits; the worker of the child ends it, and commits;
somebody sweeps, and commits. A step that waits for a lock lets the others go on. Whatever the
order, the parent must go on in the end, with no more than the wakes that are left.

The mechanisms that keep this promise are also taken out: without them, the parent is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import permutations

import psycopg
import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, held_of
from tests.conformance.places import PostgresPlace, opened
from tests.conformance.test_lost_wakeups import PATIENCE, Session, change_function
from windlass.domain.run import Claimed
from windlass.domain.states import Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore

LOOK = "select state from windlass.await_children('default', %s, %s, 'kid')"
PARK = "select busy from windlass.finish(%s::json)"
END = "select windlass.succeed(array['default'], array[%s]::uuid[], array[%s]::bigint[])"
TEND = "select id from windlass.tend()"
STEP = StepWrite(path="kid", kind=StepKind.CHILD, state=StepState.WAITING)


class Scene:
    """A parent and its child, both running, and who moves them."""

    def __init__(self, drive: Driver, parents: Session, childs: Session, sweeper: Session) -> None:
        self.drive = drive
        self.parents, self.childs, self.sweeper = parents, childs, sweeper
        self.parent: Claimed = drive.start()
        started = drive.call(
            drive.ops.start_children(held_of(self.parent), STEP, 0, [drive.new()], None)
        )
        self.child = drive.take(started.ready[0])
        self.looked: str | None = None
        self.parked = False

    def look(self) -> None:
        """The parent's worker looks whether the child has ended."""
        try:
            found = self.parents.conn.execute(LOOK, (self.parent.id, self.parent.token)).fetchone()
        except psycopg.errors.LockNotAvailable:
            self.parents.conn.rollback()
            return
        self.parents.conn.commit()
        assert found is not None
        self.looked = found[0]

    def park(self) -> None:
        """It lets the parent wait, unless the child had ended."""
        if self.looked == "waiting":
            end = {
                "tenant": "default", "id": self.parent.id, "token": self.parent.token,
                "outcome": "waiting", "waits": ["kid"],
            }  # fmt: skip
            lost = self.parents.conn.execute(PARK, (json.dumps([end]),)).fetchall()
            assert lost in ([], [(True,)])
            self.parked = lost == []

    def commit(self) -> None:
        self.parents.conn.commit()

    def end(self) -> None:
        """The child's worker ends it."""
        assert self.childs.conn.execute(END, (self.child.id, self.child.token)).fetchall() == []

    def ended(self) -> None:
        self.childs.conn.commit()

    def tend(self) -> None:
        """Somebody sweeps, in a transaction of its own."""
        self.sweeper.conn.execute(TEND)
        self.sweeper.conn.commit()

    def play(self, order: str) -> None:
        """Take the steps in an order, as far as locks allow it; then do what is left to do."""
        steps = {
            "L": (self.parents, self.look), "P": (self.parents, self.park),
            "C": (self.parents, self.commit), "E": (self.childs, self.end),
            "e": (self.childs, self.ended), "T": (self.sweeper, self.tend),
        }  # fmt: skip
        taken = [session.take(step) for session, step in (steps[letter] for letter in order)]
        for future in taken:
            future.result(PATIENCE)
        if self.looked is None:
            self.look()
        if not self.parked:
            self.park()
            self.commit()
        for _ in range(3):
            self.tend()

    def is_lost(self) -> bool:
        """Whether the parent waits for a child that has ended, and nobody will ever look."""
        if self.looked != "waiting":
            return False
        return self.drive.get(self.parent.ref).status is Status.WAITING


@pytest.fixture
def scene(each_pg_database: str) -> Iterator[Callable[[], Scene]]:
    """Begins scenes, in a database whose functions a test may change."""
    sources = Sources.system()
    with ExitStack() as stack:
        store = stack.enter_context(PostgresStore(each_pg_database, sources=sources))
        tables = stack.enter_context(opened(PostgresPlace(each_pg_database)))
        drive = Driver(store, store.run, sources, tables)

        sessions = [Session(each_pg_database, name) for name in ("parent", "child", "sweeper")]
        for session in sessions:
            stack.callback(session.close)
        yield lambda: Scene(drive, *sessions)


def orders() -> list[str]:
    """Every order of L, P, C (the parent's), E, e (the child's) and T (the sweeper's)."""
    found = {"".join(order) for order in permutations("LPCEeT")}
    return sorted(
        order
        for order in found
        if order.index("L") < order.index("P") < order.index("C")
        and order.index("E") < order.index("e")
    )


def test_there_are_sixty_orders() -> None:
    assert len(orders()) == 60


@pytest.mark.parametrize("part", range(3))
def test_no_order_loses_the_parent(scene: Callable[[], Scene], part: int) -> None:
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


def test_a_wake_that_is_not_kept_loses_the_parent(
    scene: Callable[[], Scene], each_pg_database: str
) -> None:
    """The sweeper finds the parent locked by whoever parks it, who has looked before the end."""
    change_function(each_pg_database, "310_tend.sql", "where w.parked is null", "where false")

    assert lost_orders(scene, ["LPEeTC", "LPCEeT"]) == ["LPEeTC"]


def test_a_parent_that_is_parked_without_a_look_is_lost(
    scene: Callable[[], Scene], each_pg_database: str
) -> None:
    """The child ended, and its wake was looked at, before the parent began to park."""
    change_function(
        each_pg_database,
        "032_make_moves.sql",
        "windlass.is_answered(m.tenant, m.id, m.waits)",
        "false",
    )

    assert lost_orders(scene, ["LEeTPC", "LPCEeT"]) == ["LEeTPC"]
