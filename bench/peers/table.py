"""The results as a table on the terminal."""

from collections.abc import Sequence

from bench.peers.results import NAMES, Line, Ratio, Results, number

TITLES = {
    "drain": "drain /s",
    "bulk": "bulk /s",
    "single": "one by one /s",
    "p50": "pickup p50 ms",
    "p99": "p99 ms",
}
LEFT = 2  # the first columns are text
FEW = "* too few runs: the first fetch counts as if it took no time. Ask for more by --runs."


def table(results: Results) -> str:
    """One line per entry, each figure with how far Windlass is ahead in it."""
    head = ["", "store", *(part for name in NAMES for part in (TITLES[name], "ahead"))]
    ran = [line for line in results.lines if line.median("drain") is not None]
    rows = [head, *(_row(results, line) for line in ran)]
    notes = [FEW] if any(line.few for line in ran) else []
    troubles = [trouble(line) for line in results.lines if line.failure]
    return "\n".join([*_aligned(rows), *notes, *troubles])


def _row(results: Results, line: Line) -> list[str]:
    cells = [line.entry.peer.name, line.entry.store]
    for name in NAMES:
        mark = "*" if name == "drain" and line.few else ""
        cells += [number(line.median(name)) + mark, _ahead(results.ratio(line, name))]
    return cells


def _ahead(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio.median:.2f}x" if ratio.median < 10 else f"{ratio.median:.0f}x"


def trouble(line: Line) -> str:
    """Say who could not race, or not to the end, and why."""
    done = sum(each is not None for each in line.rounds)
    what = f"stopped after {done} of {len(line.rounds)} rounds" if done else "did not race"
    return f"{line.entry.peer.name} on {line.entry.store} {what}: {line.failure}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at < LEFT else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
