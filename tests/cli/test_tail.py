"""`windlass tail`: what happens, a line for each event."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.kit import command, fails, make_app, ok, started, work
from tests.cli.terminal import on_terminal
from windlass import Run, Windlass


@pytest.fixture
def store(folder: Path) -> str:
    """The URL of a store in which a run has failed, and one has not."""
    url = f"sqlite:///{folder}/windlass.db"
    app: Windlass = make_app(url)
    app.enqueue("greet")
    app.enqueue("break_down", {"part": "wheel"})
    work(app)
    app.close()
    return url


def _run(url: str) -> Run:
    (run,) = Windlass(url).list(job="break_down")
    return run


def test_a_pipe_gets_whole_lines(store: str) -> None:
    run = _run(store)
    printed = ok("tail", "--since", "1h", "--no-follow", "--run", run.id[:13], "--url", store)
    lines = [line.split(maxsplit=2) for line in printed.splitlines()]
    assert [line[1] for line in lines] == [
        "run.enqueued", "run.started", "run.retrying", "run.queued", "run.started", "run.failed",
    ]  # fmt: skip
    assert lines[2][2].startswith("ValueError: wheel broke\\x1b[31m, took ")
    assert ", attempt 2, took " in lines[-1][2]
    everything = ok("tail", "--since", "start", "--no-follow", "--types", "run.failed")
    assert everything.split()[1:4] == ["run.failed", "break_down", run.id]


def test_json_is_a_cloudevent_on_each_line(store: str) -> None:
    asked = ("tail", "--since", "start", "--no-follow", "--json", "--url", store)
    events = [json.loads(line) for line in ok(*asked, "--job", "greet").splitlines()]
    assert [event["type"] for event in events] == ["run.enqueued", "run.started", "run.succeeded"]
    assert {event["specversion"] for event in events} == {"1.0"}
    later = ok(*asked[:1], *asked[3:], "--since", events[0]["id"], "--job", "greet").splitlines()
    assert [json.loads(line) for line in later] == events[1:]
    failed = ok(*asked, "--types", "run.failed,run.retrying", "--types", "run.crashed")
    assert [json.loads(line)["type"] for line in failed.splitlines()] == [
        "run.retrying",
        "run.failed",
    ]


def test_what_cannot_be_asked_for_is_named_by_its_option(store: str) -> None:
    assert "'--types'" in fails(2, "tail", "--types", "run.faild", "--url", store)
    assert "'--since'" in fails(2, "tail", "--since", "gestern", "--url", store)
    assert "no run" in fails(3, "tail", "--run", "ffffffff", "--url", store)


def test_lines_fit_a_terminal_and_ctrl_c_ends_it(folder: Path, store: str) -> None:
    with on_terminal(folder, "tail", "--since", "start") as terminal:
        terminal.wait_for("run.failed")
        app = make_app(store)
        app.enqueue("greet")
        app.close()
        terminal.wait_until_it_reads()
        terminal.press("\x03")
        assert terminal.ends() == 130
    lines = [line for line in terminal.lines if "run." in line]
    assert all(len(line) <= 80 for line in lines)
    assert any("ValueError: wheel" in line for line in lines)
    assert "Traceback" not in terminal.text


def test_a_pipe_is_told_while_it_happens_and_a_signal_ends_it(folder: Path, store: str) -> None:
    with started(command("tail", "--since", "start", "--url", store), folder) as tail:
        tail.wait_for("run.failed")
        app = make_app(store)
        run = app.enqueue("greet")
        tail.wait_for(run.id)
        app.close()
        tail.send(signal.SIGINT)
        assert tail.ends() == 130
