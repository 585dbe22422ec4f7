"""`windlass demo`: the tour ends well, on both stores, into a pipe and on a terminal."""

import io
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.kit import PATIENCE, command, ok, run, started
from windlass import Windlass
from windlass.cli.demo.acts import acts
from windlass.cli.demo.screen import Burst, Watering, burst_row, glyphs
from windlass.cli.demo.summary import all_good, summary
from windlass.cli.output import fit, width_of


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tour of one act."""
    monkeypatch.setattr("windlass.cli.demo.tour.acts", lambda: acts()[:1])
    monkeypatch.setattr("windlass.cli.demo.tour.SIZE", 100)
    monkeypatch.setattr("windlass.cli.demo.tour._WATERINGS", 1)


def test_every_kind_of_run_ends_as_expected(
    pg_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.cli.demo.tour.SIZE", 2_000)

    shown = ok("demo", "--url", pg_database)

    for act in acts():
        assert f"✓ {act.title} " in shown
    assert "✓ by a schedule " in shown
    told = re.search(r"succeeded +([0-9,]+) +([0-9,]+)\n +failed +5 +5\n +canceled +1 +1\n", shown)
    assert told is not None
    assert told[1] == told[2] >= "2,052"
    assert re.search(r"burst: 2,000 runs in [0-9.]+ s, [0-9,]+ runs a second", shown)
    assert "every outcome as expected\n" in shown
    assert "\x1b" not in shown
    commands = re.findall(r"^  windlass (.*)$", shown, re.MULTILINE)
    assert [line.split()[0] for line in commands] == ["runs", "show", "dead", "doctor"]
    for line in commands[:3]:
        assert "demo." in ok(*shlex.split(line))
    with opened(pg_database) as left:
        assert left.schedules.list() == []
        assert left.workers() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_it_finds_nothing_left(folder: Path, number: int) -> None:
    with started(command("demo"), folder, {"TMPDIR": str(folder)}) as tour:
        pids = re.findall(r"\d+", tour.wait_for("workers: processes").partition("processes")[2])
        tour.wait_for("instant")
        tour.send(number)
        code = tour.ends()

    assert code == (130 if number == signal.SIGINT else 1)
    assert "Traceback" not in tour.output
    assert len(pids) == 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert list(folder.iterdir()) == []


@contextmanager
def opened(url: str) -> Iterator[Windlass]:
    """An application to look with."""
    app = Windlass(url)
    yield app
    app.close()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("options", "left"), [(["--once"], 0), ([], 1)])
def test_once_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], left: int
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))

    shown = ok("demo", *options)

    assert len(list(folder.iterdir())) == left
    assert ("Have a look" in shown) == bool(left)


def test_on_a_terminal_a_table_is_drawn_over_itself(folder: Path) -> None:
    master, slave = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    environ.pop("NO_COLOR", None)
    with subprocess.Popen(
        command("demo", "--once"), stdin=slave, stdout=slave, stderr=slave, env=environ
    ) as process:
        os.close(slave)
        shown = read_all(master)
        assert process.wait(PATIENCE) == 0
    os.close(master)

    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    height = len(acts()) + 4
    assert height < 24, "what is drawn over must be on the screen"
    assert shown.index("\x1b[?25l") < shown.index(f"\x1b[{height}F") < shown.index("\x1b[?25h")
    assert "\x1b[32m✓" in shown
    assert "is dead; its lease runs out" in shown
    assert re.search(r"burst: 10,000 runs in [0-9.]+ s, [0-9,]+ runs a second", shown)
    assert "every outcome as expected" in shown
    rows = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).splitlines()
    assert not [row for row in rows if width_of(row) > 80 or row.endswith("…")]


def read_all(master: int) -> str:
    """Read a terminal until nobody has it open."""
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


def test_what_is_not_as_expected_is_named() -> None:
    played, watering, burst = acts()[:2], Watering(3, 3), Burst(10, 10, 1.0, over=True)

    told = "\n".join(summary(played, watering, burst))

    assert "not as expected: instant, slow, with progress" in told
    assert not all_good(played, watering, burst)
    assert "not as expected: the schedule" in "\n".join(summary([], Watering(3, 2), burst))
    assert "not as expected: the burst" in "\n".join(summary([], watering, Burst(10, 9, 1.0)))
    assert all_good([], watering, burst)


def test_a_tour_that_went_wrong_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.cli.demo.tour.run_tour", lambda *_, **__: False)

    assert run("demo", "--once").exit_code == 1


def test_signs_of_a_poor_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    row = burst_row(Burst(1000, 500), glyphs(), "|")

    assert row.isascii()
    assert "########-------- 500, 0/s" in row


@pytest.mark.parametrize("width", range(1, 20))
def test_coloured_lines_are_cut_to_fit(width: int) -> None:
    cut = fit("\x1b[31mred\x1b[0m and 日本語 too", width)

    assert width_of(cut) <= width
    assert "\x1b" not in cut or cut.endswith(("\x1b[0m", "too"))
