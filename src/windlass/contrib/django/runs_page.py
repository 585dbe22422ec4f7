"""What the pages of the admin show of runs, as values for their templates."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from windlass.app import Windlass
from windlass.client import Run
from windlass.contrib.django.times import local
from windlass.domain.counts import Counts
from windlass.domain.run import Attempt, Event
from windlass.domain.states import TRANSITIONS, Status

PER_PAGE = 50
FILTERS = ("status", "job", "queue")
STATUSES = tuple(status.value for status, verbs in TRANSITIONS.items() if verbs)
"""Those that a run can have; the others are reserved."""
TIMES = (
    ("Enqueued", "created_at"),
    ("Scheduled for", "scheduled_for"),
    ("Due", "due_at"),
    ("Started", "started_at"),
    ("Finished", "finished_at"),
    ("Expires", "expires_at"),
    ("Deadline", "deadline_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A choice above the list."""

    name: str
    chosen: str
    choices: Sequence[tuple[str, str]]  # value and label


def describe_list(app: Windlass, query: Mapping[str, str]) -> dict[str, Any]:
    """A page of runs and its filters. Raises WindlassError, BadOption for a filter among them."""
    chosen = {name: query.get(name, "") for name in FILTERS}
    given: dict[str, Any] = {name: value for name, value in chosen.items() if value}
    before = query.get("before", "")
    page: dict[str, Any] = {"before": before} if before else {}
    # One more than is shown says whether there is another page.
    found = app.list(limit=PER_PAGE + 1, **given, **page)
    runs, more = found[:PER_PAGE], found[PER_PAGE:]
    return {
        "runs": [_line(run) for run in runs],
        "filters": _filters(app, chosen),
        "filtered": bool(given),
        "older": urlencode({**given, "before": runs[-1].id}) if more else None,
        "newest": urlencode(given) if before else None,
    }


def describe_run(app: Windlass, id: str) -> dict[str, Any]:
    """All that is known of a run. Raises RunNotFound."""
    run = app.get(id)
    return {
        "title": f"Run {run.id}",
        "run": run,
        "facts": [(label, value) for label, value in _facts(run) if value not in (None, "")],
        "input": _json(run.input),
        "metadata": _json(run.metadata) if run.metadata else None,
        "result": _json(run.raw_result) if run.status is Status.SUCCEEDED else None,
        "attempts": [_attempt(attempt) for attempt in reversed(run.attempts)],
        "older_attempts": max(0, run.attempt - len(run.attempts) - (run.finished_at is None)),
        "events": [_event(event) for event in run.events()],
    }


def _filters(app: Windlass, chosen: Mapping[str, str]) -> Sequence[Filter]:
    statuses = app.counts(by="status")
    jobs = {*app.jobs, *app.counts(by="job")}
    queues = {*(spec.queue for spec in app.jobs.specs()), *app.counts(by="queue")}
    choices = {
        "status": [(name, _counted(name, statuses)) for name in STATUSES],
        "job": [(name, name) for name in sorted(jobs)],
        "queue": [(name, name) for name in sorted(queues)],
    }
    for name, value in chosen.items():
        if value and value not in dict(choices[name]):
            choices[name].append((value, value))
    return [Filter(name=n, chosen=chosen[n], choices=choices[n]) for n in FILTERS]


def _counted(name: str, counts: Counts) -> str:
    about = "~" if name in counts.estimated else ""
    return f"{name} ({about}{counts.get(name, 0):,})"


def _line(run: Run) -> dict[str, Any]:
    return {
        "run": run,
        "created_at": local(run.created_at),
        "started_at": local(run.started_at),
        "finished_at": local(run.finished_at),
    }


def _facts(run: Run) -> Sequence[tuple[str, object]]:
    times = [(label, local(getattr(run, name))) for label, name in TIMES]
    return [
        ("Status", run.status.value),
        ("Failure", run.failure and run.failure.value),
        ("Reason", run.reason),
        ("Sleeps or waits in", ", ".join(run.waits)),
        ("Job", run.job),
        ("Queue", run.queue),
        ("Priority", run.priority),
        ("Key", run.key),
        ("Tags", ", ".join(run.tags)),
        ("Attempts", run.attempt),
        ("Worker", run.worker),
        ("Progress", None if run.progress is None else f"{run.progress:.0%}"),
        ("Progress message", run.progress_message),
        ("Phase", run.phase),
        ("Units", None if run.units is None else str(run.units)),
        *times,
        ("Schedule", run.schedule),
        ("Enqueued by", run.enqueued_by),
        ("Again of", run.again_of),
        ("Trace", run.trace),
    ]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    seconds = (attempt.finished_at - attempt.started_at).total_seconds()
    return {
        "number": attempt.attempt,
        "outcome": attempt.outcome.value,
        "worker": attempt.worker,
        "started_at": local(attempt.started_at),
        "seconds": f"{seconds:,.3f}",
        "error": attempt.error,
    }


def _event(event: Event) -> dict[str, Any]:
    moment: datetime | None = local(event.at)
    data = None if event.data is None else json.dumps(event.data, ensure_ascii=False)
    return {"type": event.type.value, "at": moment, "attempt": event.attempt, "data": data}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
