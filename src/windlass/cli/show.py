"""`windlass show`: everything about one run."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, json_option, place_options

if TYPE_CHECKING:
    from windlass.client import Run
    from windlass.domain.run import Attempt, Event

LATEST = 20
_LABEL = 10


@click.command
@click.argument("run_id", metavar="RUN")
@click.option("--events", "all_events", is_flag=True, help=f"All events, not the latest {LATEST}.")
@json_option
@place_options
def show(place: StorePlace, run_id: str, all_events: bool, as_json: bool) -> None:
    """Show everything about one run: status, input, result, attempts, traceback, timeline.

    With --json it is one JSON object; --events adds the events to it.
    """
    from windlass.cli import output

    app = place.store()
    run = app.get(run_id)
    events = run.events()
    if as_json:
        found = dict(run.to_dict())
        if all_events:
            found["events"] = [_event_dict(event) for event in events]
        click.echo(output.to_json(found, indent=2))
        return
    left_out = 0 if all_events else max(0, len(events) - LATEST)
    for line in describe(run, events[left_out:], left_out, app.sources.now()):
        click.echo(line)


def describe(run: "Run", events: "Sequence[Event]", left_out: int, now: datetime) -> Iterator[str]:
    """The lines about a run."""
    from windlass.cli.output import faint, heading

    yield from _facts(run, now)
    if run.attempts:
        yield from ("", heading("attempts"), *_attempts(run.attempts))
    failed = next((a for a in reversed(run.attempts) if a.error is not None), None)
    if failed is not None and failed.error is not None and failed.error.traceback:
        yield from ("", heading(f"traceback of attempt {failed.attempt}"))
        yield from _traceback(failed.error.traceback)
    yield from ("", heading("events"))
    if left_out:
        yield faint(f"  … {left_out} earlier ones: --events shows all")
    yield from _events(events, run.created_at)


def _facts(run: "Run", now: datetime) -> Iterator[str]:
    from windlass.cli import output
    from windlass.cli.runs import running_text

    yield _fact("run", run.id)
    yield _fact("job", output.one_line(run.job))
    yield _fact("status", _status(run, now))
    if run.status == "running" and running_text(run):
        yield _fact("progress", running_text(run))
    yield _fact("queue", f"{output.one_line(run.queue)}, priority {run.priority}")
    for label, text in (("key", run.key), ("tags", ", ".join(run.tags)), ("worker", run.worker)):
        if text:
            yield _fact(label, output.one_line(text))
    yield _fact("counts", _counts(run))
    for label, moment in _times(run):
        yield _fact(label, f"{output.clock_time(moment)} ({output.ago(moment, now)})")
    yield _fact("input", output.readable(run.input))
    if run.status == "succeeded":
        yield _fact("result", output.readable(run.result))


def _fact(label: str, text: str) -> str:
    from windlass.cli.output import faint

    return f"{faint(label.ljust(_LABEL))}{text}"


def _status(run: "Run", now: datetime) -> str:
    from windlass.cli import output
    from windlass.cli.runs import error_text

    why = {
        "failed": error_text(run),
        "canceled": output.one_line(run.reason or ""),
        "scheduled": _waiting(run, now),
        "running": "asked to end" if run.cancel_requested else "",
    }.get(run.status.value, "")
    status = output.status_text(run.status.value)
    if run.failure is not None:
        status = f"{status} ({run.failure})"
    discarded = " (discarded)" if run.record.discarded_at is not None else ""
    return (f"{status}: {why}" if why else status) + discarded


def _waiting(run: "Run", now: datetime) -> str:
    from windlass.cli.output import ago
    from windlass.cli.runs import error_text

    due = f"due {ago(run.due_at, now)}" if run.due_at is not None else ""
    why = run.record.waiting_for or "delay"
    return f"{why}, {due}" + (f", after {error_text(run)}" if run.error is not None else "")


def _counts(run: "Run") -> str:
    options = run.record.options
    most = options.max_attempts if options is not None else None
    counts = [
        (run.attempt, "attempt", "attempts", None),
        (run.failures, "failure", "failures", most),
        (run.crash_count, "crash", "crashes", None),
    ]
    return ", ".join(
        f"{n} {one if n == 1 else many}{f' of at most {most}' if most is not None else ''}"
        for n, one, many, most in counts
    )


def _times(run: "Run") -> Iterator[tuple[str, datetime]]:
    yield "created", run.created_at
    if run.scheduled_for > run.created_at:
        yield "scheduled", run.scheduled_for
    for label, moment in (
        ("due", run.due_at),
        ("expires", run.expires_at),
        ("deadline", run.deadline_at),
        ("started", run.started_at),
        ("finished", run.finished_at),
    ):
        if moment is not None:
            yield label, moment


def _attempts(attempts: "Sequence[Attempt]") -> list[str]:
    from windlass.cli import output

    rows = [
        (
            str(a.attempt),
            output.status_text(a.outcome.value),
            output.clock_time(a.started_at),
            output.took(a.started_at, a.finished_at),
            output.one_line(a.worker or ""),
            output.one_line(f"{a.error.type}: {a.error.message}") if a.error is not None else "",
        )
        for a in attempts
    ]
    titles = (">#", "OUTCOME", "STARTED", ">TOOK", "WORKER", "ERROR")
    return output.table(titles, rows, indent="  ")


def _traceback(text: str) -> Iterator[str]:
    from windlass.logs import escape

    for line in text.splitlines():
        yield f"    {escape(line)}".rstrip()


def _events(events: "Sequence[Event]", created_at: datetime) -> list[str]:
    from windlass.cli import output

    rows = [
        (
            str(event.seq),
            f"+{output.took(created_at, event.at)}",
            event.type.value.removeprefix("run."),
            str(event.attempt or ""),
            output.event_text(event),
        )
        for event in events
    ]
    return output.table((">#", ">AFTER", "EVENT", ">ATTEMPT", "DETAILS"), rows, indent="  ")


def _event_dict(event: "Event") -> dict[str, Any]:
    from windlass.codec import instant_text

    return {
        "seq": event.seq,
        "type": event.type.value,
        "at": instant_text(event.at),
        "attempt": event.attempt,
        "data": event.data,
    }
