"""No wake-up is lost: a run that begins to wait and a signal that is just sent, step by step.

The worker looks for the signal, and finds none; it gives its lease up and lets the run wait.
Somebody sends the signal, before, after or between. Two sessions take these steps by hand, in every
order. A step that waits for a lock lets the others go on. Whatever the order, the run must get its
signal.

Each mechanism that keeps this promise is also taken out, to see that the signal is lost without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import combinations
from typing import Any

import psycopg
import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, held_of, value_of
from tests.conformance.places import PostgresPlace, opened
from windlass.domain.run import Claimed
from windlass.domain.states import Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore
from windlass.store.queries import read_folder

PATIENCE = 30.0
GATE = 20_27  # an advisory lock
WAIT = StepWrite(path="paid", kind=StepKind.SIGNAL, state=StepState.WAITING, signal="paid")

LOOK = "select answer, state from windlass.record_steps(%s::json)"
PARK = "select busy from windlass.finish(%s::json)"
SEND = "select number from windlass.signal('default', %s, 'paid', '7')"
BLOCKED = "select cardinality(pg_blocking_pids(%s)) > 0"

# The sender stops where it has found the run's place, before it writes anything to it.
PAUSE = f"""
create function pause() returns trigger language plpgsql as $$
begin
  if current_setting('application_name') = 'sender' then
    perform pg_advisory_xact_lock({GATE});
  end if;
  return null;
end $$;
create trigger pause before update on windlass.leases for each statement execute function pause();
create trigger pause before update on windlass.timers for each statement execute function pause();
"""


class Session:
    """A connection whose steps are taken one after the other, each in a transaction that stays open
    until the next commit."""

    def __init__(self, url: str, name: str) -> None:
        self.conn = psycopg.connect(url, application_name=name)
        self._pool = ThreadPoolExecutor(1)
        self._look = psycopg.connect(url, autocommit=True)

    def take(self, step: Callable[[], Any]) -> Future[Any]:
        """Take a step; return when it is done, or waits for a lock or for the step before it."""
        taken = self._pool.submit(step)
        clock = Sources.system().clock
        deadline = clock.monotonic() + PATIENCE
        while not taken.done() and not self._is_blocked():
            assert clock.monotonic() < deadline, "neither done nor waiting"
        return taken

    def _is_blocked(self) -> bool:
        return self._look.execute(BLOCKED, (self.conn.info.backend_pid,)).fetchone() == (True,)

    def close(self) -> None:
        """End it."""
        self._pool.shutdown()
        self.conn.close()
        self._look.close()


class Scene:
    """A run that is running, its worker, and somebody who sends it a signal."""

    def __init__(self, drive: Driver, worker: Session, sender: Session) -> None:
        self.drive, self.worker, self.sender = drive, worker, sender
        self.run: Claimed = drive.start()
        self.looked: str | None = None  # how the step stood
        self.parked = False

    def look(self) -> None:
        """Look for the signal, in a transaction."""
        item = {"path": "paid", "kind": "signal", "state": "waiting", "signal": "paid"}
        try:
            found = self.worker.conn.execute(LOOK, (json.dumps([self._held() | item]),)).fetchone()
        except psycopg.errors.LockNotAvailable:  # it asks again later
            self.worker.conn.rollback()
            self.looked = None
            return
        self.worker.conn.commit()
        assert found is not None
        self.looked = found[1] if found[0] == "step" else None

    def park(self) -> None:
        """Let the run wait, unless it has its signal or the lease was locked."""
        if self.looked == "waiting":
            end = {"outcome": "waiting", "waits": ["paid"]}
            lost = self.worker.conn.execute(PARK, (json.dumps([self._held() | end]),)).fetchall()
            assert lost in ([], [(True,)]), "the lease is ours: it is locked, or given up"
            self.parked = lost == []

    def commit(self) -> None:
        """End what the worker has begun."""
        self.worker.conn.commit()

    def send(self) -> None:
        """Send the signal."""
        self.sender.conn.execute(SEND, (self.run.id,))

    def sent(self) -> None:
        """Let others see it."""
        self.sender.conn.commit()

    def go_on(self) -> None:
        """What a worker does that was told to send something again."""
        if self.looked is None:
            self.look()
        if not self.parked:
            self.park()
            self.commit()

    def has_lost_it(self) -> bool:
        """Whether the run waits for a signal that is there."""
        if self.looked == "done":
            return False
        return self.drive.get(self.run.ref).status is Status.WAITING

    def receive(self) -> object:
        """What the run gets in the end."""
        held = self.run if self.looked == "done" else self.drive.take(self.run.ref)
        (step,) = self.drive.call(self.drive.ops.record_steps(held_of(held), [WAIT])) or ()
        assert step.value is not None
        return value_of(step.value)

    def _held(self) -> dict[str, object]:
        return {"tenant": "default", "id": self.run.id, "token": self.run.token}


@pytest.fixture
def scene(each_pg_database: str) -> Iterator[Callable[[], Scene]]:
    """Begins scenes, in a database whose functions a test may change."""
    sources = Sources.system()
    with ExitStack() as stack:
        store = stack.enter_context(PostgresStore(each_pg_database, sources=sources))
        tables = stack.enter_context(opened(PostgresPlace(each_pg_database)))
        drive = Driver(store, store.run, sources, tables)

        def begun() -> Scene:
            sessions = [Session(each_pg_database, name) for name in ("worker", "sender")]
            for session in sessions:
                stack.callback(session.close)
            return Scene(drive, *sessions)

        yield begun


def orders() -> Sequence[str]:
    """Every order of the worker's steps (look, park, commit) and the sender's (send, commit)."""
    found = []
    for places in combinations(range(5), 2):
        worker, sender = iter("LPC"), iter("Ss")
        found.append("".join(next(sender if n in places else worker) for n in range(5)))
    return found


def play(scene: Scene, order: str) -> None:
    """Take the steps in an order, as far as locks allow it."""
    steps = {
        "L": (scene.worker, scene.look), "P": (scene.worker, scene.park),
        "C": (scene.worker, scene.commit), "S": (scene.sender, scene.send),
        "s": (scene.sender, scene.sent),
    }  # fmt: skip
    taken = [session.take(step) for session, step in (steps[letter] for letter in order)]
    for future in taken:
        future.result(PATIENCE)
    scene.go_on()


def play_around_a_pause(scene: Scene, url: str, *, look_first: bool) -> None:
    """The sender has found the run's lease, and stops there while the worker does the rest."""
    with psycopg.connect(url) as gate:
        if look_first:
            scene.worker.take(scene.look).result(PATIENCE)
        gate.execute("select pg_advisory_lock(%s)", (GATE,))
        sending = scene.sender.take(scene.send)
        assert not sending.done()
        steps = [scene.look] if not look_first else []
        for step in (*steps, scene.park, scene.commit):
            scene.worker.take(step).result(PATIENCE)
        gate.execute("select pg_advisory_unlock(%s)", (GATE,))
        sending.result(PATIENCE)
    scene.sender.take(scene.sent).result(PATIENCE)
    scene.go_on()


def change_function(url: str, file: str, old: str, new: str) -> None:
    """Make a function again, with something in it replaced."""
    (text,) = (text for name, text in read_folder("postgres", "functions") if name == file)
    assert old in text
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(text.replace(old, new).encode())


def without_a_second_look(url: str) -> None:
    """Whoever parks a run does not look whether the signal has come since."""
    change_function(
        url,
        "032_make_moves.sql",
        "windlass.is_answered(m.tenant, m.id, m.waits)",
        "false",
    )


def without_a_lock(url: str) -> None:
    """Whoever sends a signal does not keep the run where he has found it."""
    change_function(url, "544_hold_live.sql", " for update", "")


def test_there_are_ten_orders() -> None:
    assert len(set(orders())) == 10


@pytest.mark.parametrize("order", orders())
def test_no_order_loses_the_signal(scene: Callable[[], Scene], order: str) -> None:
    begun = scene()

    play(begun, order)

    assert not begun.has_lost_it()
    assert violations(History.read(begun.drive.tables)) == []
    assert begun.receive() == 7


@pytest.mark.parametrize("look_first", [True, False])
def test_a_sender_who_is_slow_loses_nothing(
    scene: Callable[[], Scene], each_pg_database: str, look_first: bool
) -> None:
    begun = scene()
    with psycopg.connect(each_pg_database, autocommit=True) as conn:
        conn.execute(PAUSE.encode())

    play_around_a_pause(begun, each_pg_database, look_first=look_first)

    assert not begun.has_lost_it()
    assert violations(History.read(begun.drive.tables)) == []
    assert begun.receive() == 7


def test_a_signal_between_look_and_end_is_lost_without_the_second_look(
    scene: Callable[[], Scene], each_pg_database: str
) -> None:
    without_a_second_look(each_pg_database)
    lost = []
    for order in orders():
        begun = scene()
        play(begun, order)
        if begun.has_lost_it():
            lost.append(order)

    assert "LSsPC" in lost
    assert any("I20" in problem for problem in violations(History.read(begun.drive.tables)))


@pytest.mark.parametrize("look_first", [True, False])
def test_a_slow_sender_who_has_no_lock_is_overtaken(
    scene: Callable[[], Scene], each_pg_database: str, look_first: bool
) -> None:
    """The run has gone on meanwhile: the number of the signal is that of another event."""
    without_a_lock(each_pg_database)
    begun = scene()
    with psycopg.connect(each_pg_database, autocommit=True) as conn:
        conn.execute(PAUSE.encode())

    with pytest.raises(psycopg.errors.UniqueViolation):
        play_around_a_pause(begun, each_pg_database, look_first=look_first)
