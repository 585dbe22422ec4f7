"""The results as a chart in SVG: one panel per figure, one bar per entry, the best on top.

It brings its own background and follows the reader's light or dark theme.
"""

from collections.abc import Iterator
from html import escape
from math import inf

from bench.peers.catalogue import OURS
from bench.peers.results import Line, Results, number
from bench.peers.table import FEW, trouble

WIDTH, PANEL, ROW, TOP = 1000, 490, 22, 64
LABEL, BAR = 160, 220  # the columns of a panel; what is left is for the value
MARGIN = 20

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 14px; font-weight: 600 }
  .muted { fill: #59636e }
  .back { fill: #ffffff }
  .bar { fill: #afb8c1 }
  .tail { opacity: .45 }
  .ours { fill: #0969da }
  .best { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .muted { fill: #9198a1 }
    .back { fill: #0d1117 }
    .bar { fill: #57606a }
    .ours { fill: #4493f8 }
  }
"""

# The figure of a panel, its title, and the figure that the bar goes on to.
PANELS = (
    ("drain", "Drain, runs per second", None),
    ("bulk", "Enqueue in bulk, runs per second", None),
    ("single", "Enqueue one by one, runs per second", None),
    ("p50", "Pickup latency, p50 / p99 in milliseconds (less is better)", "p99"),
)


def chart(results: Results) -> str:
    """Draw the medians, two panels side by side, and below them whoever could not race."""
    ran = [line for line in results.lines if line.median("drain") is not None]
    height = TOP + ROW * len(ran) + 16
    notes = [FEW] if any(line.few for line in ran) else []
    notes += [trouble(line) for line in results.lines if line.failure]
    total = 2 * height + (ROW * len(notes) + 12 if notes else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" role="img">',
        f"<title>Windlass and its peers</title><style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{total}" rx="6"/>',
    ]
    for at, (name, title, tail) in enumerate(PANELS):
        x, y = MARGIN + at % 2 * PANEL, at // 2 * height
        parts.append(_text(x, y + 36, title, "title"))
        parts += _bars(ran, x, y + TOP, name, tail)
    parts += [
        _text(MARGIN, 2 * height + 8 + ROW * at, text, "muted") for at, text in enumerate(notes)
    ]
    return "\n".join([*parts, "</svg>", ""])


def _bars(lines: list[Line], x: int, y: int, name: str, tail: str | None) -> Iterator[str]:
    """One row per entry. The best is on top; entries without this figure come last."""
    rows = sorted(lines, key=lambda line: _rank(line.median(name), falling=tail is None))
    scale = BAR / max([*(line.median(tail or name) or 0 for line in lines), 1e-9])
    for at, line in enumerate(rows):
        top, peer = y + ROW * at, line.entry.peer.name
        yield _text(x, top, peer, "best" if peer == OURS else "")
        yield _text(x + LABEL - 8, top, _short(line.entry.store), "muted", "end")
        value, end = line.median(name), line.median(tail or name)
        if value is None or end is None:
            yield _text(x + LABEL, top, "has no such call", "muted")
            continue
        kind = "bar ours" if peer == OURS else "bar"
        if tail:
            yield _rect(x + LABEL, top, end * scale, f"{kind} tail")
        yield _rect(x + LABEL, top, value * scale, kind)
        shown = f"{number(value)} / {number(end)}" if tail else number(value)
        mark = "*" if name == "drain" and line.few else ""
        yield _text(x + LABEL + end * scale + 6, top, shown + mark)


def _rank(value: float | None, *, falling: bool) -> float:
    return inf if value is None else -value if falling else value


def _short(store: str) -> str:
    return store.replace("PostgreSQL", "PG")


def _rect(x: float, top: float, width: float, kind: str) -> str:
    size = f'width="{max(width, 1):.1f}" height="14"'
    return f'<rect class="{kind}" x="{x}" y="{top - 11}" {size} rx="2"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
