"""The history checker: what must hold at the end of any test, whatever was done to it.

It reads the tables from outside and shares no code with the stores. `problems` returns every
violation as a sentence, none of them being the only good answer. The numbers are those of the
invariants in the fault plan:

    I1   what was acknowledged is there; one run per key
    I2   exactly one end, equal to the record, and nothing after it
    I3   attempts are 1..n, each with one end; the counters are what the attempts add up to
    I4   tokens rise; no two leases of a run overlap
    I6   a success is the last attempt's, under the highest token, and its effect happened
    I7   effects at least once for each success; attempts that lost their lease recorded nothing
    I8   events are 1..n, in time's order, each allowed where it stands
    I14  a live run has one position, a finished one none

Effects are what handlers wrote down themselves, as (run, attempt, token).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from tests.conformance.places import Row, Tables

Effect = tuple[str, int, int]
Name = tuple[str, str]

POSITIONS = {"timers": "scheduled", "ready": "queued", "leases": "running"}
FINISHED = frozenset({"succeeded", "failed", "canceled"})
_COUNTED = frozenset({"failed", "timeout"})
_WAITING = frozenset({"scheduled", "queued"})
_LIVE = _WAITING | {"running"}
_LATER = "scheduled|queued"  # by the event's delay

# Each event: where the run may stand, and where it stands then (None: where it stood).
_EVENTS: Mapping[str, tuple[frozenset[str], str | None]] = {
    "run.queued": (frozenset({"scheduled"}), "queued"),
    "run.started": (frozenset({"queued"}), "running"),
    "run.succeeded": (frozenset({"running"}), "succeeded"),
    "run.failed": (_LIVE, "failed"),
    "run.retrying": (frozenset({"running"}), _LATER),
    "run.snoozed": (frozenset({"running"}), _LATER),
    "run.interrupted": (frozenset({"running"}), "queued"),
    "run.crashed": (frozenset({"running"}), "queued"),
    "run.cancel_requested": (frozenset({"running"}), None),
    "run.canceled": (_LIVE, "canceled"),
    "run.retried": (FINISHED, "queued"),
    "run.discarded": (FINISHED, None),
}


def check_history(
    tables: Tables,
    *,
    acked: Iterable[str] = (),
    effects: Collection[Effect] | None = None,
    settled: bool = True,
) -> None:
    """Fail with all that is wrong. `settled`: nothing is live any more."""
    found = problems(tables, acked=acked, effects=effects, settled=settled)
    assert not found, "\n".join(["the history does not hold:", *found[:50]])


def problems(
    tables: Tables,
    *,
    acked: Iterable[str] = (),
    effects: Collection[Effect] | None = None,
    settled: bool = True,
) -> list[str]:
    """Return what is wrong, in sentences."""
    history = History.read(tables)
    found = [*_missing(history, acked), *_doubled_keys(history), *_strays(history)]
    for name in history.runs:
        told = _one_run(history.of(name), settled=settled)
        found += [f"run {name[1]}: {sentence}" for sentence in told]
    if effects is not None:
        found += _effects(history, set(effects))
    return found


@dataclass(frozen=True)
class Story:
    """All that is known of one run."""

    record: Row
    positions: Sequence[tuple[str, Row]]
    attempts: Sequence[Row]
    events: Sequence[Row]

    @property
    def status(self) -> str:
        """Where it stands by its rows."""
        if self.record["status"] is not None:
            return str(self.record["status"])
        return POSITIONS[self.positions[0][0]] if self.positions else "nowhere"

    @property
    def place(self) -> Row:
        """The row that carries its counters now."""
        finished = self.record["status"] is not None
        return self.record if finished or not self.positions else self.positions[0][1]

    @property
    def series(self) -> Sequence[Row]:
        """The attempts since an operator last reopened it."""
        reopened = [e["attempt"] for e in self.events if e["type"] == "run.retried"]
        return [a for a in self.attempts if a["attempt"] > max(reopened, default=0)]


@dataclass(frozen=True)
class History:
    """The tables, by run."""

    runs: Mapping[Name, Row]
    positions: Mapping[Name, Sequence[tuple[str, Row]]]
    attempts: Mapping[Name, Sequence[Row]]
    events: Mapping[Name, Sequence[Row]]

    @classmethod
    def read(cls, tables: Tables) -> History:
        """Read it from outside."""
        positions: dict[Name, list[tuple[str, Row]]] = defaultdict(list)
        for table in POSITIONS:
            for row in tables.rows(table):
                positions[row["tenant"], row["id"]].append((table, row))
        return cls(
            runs={(row["tenant"], row["id"]): row for row in tables.rows("runs")},
            positions=positions,
            attempts=_grouped(tables.rows("attempts"), "run", "attempt"),
            events=_grouped(tables.rows("events"), "subject", "seq"),
        )

    def of(self, name: Name) -> Story:
        """One run's part."""
        return Story(
            self.runs[name],
            self.positions.get(name, ()),
            self.attempts.get(name, ()),
            self.events.get(name, ()),
        )


def _grouped(rows: Iterable[Row], by: str, order: str) -> Mapping[Name, Sequence[Row]]:
    groups: dict[Name, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["tenant"], row[by]].append(row)
    return {name: sorted(group, key=lambda row: int(row[order])) for name, group in groups.items()}


# -- the whole ---------------------------------------------------------------------------------


def _missing(history: History, acked: Iterable[str]) -> Iterator[str]:
    there = {run for _, run in history.runs}
    for run in acked:
        if run not in there:
            yield f"I1: run {run} was acknowledged and is not there"


def _doubled_keys(history: History) -> Iterator[str]:
    """A key that expired may be taken again; the tests that let it do so look themselves."""
    owners: dict[tuple[str, str, str], str] = {}
    for (tenant, run), row in history.runs.items():
        if row["key"] is not None:
            other = owners.setdefault((tenant, row["job"], row["key"]), run)
            if other != run:
                yield f"I1: runs {other} and {run} have the same key {row['key']!r}"


def _strays(history: History) -> Iterator[str]:
    for what, groups in (
        ("position", history.positions),
        ("attempt", history.attempts),
        ("event", history.events),
    ):
        for name in set(groups) - set(history.runs):
            yield f"I14: an {what} belongs to run {name[1]}, which is not there"


def _effects(history: History, effects: set[Effect]) -> Iterator[str]:
    for (_, run), row in history.runs.items():
        if row["status"] == "succeeded" and (run, row["attempt"], row["token"]) not in effects:
            yield (
                f"run {run}: I6: attempt {row['attempt']} under token {row['token']} succeeded "
                "without an effect"
            )


# -- one run -----------------------------------------------------------------------------------


def _one_run(story: Story, *, settled: bool) -> Iterator[str]:
    yield from _positions(story, settled=settled)
    yield from _ends(story)
    yield from _attempts(story)
    yield from _counters(story)
    yield from _tokens(story)
    yield from _events(story)


def _positions(story: Story, *, settled: bool) -> Iterator[str]:
    tables = [table for table, _ in story.positions]
    finished = story.record["status"] is not None
    if finished and tables:
        yield f"I14: it is {story.status} and still in {', '.join(tables)}"
    if not finished and len(tables) != 1:
        yield f"I14: it is live and in {', '.join(tables) or 'no position at all'}"
    if settled and not finished:
        yield f"I2: it has not ended but is {story.status}"


def _ends(story: Story) -> Iterator[str]:
    ended = ""
    for event in story.events:
        kind = str(event["type"]).removeprefix("run.")
        if ended and kind not in ("retried", "discarded"):
            yield f"I2: {kind} at seq {event['seq']} comes after its end"
        if kind in FINISHED:
            ended = kind
        elif kind == "retried":
            ended = ""
    if ended != (story.record["status"] or ""):
        yield f"I2: its events end {ended or 'live'}, its record says {story.status}"


def _attempts(story: Story) -> Iterator[str]:
    numbers = [row["attempt"] for row in story.attempts]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"I3: its attempts are {numbers}"
    running = story.status == "running"
    started = sum(event["type"] == "run.started" for event in story.events)
    if not started == len(numbers) + running == story.place["attempt"]:
        yield (
            f"I3: it started {started} times, has {len(numbers)} ended attempts, is "
            f"{story.status} and says attempt {story.place['attempt']}"
        )


def _counters(story: Story) -> Iterator[str]:
    outcomes = [row["outcome"] for row in story.series]
    crashes = outcomes.count("crashed")
    if story.place["crash_count"] != crashes:
        yield f"I3: it says {story.place['crash_count']} crashes, its attempts {crashes}"
    failures = sum(outcome in _COUNTED for outcome in outcomes)
    if story.place["failures"] > failures:
        yield f"I3: it says {story.place['failures']} failures, its attempts {failures}"
    if "succeeded" in outcomes[:-1] or (
        (story.status == "succeeded") != (outcomes[-1:] == ["succeeded"])
    ):
        yield f"I6: it is {story.status}, its attempts ended {', '.join(outcomes)}"


def _tokens(story: Story) -> Iterator[str]:
    leases = [row for table, row in story.positions if table == "leases"]
    held = [(row["token"], row["started_at"], row["finished_at"]) for row in story.attempts]
    held += [(row["token"], row["started_at"], None) for row in leases]
    for (token, _, until), (later, since, _) in pairwise(held):
        if later <= token:
            yield f"I4: token {later} follows token {token}"
        if until is None or since < until:
            yield f"I4: the lease of token {later} began before that of {token} had ended"
    if held and story.place["token"] != held[-1][0]:
        yield f"I4: it says token {story.place['token']}, its last lease {held[-1][0]}"


def _events(story: Story) -> Iterator[str]:
    numbers = [event["seq"] for event in story.events]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"I8: its events are {numbers}"
    if numbers and story.place["seq"] != numbers[-1]:
        yield f"I8: it says seq {story.place['seq']}, its events {numbers[-1]}"
    for one, next_one in pairwise(story.events):
        if next_one["at"] < one["at"]:
            yield f"I8: event {next_one['seq']} is older than event {one['seq']}"
    yield from _transitions(story)


def _transitions(story: Story) -> Iterator[str]:
    if not story.events or story.events[0]["type"] != "run.enqueued":
        yield "I8: it does not begin with run.enqueued"
        return
    status = "scheduled" if _data(story.events[0]) else "queued"
    for event in story.events[1:]:
        allowed, after = _EVENTS[event["type"]]
        if status not in allowed:
            yield f"I8: {event['type']} at seq {event['seq']} while {status}"
        if after == _LATER:
            status = "scheduled" if _data(event).get("delay") else "queued"
        elif after is not None:
            status = after
    if status != story.status:
        yield f"I8: its events lead to {status}, it is {story.status}"


def _data(event: Row) -> dict[str, Any]:
    """An event's data: text in one store, a value in the other."""
    data = event["data"]
    if isinstance(data, str):
        data = msgspec.json.decode(data)
    return data or {}
