"""Collects figures, prints them as they come, and writes them to a file."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from windlass.sources import Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured thing."""

    store: str
    what: str
    value: float
    unit: str
    raw: float | None = None  # the bare database doing the same, in the same unit
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours as a share of raw."""
        return None if not self.raw else self.value / self.raw


@dataclass(slots=True)
class Report:
    """All figures of a run, told as they come."""

    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        """Keep a figure and show it."""
        self.figures.append(figure)
        print(line(figure), flush=True)

    def write(self, file: Path) -> None:
        """Write all figures as JSON."""
        figures = [{**asdict(figure), "ratio": figure.ratio} for figure in self.figures]
        file.write_text(json.dumps({**about(), "figures": figures}, indent=2) + "\n")


def about() -> dict[str, Any]:
    """Where it was measured."""
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "day": Sources.system().clock.now().date().isoformat(),
    }


def line(figure: Figure) -> str:
    """A figure as a line of a table."""
    text = f"{figure.store:17} {figure.what:44} {number(figure.value):>10} {figure.unit:8}"
    if figure.ratio is not None and figure.raw is not None:
        text += f"  raw {number(figure.raw):>9}  = {figure.ratio:5.0%}"
    return f"{text}  {figure.note}".rstrip()


def number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)
