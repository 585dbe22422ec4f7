"""The part of the history checker that reads who comes after whom: see `history` (I23)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.conformance.places import Row

Name = tuple[str, str]


def follower_violations(
    runs: Sequence[Row], timers: Sequence[Row], follows: Sequence[Row], wakes: Sequence[Row]
) -> Iterator[str]:
    """What is wrong between runs and those that come after them, in sentences."""
    records = {(row["tenant"], row["id"]): row for row in runs}
    held = {(row["tenant"], row["id"]) for row in timers if row.get("why") == "held"}
    woken = {(row["tenant"], row["run"]) for row in wakes}
    of: defaultdict[Name, list[Row]] = defaultdict(list)
    for row in follows:
        of[row["tenant"], row["id"]].append(row)
    for name, record in records.items():
        if bool((record["links"] or 0) & 8) != (name in of):
            yield f"run {name} has links {record['links']}, and comes after {len(of[name])} (I23)"
    for name in held & set(of):
        if name not in woken:
            yield from _lost(name, of[name], records)


def _lost(name: Name, rows: Sequence[Row], records: dict[Name, Row]) -> Iterator[str]:
    """A run that is held, and that nobody will look at."""
    if all(row["outcome"] is not None for row in rows):
        yield f"run {name} is held by runs that have all ended (I23)"
    for row in rows:
        awaited = records.get((name[0], row["awaited"]))
        if row["outcome"] is None and (
            awaited is None or awaited["status"] is not None or not (awaited["links"] or 0) & 4
        ):
            yield f"run {name} waits for {row['awaited']}, whose end nobody will notice (I23)"
        elif row["outcome"] not in (None, "succeeded") and row["mode"] == "cancel":
            yield f"run {name} is held, though {row['awaited']} was {row['outcome']} (I23)"
