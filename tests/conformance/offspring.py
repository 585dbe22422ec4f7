"""The part of the history checker that reads children and wakes: see `history` (I22)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tests.conformance.places import Row

Name = tuple[str, str]


def child_violations(
    runs: Sequence[Row],
    timers: Sequence[Row],
    steps: Sequence[Row],
    children: Sequence[Row],
    wakes: Sequence[Row],
) -> Iterator[str]:
    """What is wrong between runs and their children, in sentences."""
    records = {(row["tenant"], row["id"]): row for row in runs}
    parked = {(row["tenant"], row["id"]): row for row in timers}
    woken = {(row["tenant"], row["run"]) for row in wakes}
    groups: defaultdict[tuple[str, str, int, str], list[Row]] = defaultdict(list)
    for row in children:
        groups[row["tenant"], row["parent"], row["generation"], row["path"]].append(row)
        yield from _wrong_child(row, records, parked)
    yield from _wrong_links(runs, children)
    for step in steps:
        if step["kind"] in ("child", "children"):
            group = groups[step["tenant"], step["run"], step["generation"], step["path"]]
            yield from _wrong_step(step, group)
    for name, row in parked.items():
        paths = _decoded(row.get("waits")) or () if row.get("why") == "wait" else ()
        for path in paths:
            group = groups[(*name, 0, path)]
            waits = any(
                (step["tenant"], step["run"], step["path"]) == (*name, path)
                and step["state"] == "waiting"
                and step["kind"] in ("child", "children")
                for step in steps
            )
            ended = all(child["state"] == "ended" for child in group)
            if waits and ended and name not in woken:
                yield f"run {name} waits in {path} for children that have all ended (I22)"


def _wrong_child(row: Row, records: Any, parked: Any) -> Iterator[str]:
    name = row["tenant"], row["id"]
    about = f"child {name} of {row['parent']}"
    record = records.get(name)
    ended = record is None or record["status"] is not None
    if ended != (row["state"] == "ended"):
        status = None if record is None else record["status"]
        yield f"{about} is {row['state']}, and its record {status} (I22)"
    held = name in parked and parked[name].get("why") == "held"
    if held != (row["state"] == "held"):
        yield f"{about} is {row['state']}, and its timer says otherwise (I22)"


def _wrong_links(runs: Sequence[Row], children: Sequence[Row]) -> Iterator[str]:
    are_children = {(row["tenant"], row["id"]) for row in children}
    are_parents = {(row["tenant"], row["parent"]) for row in children}
    for run in runs:
        name = run["tenant"], run["id"]
        links = (name in are_children) + 2 * (name in are_parents)
        if (run["links"] or 0) & 3 != links:
            yield f"run {name} has links {run['links']} instead of {links} (I22)"


def _wrong_step(step: Row, group: Sequence[Row]) -> Iterator[str]:
    about = f"step {step['path']} of run {step['run']}"
    if step["state"] in ("done", "failed") and step["generation"] == 0:
        live = [row["id"] for row in group if row["state"] != "ended"]
        if live and not _is_reopened(step):
            yield f"{about} is {step['state']} before its children {live} (I22)"
    if step["kind"] == "child" and len(group) > 1:
        yield f"{about} has started {len(group)} children instead of one (I22)"


def _is_reopened(step: Row) -> bool:
    """A child may be reopened after its parent has gone on."""
    return bool(step["state"] == "failed")


def _decoded(document: Any) -> Any:
    return msgspec.json.decode(document) if isinstance(document, str) else document
