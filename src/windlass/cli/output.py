"""How things look on a terminal: tables, ages, colours.

Colours, titles and cut lines are for terminals. Into a pipe goes plain text, whole and one row per
line, for grep and awk. Whatever text comes from a run is escaped: it cannot move the cursor.
"""

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from windlass.domain.event import EventType
from windlass.domain.run import Event
from windlass.domain.states import Status
from windlass.duration import format_duration
from windlass.logs import escape

GAP = "  "
WIDEST = 2_000
"""The longest line that is written into a pipe."""

STATUS_COLORS: Mapping[str, str] = {
    Status.SCHEDULED: "blue",
    Status.QUEUED: "cyan",
    Status.RUNNING: "yellow",
    Status.WAITING: "bright_blue",
    Status.PAUSED: "bright_yellow",
    Status.SUCCEEDED: "green",
    Status.FAILED: "red",
    Status.CANCELED: "magenta",
    "timeout": "red",
    "crashed": "red",
    "snoozed": "blue",
    "continued": "blue",
    "waited": "bright_blue",
    "sleeping": "blue",
    "done": "green",
    "retrying": "yellow",
    "timed out": "red",
    "interrupted": "magenta",
}

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PART = re.compile(r"\x1b\[[0-9;]*m|.", re.DOTALL)


def colorful() -> bool:
    """Whether standard output is a terminal that may be coloured."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout.isatty()


def columns() -> int:
    """How wide a line may be."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDEST


def paint(text: str, color: str | None = None, **style: Any) -> str:
    """Colour a text, where colours are wanted."""
    return click.style(text, fg=color, **style) if colorful() else text


def status_text(status: str) -> str:
    """A status, or an attempt's outcome, in its colour."""
    return paint(status, STATUS_COLORS.get(status))


def heading(text: str) -> str:
    """The title of a part."""
    return paint(text, bold=True)


def faint(text: str) -> str:
    """Something of less weight."""
    return paint(text, dim=True)


def one_line(text: str) -> str:
    """Text of a run on one line, without what could move the cursor."""
    return escape(" ".join(text.split()))


def width_of(text: str) -> int:
    """How many columns a text takes."""
    return sum(_char_width(c) for c in _ANSI.sub("", text))


def cut(text: str, width: int) -> str:
    """Shorten plain text to so many columns."""
    if width_of(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += _char_width(char)
        if used >= width:
            break
        kept.append(char)
    return "".join(kept) + "…" if width > 0 else ""


def fit(text: str, width: int) -> str:
    """Cut a line, which may be coloured, to the terminal's width."""
    if width_of(text) <= width:
        return text
    kept, used = "", 0
    for part in _PART.findall(text):
        size = 0 if part.startswith("\x1b") else width_of(part)
        if used + size > width - 1:
            break
        kept, used = kept + part, used + size
    return f"{kept}…" + ("\x1b[0m" if "\x1b" in kept else "")


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> list[str]:
    """Align the columns; the last one is cut to fit.

    A title that begins with ">" is of numbers: its column is aligned to the right.
    """
    right = [title.startswith(">") for title in titles]
    shown = [[heading(title.lstrip(">")) for title in titles], *rows]
    last = len(titles) - 1
    widths = [max(width_of(row[i]) for row in shown) for i in range(last)]
    room = columns() - len(indent) - sum(widths) - len(GAP) * last
    end_width = max(width_of(row[last]) for row in shown) if right[last] else 0
    lines = []
    for row in shown:
        cells = [_pad(row[i], widths[i], right=right[i]) for i in range(last)]
        end = fit(row[last], room) if room > 0 else ""
        end = _pad(end, min(end_width, room), right=right[last])
        lines.append((indent + GAP.join([*cells, end])).rstrip())
    return lines


def print_listing(titles: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    """Print one line for each row; on a terminal also the titles.

    A pipe gets the rows alone, so that a program can count and cut them. What there is to say where
    there are none goes to standard error then.
    """
    on_terminal = sys.stdout.isatty()
    if not rows:
        click.echo(nothing, err=not on_terminal)
        return
    for line in table(titles, rows)[0 if on_terminal else 1 :]:
        click.echo(line)


def ago(moment: datetime, now: datetime) -> str:
    """How long something is past, or ahead, in its largest unit."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "just now"
    size, unit = next((s, u) for s, u in _UNITS if abs(seconds) >= s)
    length = f"{int(abs(seconds) // size):,} {unit}"
    return f"{length} ago" if seconds > 0 else f"in {length}"


def took(start: datetime, end: datetime) -> str:
    """How long something took."""
    return format_duration(max(0.0, (end - start).total_seconds()))


def clock_time(moment: datetime) -> str:
    """An instant, to the second, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def event_text(event: Event) -> str:
    """What an event says beside its type."""
    data = dict(event.data or {})
    match event.type:
        case EventType.SIGNALED if "name" in data:
            return one_line(str(data["name"]))
        case EventType.SLEEPING | EventType.WAITING:
            how = "for" if event.type is EventType.WAITING else "in"
            names = ", ".join(one_line(str(step)) for step in data.get("for") or ())
            until = _instant(data.get("until"))
            parts = (f"{how} {names}" if names else "", f"until {until}" if until else "")
            return ", ".join(part for part in parts if part)
        case _ if "step" in data:
            path = one_line(str(data.pop("step")))
            return ", ".join(part for part in (path, said_all(data)) if part)
        case _:
            return said_all(data)


def _instant(text: object) -> str:
    """An instant in the data of an event."""
    try:
        return clock_time(datetime.fromisoformat(str(text)).astimezone(UTC)) if text else ""
    except ValueError:
        return one_line(str(text))


def said_all(data: Mapping[str, Any]) -> str:
    """The data of an event, for people."""
    return ", ".join(f"{name} {_said(name, value)}" for name, value in data.items())


def _said(name: str, value: object) -> str:
    """A value of an event; of a change, the old one and the new one."""
    match value:
        case int() | float() if name == "delay":
            return format_duration(float(value))
        case {"from": old, "to": new}:
            return f"{readable(old)} → {readable(new)}"
        case {"from_bytes": int(old), "to_bytes": int(new)}:
            return f"{old:,} → {new:,} bytes"
        case _:
            return one_line(str(value))


def to_json(value: object, *, indent: int | None = None) -> str:
    """JSON in ASCII, which any stream can carry."""
    return json.dumps(value, indent=indent, default=str)


def readable(value: object) -> str:
    """JSON for people: in their own script, on one line."""
    return escape(json.dumps(value, ensure_ascii=False, default=str))


def _pad(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - width_of(text))
    return blanks + text if right else text + blanks


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
