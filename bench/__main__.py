"""`python -m bench`: enqueue, drain, pickup, sizes, claim cost, idle cost, memory, schedules.

Rates are measured beside the bare database writing the same rows, in the same run, several times in
turns; what is shown is the median.
"""

import argparse
import logging
from pathlib import Path

from bench.measures import MEASURES, Extent
from bench.places import places
from bench.report import Report


def main() -> None:
    """Run what was asked for."""
    asked = _arguments()
    logging.getLogger("windlass").setLevel(logging.WARNING)
    report = Report()
    extent = Extent(runs=asked.runs, backlog=asked.backlog, rounds=asked.rounds)
    with places(asked.store, asked.postgres) as found:
        for place in found:
            for name, measure in MEASURES.items():
                if not asked.only or name in asked.only:
                    measure(place, report, extent)
    if asked.json:
        report.write(asked.json)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--store", choices=("both", "sqlite", "postgres"), default="both")
    parser.add_argument(
        "--postgres",
        default="both",
        metavar="wheel|system|both|URL",
        help="the tests' server, the system's, both, or a running one, by its postgresql:// URL",
    )
    parser.add_argument("--only", nargs="*", choices=tuple(MEASURES), default=())
    parser.add_argument("--runs", type=int, default=100_000, help="runs to drain")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="the large backlog")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
