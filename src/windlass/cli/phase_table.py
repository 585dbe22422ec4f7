"""The phases of a pipeline, as `windlass show` draws them: a line each, with a bar."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from windlass.cli import output
from windlass.client import Run
from windlass.codec import instant_text
from windlass.domain.phase import ONLY_PHASE, PhaseState, PhaseStatus

_BAR = 16  # columns
_COLORS = {PhaseStatus.SUCCEEDED: "green", PhaseStatus.FAILED: "red", PhaseStatus.CANCELED: "red"}


def is_pipeline(phases: Sequence[PhaseState]) -> bool:
    """Whether there is more to show than the run itself."""
    return [phase.name for phase in phases] != [ONLY_PHASE]


def draw_phases(run: Run, phases: Sequence[PhaseState], now: datetime) -> Iterator[str]:
    """The lines about the phases of a run."""
    yield output.heading("phases")
    rows = [_row(run, phase, now) for phase in phases]
    yield from output.table(
        ("PHASE", "PROGRESS", ">DONE", "STATE", ">AFTER", ">TOOK", "TELLS"), rows, indent="  "
    )


def phase_dict(phase: PhaseState) -> dict[str, Any]:
    """A phase as plain JSON values."""
    error = phase.error
    return {
        "name": phase.name,
        "status": phase.status.value,
        "progress": phase.progress,
        "message": phase.message,
        "started_at": _instant(phase.started_at),
        "completed_at": _instant(phase.completed_at),
        "error": None if error is None else {"type": error.type, "message": error.message},
    }


def bar(fraction: float, color: str | None) -> str:
    """A bar of progress."""
    full, empty = _signs()
    done = round(min(max(fraction, 0.0), 1.0) * _BAR)
    return output.paint(full * done, color) + output.faint(empty * (_BAR - done))


def _row(run: Run, phase: PhaseState, now: datetime) -> tuple[str, ...]:
    began, ended = phase.started_at, phase.completed_at
    is_over = phase.status in _COLORS
    took = "" if began is None else output.took(began, ended or now)
    return (
        output.cut(output.one_line(phase.name), max(16, output.columns() // 4)),
        bar(phase.progress, _COLORS.get(phase.status, "cyan")),
        f"{phase.progress:.0%}",
        output.status_text(phase.status.value),
        "" if began is None else f"+{output.took(run.created_at, began)}",
        took if is_over or run.status == "running" else "",
        _tells(phase),
    )


def _tells(phase: PhaseState) -> str:
    if phase.error is not None:
        kind = phase.error.type.rpartition(".")[2]
        return output.one_line(f"{kind}: {phase.error.message}")
    return output.one_line(phase.message or "")


def _instant(moment: datetime | None) -> str | None:
    return None if moment is None else instant_text(moment)


def _signs() -> tuple[str, str]:
    try:
        "█░".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#", "."
    return "█", "░"
