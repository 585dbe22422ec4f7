"""The lines of one attempt: made when they are logged, given out in pieces, bounded."""

from __future__ import annotations

import logging
import sys
import threading
from datetime import UTC, datetime

import pytest

from windlass.domain.run import Held
from windlass.domain.runlog import LONGEST_MESSAGE, MOST_BYTES, TAIL, LogWrite
from windlass.notebook import Notebook

NOW = datetime(2026, 11, 18, tzinfo=UTC)


class Desk:
    """Makes records and notebooks, and counts what is asked of the writer."""

    def __init__(self, limit: int = 10) -> None:
        self.asked = 0
        self.book = Notebook(Held("default", "r", 3), 2, limit, lambda: NOW, self._ask)

    def _ask(self, _: Notebook) -> None:
        self.asked += 1

    def log(self, text: str, *args: object, extra: dict[str, object] | None = None) -> None:
        """As the logging module does: the record is made, then it gets its extra."""
        error = sys.exc_info()
        record = logging.LogRecord(
            "shop", logging.INFO, "", 0, text, args, error if error[0] else None
        )
        self.book.add(record)
        record.__dict__.update(extra or {})


def taken(book: Notebook) -> list[str]:
    write = book.take()
    return [] if write is None else [line.message for line in write.lines]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_pieces_follow_each_other(desk: Desk) -> None:
    desk.log("one")
    desk.log("two %s", "three")
    write = desk.book.take()
    assert write is not None
    assert (write.first, write.attempt, write.held) == (0, 2, Held("default", "r", 3))
    assert [line.message for line in write.lines] == ["one", "two three"]
    assert desk.asked == 1
    assert desk.book.take() is None
    desk.log("four")
    later = desk.book.take()
    assert later is not None
    assert (later.first, desk.asked) == (2, 2)


def test_a_piece_that_was_not_written_comes_first_again(desk: Desk) -> None:
    desk.log("one")
    write = desk.book.take()
    assert write is not None
    desk.log("two")
    desk.book.again(write)
    again = desk.book.take()
    assert again is not None
    assert (again.first, [line.message for line in again.lines]) == (0, ["one", "two"])


def test_extra_is_kept_where_json_has_a_form_for_it(desk: Desk) -> None:
    desk.log("one", extra={"n": 1, "huge": 2**80, "odd": object, "run": "not its own"})
    desk.log("two", extra={"much": "x" * 5_000})
    desk.log("three")
    write = desk.book.take()
    assert write is not None
    first, second, third = (line.fields for line in write.lines)
    assert first == {"n": 1, "huge": str(2**80), "odd": "<class 'object'>"}
    assert (second, third) == ({"extra": "too large"}, {})


def test_a_line_of_another_thread_waits_for_its_extra_once(desk: Desk) -> None:
    made, go = threading.Event(), threading.Event()

    def work() -> None:
        record = logging.LogRecord("shop", logging.INFO, "", 0, "one", (), None)
        desk.book.add(record)
        made.set()
        go.wait(10)
        record.__dict__["n"] = 7

    thread = threading.Thread(target=work)
    thread.start()
    assert made.wait(10)
    assert desk.book.take() is None
    assert desk.asked == 2, "it asks to be taken again"
    go.set()
    thread.join()
    write = desk.book.take()
    assert write is not None
    assert write.lines[0].fields == {"n": 7}


def test_the_first_and_the_last_lines_are_kept() -> None:
    desk = Desk(limit=3)
    for n in range(3 + TAIL + 5):
        desk.log("line %d", n, extra={"n": n})
    assert taken(desk.book) == ["line 0", "line 1", "line 2"]
    desk.book.close()
    write = desk.book.take()
    assert write is not None
    assert write.first == 3
    assert write.lines[0].message == "… 5 lines are left out here"
    assert [line.fields["n"] for line in write.lines[1:]] == list(range(8, 8 + TAIL))
    desk.log("after the end")
    assert desk.book.take() is None


def test_bytes_are_bounded_too() -> None:
    desk = Desk(limit=1_000_000)
    for n in range(200):
        desk.log(f"{n}" + "é" * LONGEST_MESSAGE)
    desk.book.close()
    write = desk.book.take()
    assert write is not None
    head = [line for line in write.lines if line.message[0].isdigit()][: -TAIL or None]
    assert sum(len(line.message.encode()) for line in head) < MOST_BYTES
    assert max(len(line.message) for line in write.lines) == LONGEST_MESSAGE + 1


def test_odd_texts_and_arguments_make_lines_that_every_store_can_hold(desk: Desk) -> None:
    desk.log("nul \x00 and half a pair \ud83d")
    desk.log("%d apples", "no")
    try:
        raise KeyError("x\x00")
    except KeyError:
        desk.log("failed")
    write = desk.book.take()
    assert write is not None
    one, two, three = write.lines
    assert one.message == "nul \\x00 and half a pair \\ud83d"
    assert two.message == "%d apples (its arguments do not fit: TypeError)"
    assert three.exception is not None
    assert "KeyError: 'x\\x00'" in three.exception


def test_what_a_child_tells_is_passed_on(desk: Desk) -> None:
    child = Desk()
    child.log("one")
    write = child.book.take()
    assert isinstance(write, LogWrite)
    desk.book.relay(write)
    assert (desk.asked, taken(desk.book)) == (1, ["one"])
