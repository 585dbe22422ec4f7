"""A verb for all runs that a filter selects: the protocol, and what it answers.

**One transaction** applies the verb to `MOST_AT_ONCE` runs at most (`apply_to_many`), each in a
savepoint and by the rules of the verb for one run. A run that refuses is counted, with its reason,
and undoes no other. The ids are read before, in other transactions, in pages; a run may have moved
in between, and then the rules decide by what it is now.

**If it dies in the middle**, by a kill, a Ctrl-C or an outage, the transactions that were committed
stay, and the rest is as it was: nothing is half done. The error carries a note with the count so
far. The same call again does the rest, as what was canceled, retried or discarded is no longer
selected. If only the reply was lost, the store repeats a verb that is harmless to repeat (cancel,
reprioritize), as it does for one run; the others raise, and up to `MOST_AT_ONCE` runs more than
noted may be done.

**It ends.** It walks once over the selection, from the newest id downwards, and never goes back:
what fails again after a retry, or is enqueued meanwhile, is above the walk and not visited.

**Locks.** SQLite has one writer. On PostgreSQL the transaction takes the locks that it needs before
it changes anything, by id, and waits for none of them: what somebody else has locked is left out as
busy. So two such calls, or one and a worker, cannot wait for each other in a circle, and somebody's
open transaction delays what it holds and nothing else. What was busy is tried again a few times at
the end, and then counted as such.

**Counted** are the runs that the verb was applied to (`done`), and those that it was not, by reason
(`refused`): their status, or `busy`, `deleted`, `run_expires`, `key_taken`. Without a status in the
filter, only the runs are looked at that the verb is meant for (`by_default`): live ones to cancel,
dead letters to retry or discard, waiting ones to reschedule or reprioritize. The others are not
refused, they are not selected. `dry_run` counts the same, and changes nothing; it judges by the
status alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass.acting import actor
from windlass.client.filters import make_filter
from windlass.client.run import Run
from windlass.client.scope import Scope
from windlass.domain.bulk import MOST_AT_ONCE, Applied, BulkVerb, reason_of
from windlass.domain.listing import FoundIds, RunFilter
from windlass.domain.run import RunRecord, RunRef
from windlass.domain.states import Status
from windlass.errors import StoreBusy, WindlassError
from windlass.store.flow import Flow, Hint, Pause
from windlass.transport.interface import encode_message

FOUND_AT_ONCE = 10 * MOST_AT_ONCE
SAMPLE = 10
BUSY_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds, between tries of what others have locked


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """What a verb did to a selection of runs, or with `dry_run` would do."""

    verb: str
    dry_run: bool
    done: int
    """How many runs the verb was applied to, or would be."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """How many it was not applied to, by reason: a status, `busy`, `deleted`, `run_expires`, …"""
    sample: Sequence[Run[Any]] = ()
    """With `dry_run`: the newest runs of the selection, at most ten."""
    errors: Mapping[str, WindlassError] = field(default_factory=dict)
    """Why a run was left out, by its id, for the first ten."""

    @property
    def matched(self) -> int:
        """How many runs were looked at."""
        return self.done + sum(self.refused.values())

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON has them, and the ids of the sample."""
        counts = {"verb": self.verb, "dry_run": self.dry_run, "done": self.done}
        return counts | {"refused": dict(self.refused), "sample": [run.id for run in self.sample]}


def apply_to_all(
    scope: Scope, verb: BulkVerb, given: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Flow[BulkResult]:
    """Apply a verb to all runs that the filters select."""
    tally = _Tally()
    try:
        yield from _walk(scope, verb, (yield from _narrowed(scope, verb, given)), arguments, tally)
    except BaseException as error:
        if tally.done:
            error.add_note(f"{tally.done} runs were {verb.done} before this.")
        raise
    return BulkResult(
        verb=verb.name,
        dry_run=False,
        done=tally.done,
        refused=dict(tally.refused),
        errors=tally.errors,
    )


def try_on_all(scope: Scope, verb: BulkVerb, given: Mapping[str, Any]) -> Flow[BulkResult]:
    """Count what a verb would be applied to, by status; change nothing."""
    asked = yield from _narrowed(scope, verb, given)
    done, refused = 0, Counter[str]()
    statuses = asked.statuses
    for status in sorted(Status if statuses is None else statuses):
        count = yield from count_all(scope, msgspec.structs.replace(asked, status=status))
        if status in verb.where:
            done += count
        elif count:
            refused[status.value] += count
    found: FoundIds = yield scope.store.operations.find_runs(
        msgspec.structs.replace(asked, limit=SAMPLE)
    )
    records: Sequence[RunRecord] = yield scope.store.operations.get_runs(scope.tenant, found.ids)
    sample = [Run(scope, record) for record in records]
    return BulkResult(verb=verb.name, dry_run=True, done=done, refused=dict(refused), sample=sample)


def count_all(scope: Scope, asked: RunFilter) -> Flow[int]:
    """Count the runs that a filter selects, page by page."""
    count, place = 0, asked.before
    while True:
        page = msgspec.structs.replace(asked, before=place, limit=1000)
        found: FoundIds = yield scope.store.operations.find_runs(page)
        count, place = count + len(found.ids), found.next
        if place is None:
            return count


@dataclass(slots=True)
class _Tally:
    """What was done so far."""

    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    errors: dict[str, WindlassError] = field(default_factory=dict)

    def add(self, applied: Applied) -> None:
        if applied.error is None:
            self.done += 1
            return
        self.refused[reason_of(applied.error)] += 1
        if len(self.errors) < SAMPLE:
            self.errors[applied.id] = applied.error


def _narrowed(scope: Scope, verb: BulkVerb, given: Mapping[str, Any]) -> Flow[RunFilter]:
    """The filter; where it says nothing of the status, the runs that the verb is meant for."""
    said = "status" in given or given.get("dead", False)
    return (yield from make_filter(scope, given if said else {**given, **verb.by_default}))


def _walk(
    scope: Scope, verb: BulkVerb, asked: RunFilter, arguments: Mapping[str, Any], tally: _Tally
) -> Flow[None]:
    """Visit the selection once, downwards; then what was busy, a few times."""
    busy: list[str] = []
    place = asked.before
    while True:
        page = msgspec.structs.replace(asked, before=place, limit=FOUND_AT_ONCE)
        found: FoundIds = yield scope.store.operations.find_runs(page)
        busy += yield from _apply(scope, verb, found.ids, arguments, tally)
        place = found.next
        if place is None:
            break
    for pause in BUSY_PAUSES:
        if not busy:
            return
        yield Pause(pause)
        busy = yield from _apply(scope, verb, busy, arguments, tally)
    for each in busy:
        tally.add(Applied(each, error=StoreBusy("Another transaction holds the run.")))


def _apply(
    scope: Scope,
    verb: BulkVerb,
    ids: Sequence[str],
    arguments: Mapping[str, Any],
    tally: _Tally,
) -> Flow[list[str]]:
    """Apply the verb, transaction by transaction; return the runs that others have locked."""
    busy = []
    for start in range(0, len(ids), MOST_AT_ONCE):
        part = ids[start : start + MOST_AT_ONCE]
        given = {**arguments, "by": actor()}
        call = scope.store.operations.apply_to_many(verb.name, scope.tenant, part, given)
        answers: Sequence[Applied] = yield call
        for applied in answers:
            if isinstance(applied.error, StoreBusy):
                busy.append(applied.id)
            else:
                tally.add(applied)
        yield from _announce(scope, verb, answers)
    return busy


def _announce(scope: Scope, verb: BulkVerb, answers: Iterable[Applied]) -> Flow[None]:
    """Tell workers of runs that are ready now, and those whose runs are asked to end, or have."""
    moved = [each for each in answers if each.error is None]
    ready = [
        encode_message(RunRef(scope.tenant, each.id))
        for each in moved
        if each.status is Status.QUEUED
    ]
    if ready:
        scope.transport.publish(ready)
    asked = verb.name == "terminate" or any(each.status is Status.RUNNING for each in moved)
    if ready or (moved and asked):
        yield Hint()
