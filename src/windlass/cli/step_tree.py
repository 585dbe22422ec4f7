"""What a run remembers, as `windlass show` draws it: its steps as a tree, and its signals."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from windlass.cli import output
from windlass.client import Run
from windlass.codec import decode, instant_text
from windlass.domain.approval import read_question
from windlass.domain.step import Signal, Step, StepKind, StepState

MOST_STEPS = 15
"""Lines of the tree, unless all are asked for: with titles, a screen of 24 lines has room."""
MOST_SIGNALS = 5
_NARROWEST = 16  # columns for names

_UNDER_WAY = frozenset({"sleeping", "waiting", "retrying", "begun"})


class Glyphs(NamedTuple):
    """What branches are drawn with."""

    branch: str
    last: str
    beside: str


@dataclass(slots=True)
class Node:
    """A step, with those inside it. One whose body has not ended may have no record yet."""

    name: str
    path: str
    step: Step | None = None
    inside: "dict[str, Node]" = field(default_factory=dict)


class Line(NamedTuple):
    """A line of the tree."""

    branches: str
    node: Node
    state: str  # in a word
    text: str  # that word, and what there is to say about it


@dataclass(frozen=True, slots=True)
class Telling:
    """Tells how the steps of a run stand."""

    run: Run
    now: datetime
    past: bool = False  # they are of an input that the run went on from

    def state(self, step: Step | None) -> str:
        """How a step stands, in a word."""
        if step is None:
            return "dropped" if self.run.status.finished or self.past else "begun"
        match step.state:
            case StepState.WAITING if step.kind is StepKind.SLEEP and self._is_past(step.until):
                return "done"  # that a sleep is over is not recorded: its time says it
            case StepState.WAITING | StepState.RETRYING if self._is_dropped(step):
                return "dropped"
            case StepState.WAITING:
                return "sleeping" if step.kind is StepKind.SLEEP else "waiting"
            case _:
                return step.state.value.replace("_", " ")

    def about(self, step: Step, state: str) -> str:
        """What there is to say of a step, beside how it stands."""
        kind = "" if step.kind is StepKind.STEP else f" {_KINDS.get(step.kind, step.kind.value)}"
        signal = "" if step.signal is None else f" {output.one_line(step.signal)}"
        if step.kind is StepKind.APPROVAL:
            signal = f" {output.readable(read_question(step.input).question)}"
        match state:
            case "sleeping" | "waiting":
                what = f" for{kind}{signal}" if step.kind is not StepKind.SLEEP else ""
                until = "" if step.until is None else f" until {self.moment(step.until)}"
                return what + until
            case "retrying":
                due = "now" if step.until is None else self._due(step.until)
                return f" {due}, {_times(step.failures)}: {_error(step)}"
            case "failed":
                after = f" after {_times(step.failures)}" if step.failures > 1 else ""
                return f"{after}: {_error(step)}"
            case "done":
                after = f", after {_times(step.failures)}" if step.failures else ""
                return f"{kind}{signal}{after}{_value(step)}"
            case _:
                return f"{kind}{signal}"

    def moment(self, moment: datetime) -> str:
        """An instant in UTC, as short as can be."""
        if moment.year != self.now.year:
            return f"{moment:%Y-%m-%d %H:%M}Z"
        return (
            f"{moment:%H:%M:%S}Z" if moment.date() == self.now.date() else f"{moment:%m-%d %H:%M}Z"
        )

    def took(self, step: Step, state: str) -> str:
        """How long a step took that is over; those that only make a value take no time."""
        if state in _UNDER_WAY or state == "dropped" or step.kind in _MOMENTARY:
            return ""
        end = step.until if step.kind is StepKind.SLEEP and step.until is not None else step.at
        return output.took(step.started_at, end)

    def _due(self, moment: datetime) -> str:
        return "now" if self._is_past(moment) else output.ago(moment, self.now)

    def _is_past(self, moment: datetime | None) -> bool:
        return moment is not None and moment <= self.now

    def _is_dropped(self, step: Step) -> bool:
        """Whether the run has gone on without it, as with those that lose a race."""
        waits = self.run.waits
        over = self.run.status.finished or self.past
        return over or (bool(waits) and step.path not in waits)


_KINDS = {
    StepKind.SLEEP: "sleep",
    StepKind.SIGNAL: "signal",
    StepKind.APPROVAL: "approval",
    StepKind.RACE: "race",
    StepKind.CHILD: "child",
    StepKind.CHILDREN: "children",
}
_MOMENTARY = frozenset({StepKind.VALUE, StepKind.RACE, StepKind.VERSION})


def draw_steps(
    run: Run,
    steps: Sequence[Step],
    now: datetime,
    *,
    whole: bool,
    generation: int | None = None,
) -> Iterator[str]:
    """The lines about the steps of a run, or of a generation of it."""
    telling = Telling(run, now, past=generation is not None)
    lines = list(_walk(grow(steps).values(), telling))
    counts = Counter(line.state for line in lines)
    told = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    title = "steps" if generation is None else f"steps of generation {generation}"
    yield f"{output.heading(title)}  {output.faint(told)}"
    shown = lines if whole else choose(lines, MOST_STEPS)
    if len(shown) < len(lines):
        yield output.faint(f"  … {len(lines) - len(shown):,} more: --steps shows all")
    widest = max(_NARROWEST, output.columns() // 4)
    rows = [_row(line, run, telling, widest) for line in shown]
    yield from output.table(("STEP", ">AFTER", ">TOOK", "STATE"), rows, indent="  ")


def grow(steps: Sequence[Step]) -> dict[str, Node]:
    """Make the tree; what began first comes first."""
    roots: dict[str, Node] = {}
    for step in steps:
        level, node, path = roots, None, ""
        for name in step.path.split("/"):
            path = f"{path}/{name}" if path else name
            node = level.setdefault(name, Node(name, path))
            level = node.inside
        assert node is not None, "a path has a name"
        node.step = step
    return roots


def choose(lines: Sequence[Line], most: int) -> Sequence[Line]:
    """Leave out some lines: what is under way or failed stays first, then what is latest.

    The steps around one that stays do so too.
    """
    if len(lines) <= most:
        return lines
    by_path = {line.node.path: n for n, line in enumerate(lines)}
    order = sorted(range(len(lines)), key=lambda n: (_weight(lines[n].state), -n))
    kept: set[int] = set()
    for n in order:
        parts = lines[n].node.path.split("/")
        around = {by_path["/".join(parts[: k + 1])] for k in range(len(parts))}
        if len(kept | around) <= most:
            kept |= around
    return [lines[n] for n in sorted(kept)]


def draw_signals(run: Run, signals: Sequence[Signal], *, whole: bool) -> Iterator[str]:
    """The lines about the signals that were sent to a run."""
    yield output.heading("signals")
    shown = signals if whole else signals[-MOST_SIGNALS:]
    if len(shown) < len(signals):
        yield output.faint(f"  … {len(signals) - len(shown):,} earlier ones: --steps shows all")
    nobody = "nobody" if run.status.finished else "not yet"
    keyed = any(signal.key is not None for signal in shown)
    widest = max(_NARROWEST, output.columns() // 4)
    rows = [
        (
            str(signal.number),
            output.cut(output.one_line(signal.name), widest),
            f"+{output.took(run.created_at, signal.at)}",
            output.cut(output.one_line(signal.taken_by or nobody), widest),
            *((output.cut(output.one_line(signal.key or ""), widest),) if keyed else ()),
            output.readable(decode(signal.payload)),
        )
        for signal in shown
    ]
    key = ("KEY",) if keyed else ()
    titles = (">#", "SIGNAL", ">AFTER", "TAKEN BY", *key, "PAYLOAD")
    yield from output.table(titles, rows, indent="  ")


def step_dict(step: Step) -> dict[str, Any]:
    """A step as plain JSON values."""
    error = step.error
    return {
        "path": step.path,
        "kind": step.kind.value,
        "state": step.state.value,
        "started_at": instant_text(step.started_at),
        "at": instant_text(step.at),
        "until": None if step.until is None else instant_text(step.until),
        "attempt": step.attempt,
        "failures": step.failures,
        "signal": step.signal,
        "input": step.input,
        "value": decode(step.value or b"null"),
        "error": None if error is None else {"type": error.type, "message": error.message},
    }


def _walk(nodes: Iterable[Node], telling: Telling, before: str | None = None) -> Iterator[Line]:
    signs, level = _glyphs(), list(nodes)
    for node in level:
        is_last = node is level[-1]
        own = "" if before is None else before + (signs.last if is_last else signs.branch)
        state = telling.state(node.step)
        about = "" if node.step is None else telling.about(node.step, state)
        yield Line(own, node, state, output.status_text(state) + about)
        below = "" if before is None else before + ("   " if is_last else signs.beside)
        yield from _walk(node.inside.values(), telling, below)


def _row(line: Line, run: Run, telling: Telling, widest: int) -> tuple[str, ...]:
    step = line.node.step
    room = max(_NARROWEST // 2, widest - output.width_of(line.branches))
    name = output.faint(line.branches) + output.cut(output.one_line(line.node.name), room)
    if step is None:
        return name, "", "", line.text
    after = f"+{output.took(run.created_at, step.started_at)}"
    return name, after, telling.took(step, line.state), line.text


def _weight(state: str) -> int:
    if state in _UNDER_WAY:
        return 0
    return 1 if state in ("failed", "timed out") else 2


def _times(failures: int) -> str:
    return "1 failure" if failures == 1 else f"{failures:,} failures"


def _error(step: Step) -> str:
    if step.error is None:  # such as of a child that was canceled
        return _value(step).strip()
    kind = step.error.type.rpartition(".")[2]
    message = step.error.message
    return output.one_line(f"{kind}: {message}" if message else kind)


def _value(step: Step) -> str:
    value = decode(step.value or b"null")
    return "" if value is None else f" {output.readable(value)}"


def _glyphs() -> Glyphs:
    fine = Glyphs("├─ ", "└─ ", "│  ")
    try:
        "".join(fine).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return Glyphs("|- ", "`- ", "|  ")
    return fine
