"""Tables, ages and colours, and what errors are told as."""

import logging
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from windlass import errors, logs
from windlass.cli import console, output
from windlass.cli.failures import exit_code, sentence
from windlass.domain.event import EventType
from windlass.domain.run import Event

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "just now"),
        (-0.9, "just now"),
        (1, "1 s ago"),
        (12.9, "12 s ago"),
        (59.9, "59 s ago"),
        (60, "1 m ago"),
        (7199, "1 h ago"),
        (86400 * 400, "400 d ago"),
        (86400 * 4000, "4,000 d ago"),
        (-90, "in 1 m"),
    ],
)
def test_ages(seconds: float, shown: str) -> None:
    assert output.ago(NOW - timedelta(seconds=seconds), NOW) == shown


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301te\u0301", 3, "e\u0301te\u0301"),
        ("any", 0, ""),
        ("any", -5, ""),
    ],
)
def test_cut_counts_columns(text: str, width: int, shown: str) -> None:
    assert output.cut(text, width) == shown
    assert output.width_of(shown) <= max(width, 0)


def test_a_table_is_aligned_whatever_the_script() -> None:
    lines = output.table(("NAME", ">N", "NOTE"), [("日本", "7", "a"), ("ab", "1,000", "")])

    assert lines == ["NAME      N  NOTE", "日本      7  a", "ab    1,000"]


def test_numbers_in_the_last_column_are_aligned_too() -> None:
    lines = output.table(("NAME", ">RUNS"), [("a", "7"), ("b", ""), ("c", "12,000")])

    assert lines == ["NAME    RUNS", "a          7", "b", "c     12,000"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 20 columns."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_lines_are_cut_and_coloured() -> None:
    title, line = output.table(("A", "NOTE"), [(output.status_text("failed"), "x" * 30)])

    assert title == "\x1b[1mA\x1b[0m       \x1b[1mNOTE\x1b[0m"
    assert line == f"\x1b[31mfailed\x1b[0m  {'x' * 11}…"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_declined(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)

    assert output.status_text("failed") == "failed"


def test_into_a_pipe_lines_go_whole_and_plain() -> None:
    assert output.table(("A", "NOTE"), [("b", "x" * 300)])[1] == "b  " + "x" * 300
    assert output.status_text("failed") == "failed"


RUN = "01a1e10b-f770-7fd2-92f1-1ed5f62d63b8"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("Wrong."), 2),
        (errors.UnknownJob("x"), 2),
        (errors.BadOption("x", "no"), 2),
        (click.UsageError("Wrong."), 2),
        (click.BadParameter("Wrong."), 2),
        (errors.RunNotFound(RUN), 3),
        (errors.NotFound("There is none."), 3),
        (errors.IllegalTransition(RUN, "queued", "retry"), 4),
        (errors.KeyConflict("job", "key", RUN), 4),
        (errors.StoreUnavailable("It is down."), 5),
        (errors.StoreFull("It is full."), 5),
        (errors.SchemaMismatch(None, 1), 5),
        (errors.SchemaMismatch(2, 1), 5),
        (errors.StoreError("It is odd."), 5),
        (errors.RunFailed(RUN, "failed", "fatal"), 1),
        (errors.ResultTimeout(RUN, 1.0), 1),
        (errors.WindlassError("Anything."), 1),
        (click.ClickException("Anything."), 1),
        (click.Abort(), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_has_its_exit_code_and_is_one_sentence(error: Exception, code: int) -> None:
    assert exit_code(error) == code
    if not isinstance(error, click.Abort):
        assert sentence(error).endswith((".", "?"))
        assert "\n" not in sentence(error)


def test_an_interruption_has_the_code_that_shells_give_it() -> None:
    aborted = click.Abort()
    aborted.__cause__ = KeyboardInterrupt()

    assert exit_code(aborted) == 130


def test_an_error_of_several_lines_is_told_on_one() -> None:
    assert sentence(errors.StoreError("one\n  two")) == "one two."


@pytest.mark.parametrize(
    ("kind", "data", "shown"),
    [
        ("run.waiting", {"for": ["paid", "a\nb"]}, "for paid, a b"),
        (
            "run.sleeping",
            {"for": ["a month"], "until": "2030-01-31T13:00:00.5+01:00"},
            "in a month, until 2030-01-31 12:00:00Z",
        ),
        ("run.sleeping", {"until": "some day"}, "until some day"),
        ("run.signaled", {"name": "paid", "number": 4}, "paid"),
        ("step.succeeded", {"step": "order/charge"}, "order/charge"),
        (
            "step.retrying",
            {"step": "charge", "failures": 2, "delay": 90},
            "charge, failures 2, delay 1 m 30 s",
        ),
        ("run.retrying", {"delay": 2.5}, "delay 2.5 s"),
        ("run.changed", {"tags": {"from": ["a"], "to": []}}, 'tags ["a"] → []'),
        ("run.of_a_newer_release", {"x": [1]}, "x [1]"),
        ("run.waiting", None, ""),
    ],
)
def test_events_in_a_few_words(kind: str, data: dict[str, Any] | None, shown: str) -> None:
    event = Event(seq=1, type=EventType(kind), at=NOW, attempt=1, data=data)
    assert output.event_text(event) == shown


@pytest.mark.parametrize(
    ("said", "color"), [("waits for paid", "bright_blue"), ("sleeps until 2030", "blue")]
)
def test_dev_colours_runs_that_gave_up_their_seats(
    monkeypatch: pytest.MonkeyPatch, said: str, color: str
) -> None:
    monkeypatch.setattr(output, "colorful", lambda: True)
    line = console._run_line(said, {"job": "order", "duration_ms": 7.0, "attempt": 1})
    assert line == f"order  {click.style(said, fg=color)}  7 ms"


def test_dev_shows_runs_that_were_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """They are no one job's."""
    app: Any = None
    root = logging.getLogger()
    kept = root.level
    console.Console(app, "INFO")
    try:
        extra = {"worker": "w", logs.COUNTS: {"runs": 3}}
        logging.getLogger("windlass.run").info("3 runs succeeded in 1 s: a 3", extra=extra)
    finally:
        root.removeHandler(root.handlers[-1])
        root.setLevel(kept)
    assert capsys.readouterr().out.endswith("3 runs succeeded in 1 s: a 3\n")
