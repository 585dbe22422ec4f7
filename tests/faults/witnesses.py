"""What the witnesses say against the tables: the part of the history that is outside of them.

I1   what was acknowledged is there; one run for each key
I2   when everything is quiet, every run has ended
I3   the counters are what the attempts add up to
I6   a success is the last attempt's, under the highest token, and that attempt had its effect
I7   whoever had lost the lease recorded nothing: of the attempts of a run, one succeeded

The rest is in `tests.conformance.history`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from tests.conformance.history import History
from tests.conformance.places import Row
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.states import Status

Effect = tuple[str, int, int]
"""What a handler wrote down itself: run, attempt, token."""


def contradictions(
    history: History, *, acked: Iterable[str], effects: Collection[Effect], settled: bool
) -> list[str]:
    """Everything that the witnesses contradict, in sentences."""
    there = {row["id"] for row in history.runs}
    found = [f"run {run} was acknowledged and is not there (I1)" for run in {*acked} - there]
    found += _doubled_keys(history)
    found += _lost_effects(history, set(effects))
    attempts = _attempts(history)
    for row in history.runs:
        if settled and row["status"] is None:
            found.append(f"run {row['id']} has not ended (I2)")
        told = _series(row, attempts[row["id"]])
        found += [f"run {row['id']}: {problem}" for problem in told]
    return found


def _doubled_keys(history: History) -> Iterator[str]:
    owners: dict[tuple[str, str, str], str] = {}
    for row in history.runs:
        if row["key"] is not None:
            owner = owners.setdefault((row["tenant"], row["job"], row["key"]), row["id"])
            if owner != row["id"]:
                yield f"runs {owner} and {row['id']} have the same key {row['key']!r} (I1)"


ANEW = (EventType.RETRIED, EventType.RESTARTED, EventType.CONTINUED)
"""After these a run counts its failures and crashes from zero."""


def _lost_effects(history: History, effects: set[Effect]) -> Iterator[str]:
    for row in history.attempts:
        effect = (row["run"], row["attempt"], row["token"])
        if row["outcome"] == AttemptOutcome.SUCCEEDED and effect not in effects:
            yield f"run {row['run']}: attempt {row['attempt']} succeeded without an effect (I6)"


def _attempts(history: History) -> dict[str, list[Row]]:
    """The attempts of each run since its counters last began anew."""
    reopened: defaultdict[str, int] = defaultdict(int)
    for event in history.events:
        if event["type"] in ANEW:
            reopened[event["subject"]] = max(reopened[event["subject"]], event["attempt"])
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in sorted(history.attempts, key=lambda row: int(row["attempt"])):
        if row["attempt"] > reopened[row["run"]]:
            found[row["run"]].append(row)
    return found


def _series(record: Row, attempts: Sequence[Row]) -> Iterator[str]:
    outcomes = [AttemptOutcome(row["outcome"]) for row in attempts]
    succeeded = outcomes.count(AttemptOutcome.SUCCEEDED)
    if succeeded != (record["status"] == Status.SUCCEEDED):
        yield f"is {record['status']}, {succeeded} attempts succeeded (I6, I7)"
    if record["status"] is None:
        return
    if attempts and record["token"] != attempts[-1]["token"]:
        yield f"ended under token {record['token']}, held under {attempts[-1]['token']} (I6)"
    crashes = outcomes.count(AttemptOutcome.CRASHED)
    # Of a shard that gets on, earlier crashes are forgiven.
    forgiven = record["job"].endswith(".shard") and record["crash_count"] < crashes
    if record["crash_count"] != crashes and not forgiven:
        yield f"says {record['crash_count']} crashes, its attempts {crashes} (I3)"
    failures = sum(o in (AttemptOutcome.FAILED, AttemptOutcome.TIMEOUT) for o in outcomes)
    if record["failures"] != failures:
        yield f"says {record['failures']} failures, its attempts {failures} (I3)"
