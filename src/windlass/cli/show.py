"""`windlass show`: everything about one run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, json_option, place_options, whole_id

if TYPE_CHECKING:
    from windlass.client import Run
    from windlass.domain.batch import BatchCounts
    from windlass.domain.phase import PhaseState
    from windlass.domain.run import Attempt, Event
    from windlass.domain.step import Generation, Signal, Step
    from windlass.domain.stopping import StopRequest

LATEST = 20
LATEST_ATTEMPTS = 10
MOST_CHILDREN = 10
_LABEL = 10


@click.command
@click.argument("run_id", metavar="RUN")
@click.option(
    "--steps", "all_steps", is_flag=True, help="All steps and signals, not what matters most."
)
@click.option(
    "--events", "all_events", is_flag=True, help="All attempts and events, not the latest."
)
@click.option(
    "--generation", type=click.IntRange(min=1), metavar="N",
    help="The steps of an input that the run went on from, by its number.",
)  # fmt: skip
@json_option
@place_options
def show(
    place: StorePlace,
    run_id: str,
    all_steps: bool,
    all_events: bool,
    generation: int | None,
    as_json: bool,
) -> None:
    """Show everything about one run: status, input, result, phases, steps, attempts, traceback.

    Durable steps are a tree, with what each returned or failed by, and what the run waits for.
    A handler that returned ContinueAs has left generations: inputs and steps of before.
    With --json it is one JSON object, with all steps and signals; --events adds the events to it.
    """
    from windlass.cli import output
    from windlass.cli.past import check_known

    app = place.store()
    run = app.get(whole_id(app, run_id))
    generations = run.generations()
    check_known(run, generations, generation)
    story = Story(
        events=run.events(), steps=run.steps(generation=generation or 0), signals=run.signals(),
        children=run.children(limit=None if all_steps or as_json else MOST_CHILDREN + 1),
        phases=run.phases(), all_steps=all_steps, all_events=all_events,
        generations=generations, generation=generation,
        after=run.after(), followers=run.followers(), batch=run.batch_counts(),
        deletes_at=app.deletes_at(run.id),
    )  # fmt: skip
    if as_json:
        click.echo(output.to_json(_document(run, story), indent=2))
        return
    for line in describe(run, story, app.sources.now()):
        click.echo(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened to a run, and how much of it is to be shown."""

    events: "Sequence[Event]"
    steps: "Sequence[Step]" = ()
    signals: "Sequence[Signal]" = ()
    children: "Sequence[Run]" = ()
    phases: "Sequence[PhaseState]" = ()
    after: "Sequence[Run]" = ()
    followers: "Sequence[Run]" = ()
    batch: "BatchCounts | None" = None
    deletes_at: datetime | None = None
    all_steps: bool = False
    all_events: bool = False
    generations: "Sequence[Generation]" = ()
    generation: int | None = None  # the one whose steps these are, unless they are the run's own


def describe(run: "Run", story: Story, now: datetime) -> Iterator[str]:
    """The lines about a run."""
    from windlass.cli.output import heading

    yield from _facts(run, story, now)
    yield from _phases(run, story, now)
    yield from _remembered(run, story, now)
    if run.attempts:
        yield from ("", heading("attempts"))
        shown = run.attempts if story.all_events else run.attempts[-LATEST_ATTEMPTS:]
        yield from _left_out(len(run.attempts) - len(shown), "earlier ones")
        yield from _attempts(shown)
    failed = next((a for a in reversed(run.attempts) if a.error is not None), None)
    if failed is not None and failed.error is not None and failed.error.traceback:
        yield from ("", heading(f"traceback of attempt {failed.attempt}"))
        yield from _traceback(failed.error.traceback)
    yield from ("", heading("events"))
    # What became of steps is in their tree.
    own = [event for event in story.events if not event.type.value.startswith("step.")]
    latest = story.events if story.all_events else own[-LATEST:]
    others = "more" if len(own) < len(story.events) else "earlier ones"
    yield from _left_out(len(story.events) - len(latest), others)
    yield from _events(latest, run.created_at)


def _phases(run: "Run", story: Story, now: datetime) -> Iterator[str]:
    """The phases of a run, if it is one of a pipeline."""
    from windlass.cli.phase_table import draw_phases, is_pipeline

    if is_pipeline(story.phases):
        yield ""
        yield from draw_phases(run, story.phases, now)


def _remembered(run: "Run", story: Story, now: datetime) -> Iterator[str]:
    """The steps of a run, and its signals, if it has any."""
    if not story.steps and not story.signals and not story.generations:
        return
    from windlass.cli.batch_line import draw_batch
    from windlass.cli.child_table import draw_children
    from windlass.cli.past import draw_generations
    from windlass.cli.step_tree import draw_signals, draw_steps

    if story.generations:
        yield ""
        yield from draw_generations(run, story.generations, whole=story.all_steps)
    if story.steps:
        yield ""
        yield from draw_steps(
            run, story.steps, now, whole=story.all_steps, generation=story.generation
        )
    if story.batch is not None and story.batch.shards:
        yield ""
        yield draw_batch(story.batch)
    if story.children:
        yield ""
        yield from draw_children(
            story.children, now, most=None if story.all_steps else MOST_CHILDREN
        )
    if story.signals:
        yield ""
        yield from draw_signals(run, story.signals, whole=story.all_steps)


def _left_out(count: int, which: str) -> Iterator[str]:
    from windlass.cli.output import faint

    if count:
        yield faint(f"  … {count:,} {which}: --events shows all")


def _document(run: "Run", story: Story) -> dict[str, Any]:
    from msgspec import to_builtins

    from windlass.cli.past import generation_dict
    from windlass.cli.phase_table import phase_dict
    from windlass.cli.send_signal import signal_dict
    from windlass.cli.step_tree import step_dict
    from windlass.domain.stopping import stop_requests

    found = dict(run.to_dict()) | {"handled_by": _handled_by(run, story.events)}
    found["generations"] = [generation_dict(one) for one in story.generations]
    found["phases"] = [phase_dict(phase) for phase in story.phases]
    found["steps"] = [step_dict(step) for step in story.steps]
    found["children"] = [
        {"id": child.id, "job": child.job, "status": child.status} for child in story.children
    ]
    if story.batch is not None and story.batch.shards:
        found["batch"] = to_builtins(story.batch)
    for name, linked in (("after", story.after), ("followers", story.followers)):
        found[name] = [{"id": one.id, "job": one.job, "status": one.status} for one in linked]
    found["stop_requests"] = [request.to_dict() for request in stop_requests(story.events)]
    found["stale_at"] = None if run.stale_at is None else run.stale_at.isoformat()
    at = story.deletes_at
    found["deletes_at"] = None if at is None else at.isoformat()
    found["signals"] = [signal_dict(signal) for signal in story.signals]
    if story.all_events:
        found["events"] = [_event_dict(event) for event in story.events]
    return found


def _handled_by(run: "Run", events: "Sequence[Event]") -> str | None:
    """The run of its failure handler, if it has failed for good and there is one."""
    if run.status != "failed":
        return None
    failed = next((event for event in reversed(events) if event.type == "run.failed"), None)
    handler = None if failed is None else (failed.data or {}).get("handled_by")
    return None if handler is None else str(handler)


def _facts(run: "Run", story: Story, now: datetime) -> Iterator[str]:
    from windlass.cli import output
    from windlass.cli.runs import running_text
    from windlass.domain.stopping import stop_requests

    yield _fact("run", run.id)
    yield _fact("job", output.one_line(run.job))
    status = _fact("status", _status(run, story, now))
    yield output.fit(status, output.columns()) if run.waits else status
    if run.status == "running" and running_text(run):
        yield _fact("progress", running_text(run))
    elif run.units is not None:
        yield _fact("units", str(run.units))
    yield _fact("queue", f"{output.one_line(run.queue)}, priority {run.priority}")
    for label, text in (
        ("key", run.key),
        ("tags", ", ".join(run.tags)),
        ("trace", run.record.trace),
        ("child of", run.parent),
        ("handles" if _handles_failure(run) else "by run", None if run.parent else run.enqueued_by),
        ("handler", _handled_by(run, story.events)),
        ("asked by", run.asked_by),
        ("again of", run.again_of),
        ("worker", run.worker),
    ):
        if text:
            yield _fact(label, output.one_line(text))
    for label, linked in (("after", story.after), ("before", story.followers)):
        for other in linked[:MOST_CHILDREN]:
            yield _fact(label, output.one_line(f"{other.id}, {other.job}, {other.status.value}"))
        if len(linked) > MOST_CHILDREN:
            yield _fact(label, f"{len(linked) - MOST_CHILDREN:,} more: --json shows all")
    yield _fact("counts", _counts(run))
    for request in stop_requests(story.events):
        yield _fact(request.kind, _stopped(request, now))
    for label, moment in _times(run):
        yield _fact(label, f"{output.clock_time(moment)} ({output.ago(moment, now)})")
    if story.deletes_at is not None:
        due = output.ago(max(story.deletes_at, now), now)
        yield _fact("deleted", f"{output.clock_time(story.deletes_at)} ({due}), or a little later")
    if run.metadata:
        yield _fact("metadata", output.readable(run.metadata))
    yield _fact("input", output.readable(run.input))
    if run.status == "succeeded":
        yield _fact("result", output.readable(run.raw_result))


def _stopped(request: "StopRequest", now: datetime) -> str:
    """How long a cancel or a pause took, or takes."""
    from windlass.cli import output

    asked = f"asked {output.clock_time(request.asked_at)} ({output.ago(request.asked_at, now)})"
    heard = request.heard_at
    parts = [asked] if heard is None else [asked, f"heard +{output.took(request.asked_at, heard)}"]
    if request.done_at is not None and request.became is not None:
        how = request.became.value.removeprefix("run.")
        parts.append(f"{how} +{output.took(request.asked_at, request.done_at)}")
    return ", ".join(parts)


def _handles_failure(run: "Run") -> bool:
    options = run.record.options
    return options is not None and options.on_failure


def _fact(label: str, text: str) -> str:
    from windlass.cli.output import faint

    return f"{faint(label.ljust(_LABEL))}{text}"


def _status(run: "Run", story: Story, now: datetime) -> str:
    from windlass.cli import output
    from windlass.cli.runs import error_text, waiting_text

    why = {
        "failed": error_text(run),
        "canceled": output.one_line(run.reason or ""),
        "scheduled": _waiting(run, story, now) if run.status == "scheduled" else "",
        "waiting": waiting_text(run, now) if run.status == "waiting" else "",
        "running": "asked to end" if run.cancel_requested else "",
    }.get(run.status.value, "")
    status = output.status_text(run.status.value)
    if run.failure is not None:
        status = f"{status} ({run.failure})"
    discarded = " (discarded)" if run.record.discarded_at is not None else ""
    return (f"{status}: {why}" if why else status) + discarded


def _waiting(run: "Run", story: Story, now: datetime) -> str:
    from windlass.cli.output import ago
    from windlass.cli.runs import error_text, steps_text

    due = f"due {ago(run.due_at, now)}" if run.due_at is not None else ""
    why = run.record.waiting_for or "delay"
    if why == "held":
        if story.after:
            return "held: it starts when the runs that it comes after have ended"
        return "held: as many of its siblings are live as may be"
    if run.waits:
        tried = {step.path for step in story.steps if step.state == "retrying"}
        how = "retries" if tried.issuperset(run.waits) else "sleeps in"
        return f"{due}, {how} {steps_text(run)}"
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
        ("until" if run.status == "waiting" else "due", run.due_at),
        ("expires", run.expires_at),
        ("deadline", run.deadline_at),
        ("started", run.started_at),
        ("finished", run.finished_at),
        ("stale", run.stale_at),
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
