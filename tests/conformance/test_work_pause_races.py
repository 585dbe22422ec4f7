"""A pause that is acknowledged while a claim is in flight, step by step, on PostgreSQL.

A claimer claims and commits. A pauser writes the pause, commits, and waits for claims before it
acknowledges. Two sessions take these steps by hand, in every order; a step that waits for a lock
lets the others go on. Whatever the order: once the pause is acknowledged, no claim commits a run of
it. The lock that keeps this promise is also taken out, to see that it is broken without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import combinations
from typing import Any

import psycopg
import pytest

from tests.conformance.kit import Driver
from tests.conformance.places import PostgresPlace, opened
from tests.conformance.test_lost_wakeups import GATE, PATIENCE, Session, change_function
from tests.fixtures.postgres import change_lock_waits
from windlass.domain.pause import PauseKind
from windlass.domain.run import Want
from windlass.errors import StoreBusy
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore

LOCK = "not pg_try_advisory_xact_lock_shared(hashtextextended('windlass.pauses', 0))"
CLAIMS = {
    "claim": ("220_claim.sql", "select id from windlass.claim('w1', 1, 10, '{greet}')"),
    "claim_ids": (
        "225_claim_ids.sql",
        "select id from windlass.claim_ids('w1', 1, 10, '{greet}', null, '{default}', %s::uuid[])",
    ),
    "cycle": (
        "230_cycle.sql",
        "select id from windlass.cycle('w1', 1, null, null, null, null, null, 10, '{greet}')",
    ),
}


class Scene:
    """A run that is ready, somebody who claims it, and somebody who pauses its queue."""

    def __init__(self, drive: Driver, claimer: Session, pauser: Session, sql: str) -> None:
        self.drive, self.claimer, self.pauser, self._sql = drive, claimer, pauser, sql
        self.run = drive.add(queue="mail")
        self.claimed = False
        self.acknowledged: Future[Any] | None = None
        self.broken = False

    def claim(self) -> None:
        """Claim, in a transaction."""
        given = ([self.run.id],) if "%s" in self._sql else None
        found = self.claimer.conn.execute(self._sql, given).fetchall()
        self.claimed = self.run.id in [str(id) for (id,) in found]

    def commit(self) -> None:
        """Let the claim count. Broken: it starts a run although the pause is acknowledged."""
        done = self.acknowledged is not None and self.acknowledged.done()
        self.broken = self.claimed and done
        self.claimer.conn.commit()

    def pause(self) -> None:
        """Write the pause."""
        self.pauser.conn.execute("select windlass.pause_work('default', 'queue', 'mail')")

    def paused(self) -> None:
        """Let others see it."""
        self.pauser.conn.commit()

    def settle(self) -> None:
        """Wait for claims."""
        self.pauser.conn.execute("select windlass.settle_pauses()")
        self.pauser.conn.commit()


@pytest.fixture
def begin(each_pg_database: str) -> Iterator[Callable[[str], Scene]]:
    """Begins scenes, in a database whose functions a test may change."""
    sources = Sources.system()
    with ExitStack() as stack:
        store = stack.enter_context(PostgresStore(each_pg_database, sources=sources))
        tables = stack.enter_context(opened(PostgresPlace(each_pg_database)))
        drive = Driver(store, store.run, sources, tables)
        drive.register("w1")

        def begun(sql: str) -> Scene:
            claimer = Session(each_pg_database, "claimer")
            pauser = Session(each_pg_database, "pauser")
            stack.callback(claimer.close)
            stack.callback(pauser.close)
            return Scene(drive, claimer, pauser, sql)

        yield begun


def orders() -> Sequence[str]:
    """Every order of claim and commit with pause, commit and settle."""
    found = []
    for places in combinations(range(5), 2):
        claimer, pauser = iter("CK"), iter("PpS")
        found.append("".join(next(claimer if n in places else pauser) for n in range(5)))
    return found


def play(scene: Scene, order: str) -> None:
    """Take the steps in an order, as far as locks allow it."""
    steps = {
        "C": (scene.claimer, scene.claim), "K": (scene.claimer, scene.commit),
        "P": (scene.pauser, scene.pause), "p": (scene.pauser, scene.paused),
        "S": (scene.pauser, scene.settle),
    }  # fmt: skip
    taken = []
    for letter in order:
        session, step = steps[letter]
        taken.append(session.take(step))
        if letter == "S":
            scene.acknowledged = taken[-1]
    for future in taken:
        future.result(PATIENCE)


def play_all(begin: Callable[[str], Scene], sql: str) -> Sequence[str]:
    """Play every order; returns those that broke the promise."""
    broken = []
    for order in orders():
        scene = begin(sql)
        play(scene, order)
        scene.drive.call(scene.drive.ops.resume_work("default", PauseKind.QUEUE, "mail"))
        scene.drive.call(scene.drive.ops.terminate(scene.run, None))
        if scene.broken:
            broken.append(order)
    return broken


@pytest.mark.parametrize("name", CLAIMS)
def test_no_claim_starts_a_run_once_its_pause_is_acknowledged(
    begin: Callable[[str], Scene], each_pg_database: str, name: str
) -> None:
    file, sql = CLAIMS[name]
    assert play_all(begin, sql) == []

    change_function(each_pg_database, file, LOCK, "false")

    assert "CPpSK" in play_all(begin, sql), "the lock must be what keeps the promise"


def test_a_claim_that_is_about_to_look_sees_the_pause(
    begin: Callable[[str], Scene], each_pg_database: str
) -> None:
    """The statement that takes the lock comes before the one that reads the pauses."""
    file, sql = CLAIMS["claim"]
    gate_first = f"if {LOCK} then"
    change_function(
        each_pg_database, file, gate_first, f"perform pg_advisory_xact_lock({GATE});\n{gate_first}"
    )
    scene = begin(sql)
    with psycopg.connect(each_pg_database) as gate:
        gate.execute("select pg_advisory_lock(%s)", (GATE,))
        claiming = scene.claimer.take(scene.claim)
        assert not claiming.done()
        for step in (scene.pause, scene.paused, scene.settle):
            scene.pauser.take(step).result(PATIENCE)  # nobody has the lock yet
        gate.execute("select pg_advisory_unlock(%s)", (GATE,))
        claiming.result(PATIENCE)
    scene.claimer.take(scene.commit).result(PATIENCE)

    assert not scene.claimed


def test_while_somebody_waits_for_claims_others_claim_nothing_and_ask_again(
    begin: Callable[[str], Scene],
) -> None:
    scene = begin(CLAIMS["claim"][1])
    scene.claimer.take(scene.claim).result(PATIENCE)
    scene.drive.add(queue="media")
    for step in (scene.pause, scene.paused):
        scene.pauser.take(step).result(PATIENCE)
    settling = scene.pauser.take(scene.settle)

    reply = scene.drive.call(scene.drive.ops.cycle("w1", 7, [], Want(limit=5, jobs=("greet",))))

    assert reply.locked
    assert reply.claimed == ()
    scene.claimer.take(scene.commit).result(PATIENCE)
    settling.result(PATIENCE)
    found = scene.drive.call(scene.drive.ops.cycle("w1", 8, [], Want(limit=5, jobs=("greet",))))
    assert [run.queue for run in found.claimed] == ["media"]


def test_a_claim_that_somebody_keeps_open_is_not_waited_for_for_ever(
    begin: Callable[[str], Scene], each_pg_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = begin(CLAIMS["claim"][1])
    change_lock_waits(each_pg_database, "500ms", "50ms")
    scene.claimer.take(scene.claim).result(PATIENCE)
    drive = scene.drive
    monkeypatch.setattr(drive.store, "_patience", 0.5)
    drive.call(drive.ops.pause_work("default", PauseKind.QUEUE, "mail"))

    with pytest.raises(StoreBusy):
        drive.call(drive.ops.settle_pauses())

    scene.claimer.take(scene.commit).result(PATIENCE)
    drive.call(drive.ops.settle_pauses())
