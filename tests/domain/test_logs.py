"""Logs: one event is one line, whatever is in it."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import logs
from windlass.logs import (
    ConsoleFormatter,
    JsonFormatter,
    RunLog,
    SteadyLog,
    configure,
    escape,
    problems_shown,
    steady_log,
)

INJECTION = "a\r\n2030 INFO fake\x1b[2J\x85\u2028\u2029\x00\x9b1m\u202e\ud800b"


@pytest.fixture
def lines() -> Iterator[Callable[[logging.Formatter], tuple[logging.Logger, io.StringIO]]]:
    """Give a logger that writes by a formatter to memory."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("windlass.engine")
    level = logger.level

    def start(formatter: logging.Formatter) -> tuple[logging.Logger, io.StringIO]:
        handler.setFormatter(formatter)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False  # pytest would keep the hostile text, and xdist cannot send it
        return logger, stream

    yield start
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = True


def test_json_event_has_all_fields(lines: Any) -> None:
    logger, stream = lines(JsonFormatter())
    log = RunLog(logger, run="r1", job="send", tenant="acme", attempt=2, worker="w1", trace="t1")
    log.warning("run %s", "failed", extra={"duration_ms": 12.5, "note": "x"})
    event = json.loads(stream.getvalue())
    moment = event.pop("timestamp")
    assert datetime.fromisoformat(moment).tzinfo is not None
    assert moment.endswith("Z")
    assert event == {
        "level": "WARNING",
        "message": "run failed",
        "logger": "windlass.engine",
        "worker": "w1",
        "run": "r1",
        "job": "send",
        "tenant": "acme",
        "attempt": 2,
        "trace": "t1",
        "duration_ms": 12.5,
        "note": "x",
    }


def test_json_event_leaves_absent_fields_out(lines: Any) -> None:
    logger, stream = lines(JsonFormatter())
    logger.info("started")
    assert set(json.loads(stream.getvalue())) == {"timestamp", "level", "message", "logger"}


@pytest.mark.parametrize("formatter", [JsonFormatter(), ConsoleFormatter()])
def test_hostile_text_stays_on_one_line(lines: Any, formatter: logging.Formatter) -> None:
    logger, stream = lines(formatter)
    extra = {"job": INJECTION, "run": INJECTION, INJECTION: INJECTION}
    logger.error(INJECTION, extra=extra)
    text = stream.getvalue()
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    assert text[:-1].isprintable()
    text.encode("utf-8")


def test_json_keeps_hostile_text_readable(lines: Any) -> None:
    logger, stream = lines(JsonFormatter())
    logger.info("%s", INJECTION)
    assert stream.getvalue().isascii()
    assert json.loads(stream.getvalue())["message"] == INJECTION


@given(st.text(st.characters(exclude_categories=[])))
def test_escaped_text_is_one_line_that_any_stream_takes(text: str) -> None:
    escaped = escape(text)
    assert len(f"{escaped}.".splitlines()) == 1
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in escaped)
    escaped.encode("utf-8")


def test_escape_leaves_ordinary_text_alone() -> None:
    assert escape("Größe 10 € 😀 \\n 'x'") == "Größe 10 € 😀 \\n 'x'"
    assert escape("a\nb\x1b[0m\u2028") == "a\\nb\\x1b[0m\\u2028"


def test_console_event_is_for_people(lines: Any) -> None:
    logger, stream = lines(ConsoleFormatter())
    logger.info("done", extra={"run": "r1", "job": "my job", "duration_ms": 5, "q": 'say "x"'})
    when, rest = stream.getvalue().split(" ", 1)
    assert when.endswith("Z")
    assert rest == 'INFO     done job="my job" duration_ms=5 q="say \\"x\\"" run=r1\n'


def test_console_traceback_follows_behind_a_bar(lines: Any) -> None:
    logger, stream = lines(ConsoleFormatter())
    try:
        raise ValueError("x\n2030-01-01 INFO fake\x1b[2J")
    except ValueError:
        logger.exception("failed", stack_info=True)
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("failed")
    assert len(rest) > 4
    assert all(line.startswith("  | ") for line in rest)
    assert any(line == "  | 2030-01-01 INFO fake\\x1b[2J" for line in rest)
    assert any("Stack (most recent call last)" in line for line in rest)


def test_json_traceback_is_inside(lines: Any) -> None:
    logger, stream = lines(JsonFormatter())
    try:
        raise ValueError("boom\nline")
    except ValueError:
        logger.exception("failed")
    assert len(stream.getvalue().splitlines()) == 1
    assert json.loads(stream.getvalue())["exception"].endswith("ValueError: boom\nline")


def test_json_is_valid_for_odd_values(lines: Any) -> None:
    logger, stream = lines(JsonFormatter())
    extra = {"duration_ms": float("nan"), "a": {1}, "b": None, "c": True, "d": 2**70}
    logger.info("x", extra=extra)
    event = json.loads(stream.getvalue(), parse_constant=pytest.fail)
    assert (event["duration_ms"], event["a"], event["c"]) == ("nan", "{1}", True)


def test_run_log_cannot_be_impersonated(lines: Any) -> None:
    logger, stream = lines(JsonFormatter())
    RunLog(logger, run="r1", job="send", attempt=1).info("x", extra={"run": "r2", "trace": "t"})
    event = json.loads(stream.getvalue())
    assert (event["run"], event["tenant"], event["trace"]) == ("r1", "default", "t")
    assert "worker" not in event


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Deaf(logging.Filter):
    """Stands no event."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise ZeroDivisionError("a filter's")


def test_steady_log_outlives_who_listens(capsys: pytest.CaptureFixture[str]) -> None:
    logger, deaf = logging.getLogger("windlass.tests.steady"), Deaf()
    logger.addFilter(deaf)
    log = steady_log(logger.name)
    log.error("one %s", "two", extra={"run": "a"})
    log.handle(logging.makeLogRecord({"name": logger.name, "msg": "three", "levelno": 40}))
    told = capsys.readouterr().err
    logger.removeFilter(deaf)
    assert told.count("ZeroDivisionError: a filter's") == 2
    assert "Message: 'one %s'" in told
    assert "Message: 'three'" in told


def test_steady_log_says_what_any_would(caplog: pytest.LogCaptureFixture) -> None:
    log = steady_log("windlass.tests.steady")
    log.warning("one", extra={"run": "a"})
    SteadyLog(
        RunLog(logging.getLogger("windlass.tests.steady"), run="b", job="j", attempt=1)
    ).error("two", extra={"size": 3})
    log.info("too low")
    one, two = caplog.records
    assert (one.getMessage(), one.levelname, one.funcName) == (
        "one", "WARNING", "test_steady_log_says_what_any_would",
    )  # fmt: skip
    assert one.__dict__["run"] == "a"
    assert (two.name, two.funcName, two.filename) == (one.name, one.funcName, one.filename)
    assert (two.__dict__["run"], two.__dict__["size"]) == ("b", 3)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """Give the root logger and put everything back."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize(
    ("stream", "environ", "colored"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_only_where_wanted(
    root: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    stream: io.StringIO,
    environ: dict[str, str],
    colored: bool,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    configure("console", "INFO", stream=stream)
    logging.getLogger("windlass.test").error("\x1b[31mred")
    assert ("\x1b[31mERROR" in stream.getvalue()) is colored
    assert "\\x1b[31mred" in stream.getvalue()


def test_configure_replaces_only_its_own_handler(root: logging.Logger) -> None:
    foreign = logging.NullHandler()
    root.addHandler(foreign)
    before = len(root.handlers)
    first, second = io.StringIO(), io.StringIO()
    configure("console", "INFO", stream=first)
    configure("json", "WARNING", stream=second)
    logging.getLogger("windlass.test").info("quiet")
    logging.getLogger("somebody.else").warning("loud")
    assert foreign in root.handlers
    assert len(root.handlers) == before + 1
    assert first.getvalue() == ""
    assert json.loads(second.getvalue())["logger"] == "somebody.else"


def test_the_library_itself_is_silent() -> None:
    handlers = logging.getLogger(logs.LOGGER).handlers
    assert [type(handler) for handler in handlers] == [logging.NullHandler]


def test_console_leaves_out_what_is_always_so() -> None:
    run = "01a1e647-1afb-783e-93ce-0aa804a21511"
    given = {"msg": "m", "levelname": "INFO", "run": run, "trace": run.replace("-", "")}
    line = ConsoleFormatter().format(logging.makeLogRecord(given | {"tenant": "default"}))
    assert line.endswith(f"INFO     m run={run}")
    line = ConsoleFormatter().format(logging.makeLogRecord(given | {"tenant": "a", "trace": "t"}))
    assert line.endswith(f"INFO     m tenant=a trace=t run={run}")


def test_counts_are_for_programs() -> None:
    given = {"msg": "3 runs", "levelname": "INFO", logs.COUNTS: {"runs": 3, "jobs": {"é": 3}}}
    record = logging.makeLogRecord(given)
    assert ConsoleFormatter().format(record).endswith("INFO     3 runs")
    event = json.loads(JsonFormatter().format(record))
    assert event["counts"] == {"runs": 3, "jobs": {"é": 3}}
    assert logs.COUNTS not in event


@contextmanager
def unconfigured() -> Iterator[None]:
    """The root logger as in a program that never configured it, without pytest's handlers."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_problems_are_shown_where_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("windlass.run")
    with unconfigured():
        log.warning("before")
        with problems_shown(), problems_shown():
            log.info("went well")
            log.warning("retried", extra={"run": "r1"})
        log.warning("after")

    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.endswith("WARNING  retried run=r1\n")


@pytest.mark.parametrize("place", ["", "windlass", "windlass.run"])
def test_problems_are_left_to_whoever_listens(
    capsys: pytest.CaptureFixture[str], place: str
) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    with unconfigured(), problems_shown():
        logging.getLogger(place).addHandler(handler)  # also to one that comes later
        try:
            logging.getLogger("windlass.run").warning("retried")
        finally:
            logging.getLogger(place).removeHandler(handler)
        logging.getLogger("windlass.run").warning("again")

    assert heard.getvalue() == "retried\n"
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.endswith("WARNING  again\n")
