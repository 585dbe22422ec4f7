"""Pauses: a queue or a job from which nothing is started for now.

A pause is a row of its own, (tenant, kind, name). It moves no run. What is ready stays ready and
keeps its place, what becomes due becomes ready, and `expires` and `deadline` go on. Only a claim
reads pauses, and it passes over the runs that one of them names.

**The promise.** Once a pause is acknowledged, no claim starts a run of it, in any process. Runs
that are claimed by then go on to their end. A pause is acknowledged in two transactions:

1. ``pause_work`` writes the row and commits.
2. ``settle_pauses`` waits until no claim is left that may have looked before that commit.

On PostgreSQL every claim takes one advisory lock, shared, in a statement before the one that reads
the pauses; ``settle_pauses`` takes it exclusively once. A claim that has the lock before that is
waited for. One that gets it later reads with a snapshot that is younger than the commit. A claim
never waits: if the lock is not granted, it claims nothing now, and asks again. On SQLite there is
one writer at a time, and a claim reads the pauses in the statement that writes: there is nothing
to wait for.

**If it dies here.** After the first transaction the pause counts, although nobody was told: claims
that begin later see it. Repeat the call: it changes nothing and waits again. A resume is one
transaction; if the wake-up after it is lost, workers find the runs with their next poll.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class PauseKind(StrEnum):
    """What can be paused as a whole."""

    QUEUE = "queue"
    JOB = "job"


class WorkPause(msgspec.Struct, frozen=True, kw_only=True):
    """A queue or a job that is paused: since when, by whom and why."""

    tenant: str
    kind: PauseKind
    name: str
    since: datetime
    by: str
    reason: str | None = None

    def __str__(self) -> str:
        why = "" if self.reason is None else f": {self.reason}"
        return f"{self.kind.value} {self.name} is paused by {self.by}{why}"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown


def pause_over(pauses: Iterable[WorkPause], queue: str, job: str) -> WorkPause | None:
    """The pause that holds runs of a job in a queue, the queue's first."""
    found = [p for p in pauses if p.name == (queue if p.kind is PauseKind.QUEUE else job)]
    return min(found, key=lambda pause: pause.kind is not PauseKind.QUEUE, default=None)
