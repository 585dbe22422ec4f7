"""The children of a run, as `windlass show` lists them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from windlass.cli import output
from windlass.client import Run


def draw_children(children: Sequence[Run], now: datetime, *, most: int | None) -> Iterator[str]:
    """The lines about the children of a run, at most so many; None: all."""
    shown = children[:most]
    counts = Counter(child.status.value for child in children)
    told = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    more = len(children) > len(shown)
    yield f"{output.heading('children')}  {output.faint('' if more else told)}"
    rows = [
        (child.id, child.job, child.status.value, output.ago(child.created_at, now))
        for child in shown
    ]
    yield from output.table(("RUN", "JOB", "STATUS", "STARTED"), rows, indent="  ")
    if more:
        yield output.faint("  … more: --steps shows all")
