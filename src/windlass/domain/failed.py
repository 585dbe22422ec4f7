"""Failure handlers: a run that failed for good starts one more run, which is told about it.

What is promised: **each death of a run starts its handler's run once, and a handler's run exists if
and only if its death is recorded.** Both are one transaction, so no crash can come between them.

A run *dies* when its status becomes `failed`, whoever says so:

- a worker reports its last attempt: attempts used up, a fatal error, a timeout, one crash of its
  child process too many;
- a sweep ends it: its worker died once too often, it waited longer than `expires`, it was not done
  by its `deadline`;
- a SQL client calls `windlass.finish` or `windlass.fail`.

All of them go through one place in each store, which looks the handler up: `Moves` on SQLite,
`windlass.make_moves` on PostgreSQL. A cancel is no failure, not even of a run that has failed
attempts behind it; nor is a failure that will be retried.

**Who handles it** is part of the job's definition (`JobRow.on_failure`), which workers store when
they start. So the process that records the death need not know the handler, nor have any code of
the application. As with the rest of a definition, the worker that stored it last counts. A job
without a row, or whose row names nobody, has no handler: nothing is inserted, and one lookup by key
was made. The handler's own row is not needed: its run waits until a worker knows the job.

**What is inserted** is an ordinary run, ready at once, with its own attempts and retries:

- its id is made of the time, the dead run and the number of the event that ended it
  (`handling_id`), the same on both stores;
- its input is one argument, a `FailedRun`, copied from the record in that transaction: a later
  retry of the dead run does not change it;
- queue and priority are those of the dead run, unless the handler's definition names its own; so is
  the tenant. The trace is that of the dead run, and `enqueued_by` is its id;
- it has no key, no tags, no expiry and no deadline.

The event `run.failed` names it, as `handled_by`.

**A second death** after a retry is another event, so it starts another run. **A handler that dies**
starts nothing, whatever its job's row says: its run has the option `on_failure`, which callers
cannot set. So there are no endless chains, even if two jobs name each other.
"""

import hashlib
from datetime import datetime
from typing import Any, Final

import msgspec

from windlass.domain.report import ErrorInfo
from windlass.domain.states import Failure

FAILURE_HANDLER: Final = "on_failure"
"""What a failure handler is called, after its job: `charge.on_failure`."""


class FailedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a failure handler gets: the run as it was when it failed for good."""

    id: str
    job: str
    queue: str
    failure: Failure
    """Why: `exhausted`, `fatal`, `timeout`, `crashed`, `expired` or `deadline`."""
    input: Any
    """The arguments by name, as plain JSON."""
    error: ErrorInfo | None = None
    """The error that ended it, or else that of its last failed attempt."""
    attempts: int
    """How often it was started."""
    failures: int = 0
    """How many of these attempts failed."""
    crashes: int = 0
    """How often its worker, or its child process, died."""
    key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    created_at: datetime
    failed_at: datetime


class FailureHandler(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who handles the failures of a job, as its definition is stored."""

    job: str
    argument: str  # the handler's parameter
    queue: str | None = None  # None: that of the dead run
    priority: int | None = None  # None: that of the dead run


def handling_id(run: bytes, seq: int, micros: int) -> bytes:
    """The id of the run that handles a death: a UUIDv7, the same whenever it is made.

    `run` is the id of the dead run, `seq` the number of the event that ended it, `micros` its time.
    PostgreSQL has the same function, `windlass.handling_id`.
    """
    made = bytearray(hashlib.sha256(run + str(seq).encode()).digest()[:16])
    made[:6] = (micros // 1000).to_bytes(6)
    made[6] = 0x70 | made[6] & 0x0F
    made[8] = 0x80 | made[8] & 0x3F
    return bytes(made)
