"""The history checker's part about schedules (I10), on rows as `history` has them.

A slot has one run at most, and the slot's row and the run name each other; a slot that did not
fire has none. Counters and events of a schedule agree with its slots. Every live run of a schedule
is among those that its overlap is judged by. What is left of a deleted schedule is its runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.conformance.places import Row

Slot = tuple[str, str, Any]
"""A tenant, a schedule, an instant."""


def slot_violations(
    schedules: Sequence[Row],
    slots: Sequence[Row],
    live: Sequence[Row],
    events: Sequence[Row],
    runs: Sequence[Row],
) -> list[str]:
    """What is wrong with the schedules, in sentences."""
    made = [row for row in runs if row["schedule"] is not None]
    known = {(row["tenant"], row["id"]) for row in schedules}
    kept = [row for row in made if (row["tenant"], row["schedule"]) in known]
    return [
        *_runs_of_slots({_slot_of(row): row for row in slots}, kept),
        *_twice(kept),
        *_unseen(live, kept),
        *_strays(known, slots, live),
        *_counts(schedules, events, kept),
    ]


def _slot_of(row: Row) -> Slot:
    return row["tenant"], row["schedule"], row["slot"]


def _runs_of_slots(slots: Mapping[Slot, Row], kept: Sequence[Row]) -> Iterator[str]:
    runs = {_slot_of(row): row["id"] for row in kept}
    for slot, row in slots.items():
        if row["outcome"] == "fired" and runs.get(slot) != row["run"]:
            yield f"slot {slot} names run {row['run']}, which is not its run (I10)"
        if row["outcome"] != "fired" and (slot in runs or row["run"] is not None):
            yield f"slot {slot} is {row['outcome']} and has a run (I10)"
    for slot, run in runs.items():
        if slot not in slots:
            yield f"run {run} is of slot {slot}, which is not recorded (I10)"


def _twice(kept: Sequence[Row]) -> Iterator[str]:
    for slot, number in Counter(_slot_of(row) for row in kept).items():
        if number > 1:
            yield f"slot {slot} has {number} runs (I10)"


def _unseen(live: Sequence[Row], kept: Sequence[Row]) -> Iterator[str]:
    seen = {(row["tenant"], row["run"]) for row in live}
    for row in kept:
        if row["status"] is None and (row["tenant"], row["id"]) not in seen:
            yield f"run {row['id']} is live, and overlap is not judged by it (I10)"


def _strays(
    known: set[tuple[str, str]], slots: Sequence[Row], live: Sequence[Row]
) -> Iterator[str]:
    for row in [*slots, *live]:
        if (row["tenant"], row["schedule"]) not in known:
            yield f"slot {_slot_of(row)} is of no schedule (I10)"


def _counts(schedules: Sequence[Row], events: Sequence[Row], kept: Sequence[Row]) -> Iterator[str]:
    fired = Counter((row["tenant"], row["schedule"]) for row in kept)
    skipped = Counter(
        (row["tenant"], row["subject"]) for row in events if row["type"] == "schedule.skipped"
    )
    numbers: dict[tuple[str, str], list[int]] = {}
    for row in events:
        numbers.setdefault((row["tenant"], row["subject"]), []).append(row["seq"])
    for row in schedules:
        name = (row["tenant"], row["id"])
        if row["fired"] != fired[name]:
            yield f"schedule {name} counts {row['fired']} runs and has {fired[name]} (I10)"
        if row["skipped"] != skipped[name]:
            yield f"schedule {name} skipped {row['skipped']} and told {skipped[name]} (I10)"
        if sorted(numbers.get(name, [])) != list(range(1, row["seq"] + 1)):
            yield f"schedule {name} is at seq {row['seq']}, its events {numbers.get(name)} (I10)"
