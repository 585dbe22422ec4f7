"""Logs of runs: pieces are written under the token of their attempt, each of them once."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg
import pytest

from tests.conformance.kit import ABSENT, Driver, held_of, logged, requires
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Held, RunRef
from windlass.domain.runlog import LogChunk, LogLine, LogPlace, LogWrite, lines_of


def piece(drive: Driver, held: Held, first: int, *messages: str, attempt: int = 1) -> LogWrite:
    lines = [
        LogLine(at=drive.now, level="INFO", logger="shop", message=text, fields={"n": 1})
        for text in messages
    ]
    return logged(held, *lines, first=first, attempt=attempt)


def record(drive: Driver, *writes: LogWrite) -> tuple[Held, ...]:
    reply = drive.call(drive.ops.record_logs(list(writes)))
    assert not reply.busy
    return tuple(reply.lost)


def chunks(
    drive: Driver, run: RunRef | Claimed, after: LogPlace | None = None, limit: int = 100
) -> list[LogChunk]:
    return list(drive.call(drive.ops.list_logs(run.tenant, run.id, after, limit)))


def messages(drive: Driver, run: RunRef | Claimed) -> list[str]:
    return [line.message for chunk in chunks(drive, run) for line in lines_of(chunk)]


def test_lines_are_read_as_they_were_written(drive: Driver) -> None:
    run = drive.start()
    held = held_of(run)
    assert record(drive, piece(drive, held, 0, "one ✓", "two\nlines")) == ()
    assert record(drive, piece(drive, held, 2, "three")) == ()
    lines = [line for chunk in chunks(drive, run) for line in lines_of(chunk)]
    assert [(line.number, line.attempt, line.message) for line in lines] == [
        (0, 1, "one ✓"),
        (1, 1, "two\nlines"),
        (2, 1, "three"),
    ]
    assert (lines[0].at, lines[0].level, lines[0].logger) == (drive.now, "INFO", "shop")
    assert lines[0].fields == {"n": 1}
    assert {line.token for line in lines} == {held.token}


def test_a_piece_that_is_sent_again_is_there_once(drive: Driver) -> None:
    run = drive.start()
    write = piece(drive, held_of(run), 0, "one")
    assert record(drive, write) == ()
    assert record(drive, write, write) == ()
    assert messages(drive, run) == ["one"]


def test_pieces_come_in_pages(drive: Driver) -> None:
    run = drive.start()
    held = held_of(run)
    record(drive, *(piece(drive, held, n, f"line {n}") for n in (3, 1, 0, 2)))
    first = chunks(drive, run, None, 3)
    assert [chunk.first for chunk in first] == [0, 1, 2]
    rest = chunks(drive, run, LogPlace(held.token, 2), 3)
    assert [chunk.first for chunk in rest] == [3]
    assert chunks(drive, run, LogPlace(held.token, 3)) == []


def test_the_last_lines_may_come_after_the_end_that_they_belong_to(drive: Driver) -> None:
    run = drive.start()
    drive.finish(run, Outcome.SUCCEEDED)
    assert record(drive, piece(drive, held_of(run), 0, "last words")) == ()
    assert messages(drive, run) == ["last words"]


def test_whoever_lost_the_lease_adds_nothing(drive: Driver) -> None:
    first = drive.start()
    stale = held_of(first)
    drive.finish(first, Outcome.RELEASED)
    assert record(drive, piece(drive, stale, 0, "given back")) == (stale,)
    again = drive.take(RunRef(first.tenant, first.id))
    fresh = held_of(again)
    lost = record(drive, piece(drive, stale, 0, "stale"), piece(drive, fresh, 0, "fresh"))
    assert lost == (stale,)
    assert messages(drive, first) == ["fresh"]
    drive.finish(again, Outcome.SUCCEEDED)
    assert record(drive, piece(drive, stale, 0, "stale")) == (stale,)


@pytest.mark.parametrize("named", [{"tenant": "other"}, {"id": ABSENT}, {"id": "nonsense"}])
def test_nobodys_lease_writes_nothing(drive: Driver, named: dict[str, str]) -> None:
    run = drive.start()
    write = msgspec.structs.replace(piece(drive, held_of(run), 0, "x"), **named)
    assert record(drive, write) == (write.held,)
    assert drive.rows("run_logs") == []


def test_nothing_to_write_or_to_read_is_fine(drive: Driver) -> None:
    assert record(drive) == ()
    assert chunks(drive, RunRef("default", ABSENT)) == []


@requires("server")
def test_a_locked_lease_is_busy_and_delays_no_other(drive: Driver, place: Any) -> None:
    one, two = drive.start(), drive.start()
    with psycopg.connect(place.url) as other:
        other.execute("select from windlass.leases where id = %s for update", (one.id,))
        writes = [piece(drive, held_of(run), 0, "x") for run in (one, two)]
        reply = drive.call(drive.ops.record_logs(writes))
        assert (tuple(reply.busy), tuple(reply.lost)) == ((held_of(one),), ())
    assert (messages(drive, one), messages(drive, two)) == ([], ["x"])
