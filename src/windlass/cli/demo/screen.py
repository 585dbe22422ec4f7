"""What the demo shows: a table that is drawn anew on terminals, lines elsewhere."""

import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import click

from windlass.cli.demo.acts import DemoAct, process_of
from windlass.cli.output import faint, fit, heading, paint, status_text, width_of
from windlass.client import Run
from windlass.domain.states import Status

BAR = 16
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TITLE = 25
_STATUS = 10
_TRIES = 3
_INDENT = "  "
_HEAD = 3  # lines above the table
_AROUND = 4  # its lines that are no act's


class Burst(NamedTuple):
    """How far the burst is."""

    total: int
    done: int = 0
    seconds: float = 0.0
    over: bool = False


class Watering(NamedTuple):
    """What the schedule has made so far."""

    wanted: int
    done: int = 0

    @property
    def over(self) -> bool:
        """Whether it has made enough."""
        return self.done >= self.wanted


class Scene(NamedTuple):
    """Everything at one moment."""

    acts: Sequence[DemoAct]
    watering: Watering
    burst: Burst | None
    workers: Sequence[int]
    elapsed: float
    now: datetime


class Screen(Protocol):
    """Where the tour is shown."""

    def begin(self, place: str) -> None:
        """Say what is to come."""

    def show(self, scene: Scene) -> None:
        """Show how things are."""

    def end(self) -> None:
        """Give the terminal back."""


class Glyphs(NamedTuple):
    """Signs that the output can encode."""

    good: str
    bad: str
    full: str
    empty: str
    spinner: str


def open_screen(acts: int) -> Screen:
    """A live screen on terminals that have room for it, 80 x 24 for one, else lines."""
    size = shutil.get_terminal_size()
    live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    height = _HEAD + acts + _AROUND + 1  # the cursor is below
    return Live() if live and size.lines >= height and size.columns >= 60 else Lines()


def glyphs() -> Glyphs:
    """Fall back to ASCII where the output has no more."""
    fine = Glyphs("✓", "✗", "━", "─", _SPINNER)
    try:
        "".join(fine).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return Glyphs("+", "x", "#", "-", "|/-\\")
    return fine


def row(act: DemoAct, scene: Scene, signs: Glyphs, spin: str) -> str:
    """One act on one line."""
    run = act.run
    if run is None:
        return _INDENT + faint(f"  {act.title}")
    mark = spin
    if act.finished:
        good = act.as_expected
        mark = paint(signs.good, "green") if good else paint(signs.bad, "red", bold=True)
    tries = f"{run.attempt}×" if run.attempt > 1 else ""
    return (
        f"{_INDENT}{mark} {act.title:<{_TITLE}}{_padded(status_text(run.status.value), _STATUS)}"
        f"{tries:<{_TRIES}}{_middle(act, scene, signs)}"
    )


def burst_row(burst: Burst, signs: Glyphs, spin: str) -> str:
    """The burst on one line."""
    title = f"burst of {burst.total:,}"
    status = Status.SUCCEEDED if burst.over else Status.RUNNING
    mark = spin
    text = f"{bar(burst.done / burst.total, signs)} {burst.done:,}, {rate(burst):,}/s"
    if burst.over:
        good = burst.done == burst.total
        mark = paint(signs.good, "green") if good else paint(signs.bad, "red", bold=True)
        text = f"{burst.done:,} in {burst.seconds:.2f} s, {rate(burst):,} a second"
    painted = _padded(status_text(status.value), _STATUS)
    return f"{_INDENT}{mark} {title:<{_TITLE}}{painted}{'':<{_TRIES}}{text}"


def watering_row(watering: Watering, signs: Glyphs, spin: str) -> str:
    """The schedule on one line."""
    mark = paint(signs.good, "green") if watering.over else spin
    painted = _padded(status_text(Status.SCHEDULED.value), _STATUS)
    text = f"{watering.done} made, one every second"
    return f"{_INDENT}{mark} {'by a schedule':<{_TITLE}}{painted}{'':<{_TRIES}}{text}"


def rate(burst: Burst) -> int:
    """Runs a second."""
    return round(burst.done / burst.seconds) if burst.seconds else 0


def bar(fraction: float, signs: Glyphs) -> str:
    """A bar of progress."""
    full = round(min(max(fraction, 0.0), 1.0) * BAR)
    return paint(signs.full * full, "green") + faint(signs.empty * (BAR - full))


class Live:
    """A table that is drawn over itself."""

    def __init__(self) -> None:
        self._signs = glyphs()
        self._lines = 0
        self._frame = 0

    def begin(self, place: str) -> None:
        """Make room."""
        click.echo()
        title = f"{_INDENT}{heading('Windlass')} {faint(f'· {place}')}"
        click.echo(fit(title, shutil.get_terminal_size().columns))
        click.echo()
        click.echo("\x1b[?25l", nl=False)

    def show(self, scene: Scene) -> None:
        """Draw the table over the one before."""
        self._frame += 1
        spin = paint(self._signs.spinner[self._frame % len(self._signs.spinner)], "yellow")
        pids = ", ".join(map(str, scene.workers))
        lines = [_INDENT + faint(f"workers: processes {pids}"), ""]
        lines += [row(act, scene, self._signs, spin) for act in scene.acts]
        lines.append(watering_row(scene.watering, self._signs, spin))
        lines.append(burst_row(scene.burst, self._signs, spin) if scene.burst else "")
        width = shutil.get_terminal_size().columns
        up = f"\x1b[{self._lines}F" if self._lines else ""
        drawn = "".join(f"\x1b[2K{fit(line, width)}\n" for line in lines)
        click.echo(up + drawn, nl=False)
        self._lines = len(lines)

    def end(self) -> None:
        """Show the cursor again."""
        click.echo("\x1b[?25h", nl=False)


class Lines:
    """One line for each change."""

    def __init__(self) -> None:
        self._signs = glyphs()
        self._told: dict[str, object] = {}

    def begin(self, place: str) -> None:
        """Say where."""
        click.echo(f"Windlass demo, {place}")

    def show(self, scene: Scene) -> None:
        """Tell what has changed."""
        elapsed = scene.elapsed
        if self._news("workers", tuple(scene.workers)):
            self._print_line(
                f"{_INDENT}workers: processes {', '.join(map(str, scene.workers))}", elapsed
            )
        for act in scene.acts:
            run = act.run
            if run is None:
                continue
            quarter = int((run.progress or 0) * 4)
            state = (run.status, run.attempt, quarter, act.finished, _orphaned(run, scene))
            if self._news(act.title, state):
                self._print_line(row(act, scene, self._signs, " "), elapsed)
        if self._news("schedule", min(scene.watering.done, scene.watering.wanted)):
            self._print_line(watering_row(scene.watering, self._signs, " "), elapsed)
        burst = scene.burst
        if burst is not None and self._news("burst", (burst.done * 4 // burst.total, burst.over)):
            self._print_line(burst_row(burst, self._signs, " "), elapsed)

    def end(self) -> None:
        """Nothing to give back."""

    def _news(self, what: str, state: object) -> bool:
        before = self._told.get(what)
        self._told[what] = state
        return before != state

    def _print_line(self, line: str, elapsed: float) -> None:
        click.echo(f"{elapsed:6.2f} s {line}".rstrip())


def _orphaned(run: Run, scene: Scene) -> bool:
    """Whether the process that a run is in has died, and nobody has taken it back yet."""
    return run.status is Status.RUNNING and process_of(run) not in scene.workers


def _middle(act: DemoAct, scene: Scene, signs: Glyphs) -> str:
    run = act.run
    if run is not None and _orphaned(run, scene):
        return f"{process_of(run)} is dead; its lease runs out"
    if run is not None and run.status is Status.RUNNING and run.progress is not None:
        return f"{bar(run.progress, signs)} {run.progress:4.0%} {run.progress_message or ''}"
    return act.story(scene.now)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))
