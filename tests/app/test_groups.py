"""Enqueueing in groups when the store is away, when callers give up, and when inputs are large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from tests.fixtures.apps import PATIENCE, opened, within
from tests.fixtures.postgres import shorten_lock_waits
from windlass import (
    KeyConflict,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Windlass,
    WindlassError,
)
from windlass.store.interface import Call

MEGABYTE = 1_000_000
EVERYBODYS = [StoreUnavailable("Away."), StoreFull("No room."), SchemaMismatch(99, 1)]


@pytest.fixture
def note(app: Windlass) -> Any:
    """A job."""

    @app.job
    async def note(text: str) -> None:
        pass

    return note


class Gate:
    """Stands before the store: enqueues that are on their way wait here, and may be turned back."""

    def __init__(self, app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
        self._arun: Callable[[Call[Any]], Any] = app.store.arun
        self._open = asyncio.Event()
        self.trips = 0
        self.came = asyncio.Event()
        self.fails: Callable[[int], WindlassError | None] = lambda trip: None
        monkeypatch.setattr(app.store, "arun", self.arun)

    async def arun(self, call: Call[Any]) -> Any:
        if not call.name.startswith("enqueue"):
            return await self._arun(call)
        self.trips += 1
        trip = self.trips
        self.came.set()
        await self._open.wait()
        if (error := self.fails(trip)) is not None:
            raise error
        return await self._arun(call)

    def open(self) -> None:
        """Let them through, or back."""
        self._open.set()

    def close(self) -> None:
        """Let the next ones wait."""
        self._open.clear()
        self.came.clear()


@pytest.fixture
def gate(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(app, monkeypatch)


async def begun(*calls: Any) -> list[asyncio.Task[Any]]:
    """Tasks that have come as far as they can."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


async def ends(tasks: Sequence[asyncio.Task[Any]]) -> list[Any]:
    """What became of each."""
    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(*tasks, return_exceptions=True)


def stored(app: Windlass) -> set[str]:
    """The texts of the runs there are."""
    return {run.input["text"] for run in app.list(limit=1000)}


# -- trouble that is everybody's ----------------------------------------------------------------


@pytest.mark.parametrize("error", EVERYBODYS, ids=lambda error: error.code)
async def test_an_outage_is_told_to_a_whole_group_at_once(
    app: Windlass, note: Any, gate: Gate, error: StoreError
) -> None:
    """Each try has the store's whole patience: one for each caller would take them all day."""
    error.__cause__ = OSError("refused")
    gate.fails = lambda trip: error
    gate.open()
    errors = await ends(await begun(*(note.aenqueue(str(n)) for n in range(100))))

    # Two groups abreast; where there is no answer, then one of the members of each, alone.
    assert gate.trips <= 2 * app.store.writes_abreast
    assert {(type(e), str(e), e.__cause__) for e in errors} == {
        (type(error), str(error), error.__cause__)
    }
    assert len({id(e) for e in errors}) == 100  # what one caller does to its own is not the others'
    assert stored(app) == set()


async def test_an_outage_is_told_to_those_with_keys_as_well(
    app: Windlass, note: Any, gate: Gate
) -> None:
    """The first may have to wait for its key; that the second does too is not believed."""
    gate.fails = lambda trip: StoreUnavailable("Away.")
    gate.open()
    calls = [note.using(key=str(n)).aenqueue(str(n)) for n in range(30)]
    errors = await ends(await begun(*calls))

    assert {type(error) for error in errors} == {StoreUnavailable}
    assert (gate.trips, stored(app)) == (3, set())


async def test_a_group_too_large_for_the_way_goes_one_by_one(
    app: Windlass, note: Any, gate: Gate
) -> None:
    gate.fails = lambda trip: StoreUnavailable("No answer.") if trip == 1 else None
    gate.open()
    runs = await ends(await begun(*(note.aenqueue(str(n)) for n in range(10))))

    assert [run.input["text"] for run in runs] == [str(n) for n in range(10)]
    assert gate.trips == 11


async def test_a_key_that_is_held_is_the_matter_of_who_wants_it(
    app: Windlass, note: Any, gate: Gate
) -> None:
    """Whoever is in a group with it goes on without."""
    # The group, then the members without a key, then the one that waits for it, and one more.
    gate.fails = lambda trip: StoreUnavailable("No answer.") if trip in (1, 6) else None
    gate.open()
    calls = [note.aenqueue(str(n)) for n in range(4)]
    calls[1:1] = [note.using(key="k").aenqueue("held"), note.using(key="l").aenqueue("free")]
    results = await ends(await begun(*calls))

    kinds = [type(result).__name__ for result in results]
    assert kinds == ["Run", "StoreUnavailable", "Run", "Run", "Run", "Run"]
    assert stored(app) == {"0", "1", "2", "3", "free"}


async def test_a_key_in_an_open_transaction_holds_up_nobody_else(
    pg_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is in a group with it, or comes after it, goes on while it waits."""
    async with opened(pg_database) as app:
        monkeypatch.setattr(app.store, "_patience", 0.5)
        shorten_lock_waits(pg_database, "2s")

        @app.job
        async def note(text: str) -> None:
            pass

        with psycopg.connect(pg_database) as other:
            other.execute(
                "select windlass.enqueue('note', p_key => 'k', p_queue => 'q', p_priority => 0)"
            )
            held = await begun(*(note.using(key="k").aenqueue("held") for _ in range(3)))
            calls = [note.aenqueue(str(n)) for n in range(5)]
            calls.insert(2, note.using(key="free").aenqueue("free"))
            results = await ends(await begun(*calls))
            later = await note.using(key="later").aenqueue("later")
            assert not any(call.done() for call in held)
            refused = await ends(held)
            other.rollback()
        assert {type(result).__name__ for result in [*results, later]} == {"Run"}
        assert [type(result).__name__ for result in refused] == ["StoreBusy"] * 3
        assert stored(app) == {"later", "free"} | {str(n) for n in range(5)}


async def test_a_key_that_is_free_in_time_is_waited_for(pg_database: str) -> None:
    async with opened(pg_database) as app:

        @app.job
        async def note(text: str) -> None:
            pass

        with psycopg.connect(pg_database) as other:
            other.execute(
                "select windlass.enqueue('note', p_key => 'k', p_queue => 'q', p_priority => 0)"
            )
            held = await begun(note.using(key="k").aenqueue("held"))
            await note.aenqueue("free")
            await note.using(key="free").aenqueue("free")
            other.rollback()
        await ends(held)
        assert stored(app) == {"held", "free"}


async def test_an_outage_while_members_go_one_by_one_is_told_to_the_rest(
    app: Windlass, note: Any, gate: Gate
) -> None:
    known = {1: StoreError("Whose?"), 2: None, 3: KeyConflict("note", "k", "1")}
    gate.fails = lambda trip: known.get(trip, StoreUnavailable("Away."))
    gate.open()
    results = await ends(await begun(*(note.aenqueue(str(n)) for n in range(30))))

    kinds = [type(result).__name__ for result in results]
    assert kinds == ["Run", "KeyConflict"] + 28 * ["StoreUnavailable"]
    assert gate.trips == 4
    assert stored(app) == {"0"}


async def test_who_waited_for_the_whole_of_a_try_is_told_with_its_members(
    app: Windlass, note: Any, gate: Gate
) -> None:
    """A backlog that is too large for one group would otherwise be told by and by, and grow."""
    gate.fails = lambda trip: StoreFull("No room.") if trip == 1 else None
    many = [app.aenqueue_many([note.request(f"{n}")] * 400) for n in range(3)]
    first = await begun(*many)
    await within(gate.came)
    later = await begun(note.aenqueue("later"))
    gate.open()
    results = await ends(first + later)

    assert [type(result).__name__ for result in results] == 3 * ["StoreFull"] + ["Run"]
    assert (gate.trips, stored(app)) == (2, {"later"})


# -- callers who gave up ------------------------------------------------------------------------


async def test_who_gave_up_while_waiting_is_not_sent(app: Windlass, note: Any, gate: Gate) -> None:
    first = await begun(note.aenqueue("first"))
    await within(gate.came)
    waiting = await begun(*(note.aenqueue(str(n)) for n in range(36)))
    for task in waiting[::2]:
        task.cancel()
    gate.open()
    await ends(first + waiting)

    assert gate.trips == 2
    assert stored(app) == {"first"} | {str(n) for n in range(1, 36, 2)}


async def test_nothing_is_sent_where_all_gave_up(app: Windlass, note: Any, gate: Gate) -> None:
    first = await begun(note.aenqueue("first"))
    await within(gate.came)
    waiting = await begun(*(note.aenqueue(str(n)) for n in range(36)))
    for task in waiting:
        task.cancel()
    gate.open()
    await ends(first + waiting)

    assert (await note.aenqueue("last")).input == {"text": "last"}
    assert (gate.trips, stored(app)) == (2, {"first", "last"})


async def test_who_gives_up_while_members_go_one_by_one_is_not_sent(
    app: Windlass, note: Any, gate: Gate
) -> None:
    def refuses_the_group(trip: int) -> WindlassError | None:
        if trip > 1:
            return None
        gate.close()
        return StoreError("Whose?")

    gate.fails = refuses_the_group
    gate.open()
    tasks = await begun(*(note.aenqueue(str(n)) for n in range(30)))
    async with asyncio.timeout(PATIENCE):
        while gate.trips < 2:  # noqa: ASYNC110 - the first, alone
            await asyncio.sleep(0)
    for task in tasks[10:]:
        task.cancel()
    gate.open()
    await ends(tasks)

    assert (gate.trips, stored(app)) == (11, {str(n) for n in range(10)})


# -- large inputs -------------------------------------------------------------------------------


async def test_large_inputs_go_in_more_groups(app: Windlass, note: Any, gate: Gate) -> None:
    """Half a gigabyte in one call would be too slow for whoever is in it."""
    gate.open()
    texts = [f"{n:02}".ljust(MEGABYTE, ".") for n in range(12)]
    runs = await ends(await begun(*(note.aenqueue(text) for text in texts)))

    assert [run.input["text"] for run in runs] == texts
    assert gate.trips == 3
    assert stored(app) == {*texts}


async def test_one_call_with_large_inputs_is_not_split(
    app: Windlass, note: Any, gate: Gate
) -> None:
    gate.open()
    small, large = "small", [str(n) * MEGABYTE for n in range(6)]
    tasks = await begun(
        note.aenqueue(small), app.aenqueue_many([note.request(text) for text in large])
    )
    await ends(tasks)

    assert (gate.trips, stored(app)) == (2, {small, *large})
