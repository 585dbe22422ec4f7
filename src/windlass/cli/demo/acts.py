"""What happens in the demo: how each act begins, what is said of it, how it should end."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from windlass.app import Windlass
from windlass.cli.demo.jobs import CLOSED
from windlass.cli.output import one_line, readable
from windlass.cli.runs import error_text
from windlass.client import Request, Run
from windlass.domain.states import Failure, Status

CROWD = 40
KILLED = "its worker is killed -9"
_CANCEL_AFTER = 0.8
_KILL_AFTER = 0.5

Start = Callable[[Windlass], Awaitable[Sequence[Run]]]
Judge = Callable[[Sequence[Run]], bool]
Tell = Callable[[Sequence[Run]], str]


@dataclass(slots=True, kw_only=True)
class DemoAct:
    """One thing to see. The first of its runs is the one that is shown."""

    title: str
    start: Start
    expected: Status
    failure: Failure | None = None
    attempts: int = 1
    judge: Judge = lambda _: True
    ending: Tell | None = None
    cancel: bool = False
    kill: bool = False  # the process that runs it, once
    after: str = ""  # the title of the act that must be over before this one begins
    runs: Sequence[Run] = field(default_factory=list)

    @property
    def run(self) -> Run | None:
        """The run that is shown."""
        return self.runs[0] if self.runs else None

    @property
    def finished(self) -> bool:
        """Whether it is over."""
        return bool(self.runs) and all(run.status.finished for run in self.runs)

    @property
    def as_expected(self) -> bool:
        """Whether it ended as it should."""
        run = self.run
        return (
            run is not None
            and self.finished
            and (run.status, run.failure) == (self.expected, self.failure)
            and run.attempt == self.attempts
            and self.judge(self.runs)
        )

    def wants_cancel(self, now: datetime) -> bool:
        """Whether an operator should step in now."""
        run = self.run
        if not self.cancel or run is None or run.status is not Status.RUNNING:
            return False
        started = run.started_at or now
        return not run.cancel_requested and (now - started).total_seconds() > _CANCEL_AFTER

    def wants_kill(self, now: datetime) -> int | None:
        """The process that should die now."""
        run = self.run
        if not self.kill or run is None or run.status is not Status.RUNNING or run.attempt > 1:
            return None
        started = run.started_at or now
        return process_of(run) if (now - started).total_seconds() > _KILL_AFTER else None

    def story(self, now: datetime) -> str:
        """What is to be said of it at this moment."""
        run = self.run
        if run is None:
            return ""
        if run.status.finished and not self.finished:
            return ""  # the others are still to come
        if self.finished and self.ending is not None:
            return self.ending(self.runs)
        return _story(run, now)


def process_of(run: Run) -> int | None:
    """The process that a run is, or was last, in: workers are named HOST:PID:SERIES."""
    worker = run.record.worker
    return None if worker is None else int(worker.rsplit(":", 2)[1])


def _story(run: Run, now: datetime) -> str:
    match run.status:
        case Status.SUCCEEDED:
            return f"returned {readable(run.result)}"
        case Status.FAILED:
            return f"{run.failure}: {error_text(run)}"
        case Status.CANCELED:
            return one_line(run.reason or "")
        case Status.SCHEDULED | Status.WAITING:
            return _waiting(run, now)
        case Status.RUNNING if run.cancel_requested:
            return "asked to end"
        case Status.RUNNING:
            where = ", alone in a child of" if run.record.crash_count else " in process"
            return f"for {_length(now, run.started_at)}{where} {process_of(run)}"
        case Status.QUEUED if run.record.crash_count:
            return "its process died; it will run alone"
        case _:
            return f"expires in {_length(run.expires_at, now)}" if run.expires_at else ""


def _waiting(run: Run, now: datetime) -> str:
    again = f"in {_length(run.due_at, now)}"
    match run.record.waiting_for:
        case "backoff":
            kind = run.error.type.rpartition(".")[2] if run.error is not None else "an error"
            return f"again {again}, after {kind}"
        case "snooze":
            return f"asked to be called again {again}"
        case "sleep":
            return f"sleeps without a worker, goes on {again}"
        case "wait":
            return f"waits for {', '.join(map(one_line, run.waits))}, without a worker"
        case _:
            return f"due {again}"


def _length(later: datetime | None, sooner: datetime | None) -> str:
    if later is None or sooner is None:
        return "a moment"
    return f"{max(0.0, (later - sooner).total_seconds()):.1f} s"


def acts() -> list[DemoAct]:
    """All acts but the burst, in the order of their beginning."""
    return [
        *_plain_acts(),
        *_acts_of_death(),
        *_failing_acts(),
        *_acts_of_time(),
        *_acts_of_order(),
    ]


def _plain_acts() -> list[DemoAct]:
    return [
        DemoAct(title="instant", start=_one("demo.greet", name="Ada"), expected=Status.SUCCEEDED),
        DemoAct(
            title="slow, with progress",
            start=_one("demo.import_orders", rows=12_000),
            expected=Status.SUCCEEDED,
        ),
        DemoAct(
            title="blocking, in a thread",
            start=_one("demo.checksum", megabytes=20),
            expected=Status.SUCCEEDED,
        ),
        DemoAct(
            title="flaky, third time lucky",
            start=_one("demo.charge_card", amount=42),
            expected=Status.SUCCEEDED,
            attempts=3,
        ),
    ]


def _acts_of_death() -> list[DemoAct]:
    return [
        DemoAct(
            title=KILLED,
            start=_one("demo.copy_archive", files=12),
            expected=Status.SUCCEEDED,
            attempts=2,
            kill=True,
            judge=lambda runs: runs[0].record.crash_count == 1,
            ending=lambda runs: f"taken over by process {process_of(runs[0])}",
        ),
        DemoAct(
            title="kills whoever runs it",
            start=_one("demo.divide_by_zero"),
            expected=Status.FAILED,
            failure=Failure.CRASHED,
            attempts=3,
            after=KILLED,
            ending=lambda runs: f"found out after {runs[0].record.crash_count} dead processes",
        ),
    ]


def _failing_acts() -> list[DemoAct]:
    return [
        DemoAct(
            title="fails every time",
            start=_one("demo.sync_contacts"),
            expected=Status.FAILED,
            failure=Failure.EXHAUSTED,
            attempts=3,
        ),
        DemoAct(
            title="not worth a retry",
            start=_one("demo.send_mail", to="nobody@example.org"),
            expected=Status.FAILED,
            failure=Failure.FATAL,
        ),
        DemoAct(
            title="takes too long",
            start=_one("demo.solve"),
            expected=Status.FAILED,
            failure=Failure.TIMEOUT,
            ending=lambda _: "timeout: it had 1 s",
        ),
        DemoAct(
            title="canceled while it runs",
            start=_one("demo.render"),
            expected=Status.CANCELED,
            cancel=True,
        ),
    ]


def _acts_of_time() -> list[DemoAct]:
    async def delayed(app: Windlass) -> Sequence[Run]:
        return [await app.aenqueue("demo.remind", {"what": "tea is ready"}, delay="2500ms")]

    async def expired(app: Windlass) -> Sequence[Run]:
        options = {"name": "anyone"}
        return [await app.aenqueue("demo.greet", options, queue=CLOSED, expires="2s")]

    return [
        DemoAct(
            title="snoozes",
            start=_one("demo.fetch_report"),
            expected=Status.SUCCEEDED,
            attempts=2,
            judge=lambda runs: runs[0].failures == 0,
        ),
        DemoAct(title="delayed", start=delayed, expected=Status.SUCCEEDED, judge=_not_too_early),
        DemoAct(
            title="nobody serves its queue",
            start=expired,
            expected=Status.FAILED,
            failure=Failure.EXPIRED,
            attempts=0,
            ending=lambda _: "expired: had to start within 2 s",
        ),
    ]


def _acts_of_order() -> list[DemoAct]:
    async def deduplicated(app: Windlass) -> Sequence[Run]:
        invoice = {"name": "invoice 7"}
        return [await app.aenqueue("demo.greet", invoice, key="invoice-7") for _ in range(2)]

    async def urgent(app: Windlass) -> Sequence[Run]:
        job = app.jobs["demo.resize"]
        crowd = await app.aenqueue_many([_resize(app, image) for image in range(CROWD)])
        return [await job.using(priority=10).aenqueue(image=CROWD), *crowd]

    return [
        DemoAct(
            title="enqueued twice, same key",
            start=deduplicated,
            expected=Status.SUCCEEDED,
            judge=lambda runs: len({run.id for run in runs}) == 1,
            ending=lambda runs: f"one run: …{runs[0].id[-12:]}",
        ),
        DemoAct(
            title="urgent, jumps the queue",
            start=urgent,
            expected=Status.SUCCEEDED,
            judge=lambda runs: _overtaken(runs) > 0,
            ending=lambda runs: f"overtook {_overtaken(runs)} of {CROWD} earlier ones",
        ),
    ]


def _one(job: str, **arguments: object) -> Start:
    async def start(app: Windlass) -> Sequence[Run]:
        return [await app.aenqueue(job, arguments)]

    return start


def _resize(app: Windlass, image: int) -> Request:
    return app.jobs["demo.resize"].request(image=image)


def _not_too_early(runs: Sequence[Run]) -> bool:
    started = runs[0].started_at
    return started is not None and started >= runs[0].scheduled_for


def _overtaken(runs: Sequence[Run]) -> int:
    urgent, *crowd = runs
    if urgent.started_at is None:
        return 0
    return sum(run.started_at is None or run.started_at > urgent.started_at for run in crowd)
