"""What a worker's log says of attempts that end.

A problem (a failure, a retry, a crash) is a line of its own, at once. What went well is, too,
while a person can read it: up to ten lines a second. When such ends come faster they are counted,
and one line a second says how many there were, of which jobs, and how long they took; slow ones
still have a line of their own, up to ten a second. Each end is in exactly one line at INFO, and
those that were counted are at DEBUG by themselves.

A log that must have each end at INFO, for programs to read, sets the logger `windlass.run.each` to
INFO, as `logs.configure("json")` does; then nothing is counted.
"""

import asyncio
import logging
from collections import Counter
from datetime import UTC, datetime

from windlass.codec import instant_text
from windlass.context import run_logger
from windlass.current import trace_of
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Finish
from windlass.duration import format_duration
from windlass.logs import COUNTS, EACH, TRACEBACK, put

READABLE = 10
"""So many lines a second a person can read."""
SLOW = 1.0
"""Seconds after which an attempt is worth a line of its own."""

_SECOND = 1.0
_MOST_NAMED = 3  # jobs in one line
_SAMPLE = 1000  # durations of which the median is taken

# What is said of many runs whose attempts ended so that others can have their seats.
_GAVE_UP_SEATS = {
    Outcome.SLEEPING: "went to sleep",
    Outcome.WAITING: "began to wait",
    Outcome.CONTINUED: "went on with a new input",
}

_each = logging.getLogger(EACH)


class Ends:
    """Logs how attempts end. Lives on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tallies: dict[Outcome, _Tally] = {}
        self._worker = ""
        self._shown = 0  # lines of this second
        self._began = 0.0  # when this second began
        self._timer: asyncio.TimerHandle | None = None  # while ends are counted

    def log(self, worker: str, claimed: Claimed, finish: Finish, took: float) -> None:
        """Tell of an attempt that ended, now or with others in a second."""
        level = _level(finish)
        if not run_logger.isEnabledFor(level):
            return
        if level == logging.INFO and not _each.isEnabledFor(level) and not self._readable(took):
            self._count(worker, claimed.job, finish.outcome, took)
            level = logging.DEBUG
            if not run_logger.isEnabledFor(level):
                return
        extra: dict[str, object] = {
            "worker": worker,
            "run": claimed.id,
            "job": claimed.job,
            "tenant": claimed.tenant,
            "attempt": claimed.attempt,
            "trace": trace_of(claimed),
            "duration_ms": round(took * 1000, 1),
        }
        if finish.error is not None:
            extra["error"] = f"{finish.error.type}: {finish.error.message}"
            if finish.failure is not None:  # for good: whoever reads this looks for the reason
                extra[TRACEBACK] = finish.error.traceback
        if finish.delay is not None:
            extra["delay"] = round(finish.delay, 3)
        if finish.waits:
            extra["waits"] = ", ".join(finish.waits)
        if finish.until is not None:
            extra["until"] = instant_text(finish.until)
        put(run_logger, level, "run %s", (_said(finish),), extra)

    def close(self) -> None:
        """Tell of what was counted and not told yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._sum_up()

    def _readable(self, took: float) -> bool:
        """Whether this end has a line of its own."""
        now = self._loop.time()
        if self._timer is None and now - self._began >= _SECOND:
            self._began, self._shown = now, 0
        if self._shown < READABLE and (self._timer is None or took >= SLOW):
            self._shown += 1
            return True
        if self._timer is None:
            self._wait(now)
        return False

    def _wait(self, now: float) -> None:
        self._began, self._shown = now, 0
        self._timer = self._loop.call_later(_SECOND, self._second_over)

    def _count(self, worker: str, job: str, outcome: Outcome, took: float) -> None:
        self._worker = worker
        tally = self._tallies.get(outcome)
        if tally is None:
            tally = self._tallies[outcome] = _Tally()
        tally.add(job, took)

    def _second_over(self) -> None:
        self._timer = None
        busy = sum(tally.ends for tally in self._tallies.values()) > READABLE
        self._sum_up()
        if busy:
            self._wait(self._loop.time())

    def _sum_up(self) -> None:
        seconds = self._loop.time() - self._began
        tallies, self._tallies = self._tallies, {}
        for outcome, tally in tallies.items():
            tally.log(self._worker, outcome, seconds)


class _Tally:
    """The ends of one outcome in one second."""

    __slots__ = ("_jobs", "_longest", "_sample", "ends")

    def __init__(self) -> None:
        self.ends = 0
        self._jobs: Counter[str] = Counter()
        self._longest = 0.0
        self._sample: list[float] = []

    def add(self, job: str, took: float) -> None:
        """Count one."""
        if self.ends < _SAMPLE:
            self._sample.append(took)
        else:
            self._sample[self.ends % _SAMPLE] = took
        self.ends += 1
        self._jobs[job] += 1
        if took > self._longest:
            self._longest = took

    def log(self, worker: str, outcome: Outcome, seconds: float) -> None:
        """One line about all of them."""
        median = sorted(self._sample)[len(self._sample) // 2]
        words = (
            f"{self.ends:,} run{'' if self.ends == 1 else 's'}",
            _GAVE_UP_SEATS.get(outcome, outcome.value),
            format_duration(round(seconds, 1)),
            self._named(),
            format_duration(round(median, 4)),
            format_duration(round(self._longest, 4)),
        )
        counts = {
            "runs": self.ends,
            "seconds": round(seconds, 3),
            "jobs": dict(self._jobs),
            "median_ms": round(median * 1000, 1),
            "longest_ms": round(self._longest * 1000, 1),
        }
        text = "%s %s in %s: %s; median %s, longest %s"
        put(run_logger, logging.INFO, text, words, {"worker": worker, COUNTS: counts})

    def _named(self) -> str:
        """The jobs, those with the most runs first."""
        most = self._jobs.most_common(_MOST_NAMED)
        words = [f"{job} {ends:,}" for job, ends in most]
        others = len(self._jobs) - len(most)
        if others:
            rest = self.ends - sum(ends for _, ends in most)
            words.append(f"{others} other job{'' if others == 1 else 's'} {rest:,}")
        return ", ".join(words)


def _said(finish: Finish) -> str:
    """How an attempt ended; of one that gave up its seat, for what or until when."""
    match finish:
        case Finish(outcome=Outcome.WAITING, waits=steps) if steps:
            return f"waits for {', '.join(steps)}"
        case Finish(outcome=Outcome.SLEEPING, until=datetime() as until):
            return f"sleeps until {until.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        case Finish(outcome=Outcome.CONTINUED):
            return "goes on with a new input"
        case _:
            return finish.outcome.value


def _level(finish: Finish) -> int:
    if finish.outcome is Outcome.SUCCEEDED:
        return logging.INFO
    if finish.failure is not None:
        return logging.ERROR
    if finish.outcome in (Outcome.RETRY, Outcome.CRASHED):
        return logging.WARNING
    return logging.INFO
