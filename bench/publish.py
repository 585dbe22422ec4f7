r"""`python -m bench.publish`: fills the tables of docs/performance.md from measured figures.

The figures are in docs/measured, as `make bench` and `make bench-peers` have written them:

    make bench ARGS="--json docs/measured/bench.json"
    make bench-peers ARGS="--postgres both --json docs/measured/race.json \
                           --svg docs/measured/race.svg"

The page keeps its text. What is between a comment `begin: NAME` and the next `end` is made here.
With `--check`, only says whether the page is up to date.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.peers.results import number as short
from bench.report import number

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "performance.md"
MEASURED = DOCS / "measured"

Found = dict[str, Any]

# What a table shows: the figures by their names, and how they are called there.
RATES = {
    "enqueue, one by one": "enqueue, one by one",
    "enqueue, 50 coroutines": "enqueue, 50 coroutines of one process",
    "enqueue, by thousands": "enqueue, 1,000 at a time",
    "drain, one worker": "drain, one worker process",
    "drain, beside a held snapshot": "drain, beside a held snapshot",
}
TIMES = {
    "pickup, same process, p50": "pickup, worker in the same process, p50",
    "pickup, same process, p99": "… p99",
    "pickup, two processes, p50": "pickup, worker in another process, p50",
    "pickup, two processes, p99": "… p99",
    "claim of 1, backlog 1,000,000": "claim of 1, a million waiting",
    "claim of 100, backlog 1,000,000": "claim of 100, a million waiting",
}
COSTS = {
    "drain, CPU of the worker": "CPU of the worker",
    "enqueue by thousands, CPU of the server": "CPU of the server, enqueue 1,000 at a time",
    "drain, CPU of the server": "CPU of the server, from claim to end",
    "log, enqueue by thousands": "WAL, enqueue 1,000 at a time",
    "log, from claim to end": "WAL, from claim to end",
    "size of a run that waits": "in the store while it waits",
    "size of a run that has ended": "in the store when it has ended",
}
REST = {
    "idle worker, calls of the store": "idle worker, calls of the store",
    "idle worker, of one core": "idle worker, share of a core",
    "memory of a worker after 1,000,000 runs": "memory of a worker after a million runs",
    "1,000 slots at once, the last run made after": "1,000 slots in one second, the last after",
    "idle scheduler, calls of the store": "idle scheduler with 10,000 schedules, calls",
}


def main() -> int:
    """Write the page, or say whether it is up to date."""
    text = PAGE.read_text("utf-8")
    made = publish(text, _read("bench.json"), _read("race.json"))
    if "--check" not in sys.argv:
        PAGE.write_text(made, "utf-8")
        return 0
    if text != made:
        print(f"{PAGE.name} is not up to date: run `python -m bench.publish`")
        return 1
    return 0


def publish(text: str, bench: Found, race: Found) -> str:
    """Fill the tables of a page."""
    made: dict[str, Callable[[], Sequence[str]]] = {
        "rates": lambda: _table(bench, RATES, raw=True),
        "times": lambda: _table(bench, TIMES),
        "costs": lambda: _table(bench, COSTS),
        "rest": lambda: _table(bench, REST),
        "stages": lambda: _stages(bench),
        "race": lambda: _race(race),
        "bench-about": lambda: [_about(bench)],
        "race-about": lambda: [_about(race)],
    }

    def fill(found: re.Match[str]) -> str:
        return "\n".join([found["begin"], "", *made[found["name"]](), "", found["end"]])

    parts = r"(?P<begin><!-- begin: (?P<name>[a-z-]+) -->)\n.*?(?P<end><!-- end -->)"
    return re.sub(parts, fill, text, flags=re.DOTALL)


def _read(name: str) -> Found:
    found: Found = json.loads((MEASURED / name).read_text("utf-8"))
    return found


def _about(found: Found) -> str:
    return f"Measured on {found['day']}: {found['machine']}, Python {found['python']}."


def _table(bench: Found, names: dict[str, str], *, raw: bool = False) -> list[str]:
    """A line for each figure, a column for each store."""
    figures = {(each["store"], each["what"]): each for each in bench["figures"]}
    stores = sorted({store for store, _ in figures})
    lines = [f"| | {' | '.join(stores)} |", f"|---|{'---|' * len(stores)}"]
    for what, called in names.items():
        cells = [_cell(figures.get((store, what)), raw=raw) for store in stores]
        lines.append(f"| {called} | {' | '.join(cells)} |")
    return lines


def _cell(figure: Found | None, *, raw: bool) -> str:
    if figure is None:
        return "-"
    text = f"{number(figure['value'])} {figure['unit']}".replace(" /s", "/s")
    if raw and figure["ratio"]:
        return f"{text}, {figure['ratio']:.0%} of raw"
    found = re.match(r"[0-9.]+x", figure["note"])
    return f"{text}, {found[0]}" if found else text


def _stages(bench: Found) -> list[str]:
    """Where the time of a pickup goes."""
    return [
        f"- {each['store']}, {each['what'].split(', ')[1]}: {each['note']} ms."
        for each in bench["figures"]
        if each["what"].startswith("pickup") and each["note"]
    ]


def _race(race: Found) -> list[str]:
    head = ("drain /s", "bulk /s", "one by one /s", "pickup p50 ms", "p99 ms")
    lines = [
        f"| queue | store | {' | '.join(head)} |",
        f"|---|---|{'---:|' * len(head)}",
    ]
    for entry in race["entries"]:
        if entry["median"]["drain"] is None:
            continue
        cells = [_place(entry, name) for name in ("drain", "bulk", "single", "p50", "p99")]
        lines.append(f"| {entry['name']} | {entry['store']} | {' | '.join(cells)} |")
    troubles = [entry for entry in race["entries"] if entry["failure"]]
    lines += [""] * bool(troubles)
    return lines + [f"{each['name']} on {each['store']}: {each['failure']}" for each in troubles]


def _place(entry: Found, name: str) -> str:
    """A figure of a peer, and how far Windlass is ahead in it."""
    mark = "\\*" if name == "drain" and entry["too_few_runs"] else ""
    text = short(entry["median"][name]) + mark
    ahead = entry["windlass_ahead"].get(name)
    if ahead is None:
        return text
    factor = ahead["median"]
    return f"{text} ({factor:.1f}x)" if factor < 10 else f"{text} ({factor:.0f}x)"


if __name__ == "__main__":
    sys.exit(main())
