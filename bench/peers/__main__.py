"""`python -m bench.peers`: Windlass and its peers, in turns, on this machine.

Installs each peer into an environment of its own, starts private servers, and measures enqueue,
drain and pickup latency. bench/README.md says how, and what the figures mean.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.catalogue import Entry, Peer, read_catalogue
from bench.peers.chart import chart
from bench.peers.environments import ROOT, Environment, install
from bench.peers.measure import Course, Sizes
from bench.peers.race import race
from bench.peers.results import Figures, Line, Results
from bench.peers.stores import Place, places
from bench.peers.table import table
from bench.places import SYSTEM, WHEEL
from bench.report import about

CACHE = ROOT / ".bench" / "peers"
BOTH = "both"


def main() -> None:
    """Run the race."""
    # Leave by an exception, so that every worker and server is stopped on the way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    peers = read_catalogue()
    asked = _arguments([peer.name for peer in peers])
    caps = dict(asked.cap)
    peers = [
        replace(peer, cap=caps.get(peer.name, peer.cap))
        for peer in peers
        if not asked.only or peer.name in asked.only
    ]
    servers = (WHEEL, SYSTEM) if asked.postgres == BOTH else (asked.postgres,)
    with places({kind for peer in peers for kind in peer.stores}, servers) as found:
        lines = _lines(peers, found, asked)
        measure = partial(_measure, {place.name: place for place in found}, asked)
        race(lines, partial(install, cache=CACHE), measure, asked.rounds, _tell)
    _report(Results(lines, _about(asked)), asked)


def _arguments(names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--postgres", choices=(WHEEL, SYSTEM, BOTH), default=WHEEL)
    parser.add_argument("--only", nargs="*", choices=names, default=(), metavar="PEER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=20_000, help="runs to drain per round")
    parser.add_argument(
        "--cap",
        nargs="*",
        type=partial(_cap, names),
        default=(),
        metavar="PEER=RUNS",
        help="drain fewer runs with a slow peer than with the others",
    )
    parser.add_argument("--singles", type=int, default=1000, help="runs to enqueue one by one")
    parser.add_argument("--latencies", type=int, default=200, help="pickups to time")
    parser.add_argument("--limit", type=float, default=180, help="seconds before a peer is out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the medians here")
    return parser.parse_args()


def _cap(names: Sequence[str], text: str) -> tuple[str, int]:
    name, _, runs = text.partition("=")
    if name not in names:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(names)}")
    return name, int(runs)


def _lines(peers: Sequence[Peer], found: Sequence[Place], asked: argparse.Namespace) -> list[Line]:
    return [
        Line(Entry(peer=peer, store=place.name), peer.runs(asked.runs), [None] * asked.rounds)
        for place in found
        for peer in peers
        if place.kind in peer.stores
    ]


def _measure(
    found: dict[str, Place], asked: argparse.Namespace, line: Line, environment: Environment
) -> Figures:
    sizes = Sizes(
        runs=line.runs, singles=asked.singles, latencies=asked.latencies, limit=asked.limit
    )
    course = Course(environment, found[line.entry.store], sizes)
    return course.run(bulk=line.entry.peer.bulk)


def _about(asked: argparse.Namespace) -> dict[str, Any]:
    return {
        **about(),
        "rounds": asked.rounds,
        "singles": asked.singles,
        "latencies": asked.latencies,
    }


def _report(results: Results, asked: argparse.Namespace) -> None:
    print(table(results))
    if asked.json:
        asked.json.write_text(json.dumps(results.to_json(), indent=2) + "\n")
    if asked.svg:
        asked.svg.write_text(chart(results))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
