"""Batches: runs over many units, cut into shards. The protocol, for both stores.

A batch is a run. Its handler, which Windlass brings along, starts *shards* as its children and
waits for them without a seat. A shard is a run over the units ``first`` to ``until`` of the batch:
it calls the function for one unit after another, and writes down how far it is. A batch whose units
come from a *source*, a generator in the worker, has one shard; its place is what the source says it
is.

What is written of a shard is its row of ``shards``: how many units succeeded, how many failed, and
of a source its ``place``. There is no other counter. The next unit of a range is ``first +
succeeded + failed``, and the numbers of a batch are the sum over its shards, so they add up
whenever they are read.

What is promised:

- A shard writes (*flushes*) at least every 500 units, or when a second has passed after a unit, and
  before its attempt ends. A flush is one transaction under the token of the shard's lease: the
  counts, the place and the units that failed, with their errors. So a shard whose worker dies goes
  on after its last flush: the units since then are done again, and each is counted once.
- A flush with new units takes the crashes of the shard's run back to zero. So a shard that gets on
  outlives any number of workers, and one with a unit that kills each of them is found out.
- The number of a shard is its place among the children of the batch. One that is started anew,
  because an operator retries the batch, goes on where its predecessor stopped. A predecessor that
  still runs, after a restart, can write nothing: it is no longer linked to the batch.
- A shard that has long to go, while the batch could have more shards at work, gives the second half
  of what it has left to a new one. Both rows, the new run and its link are one transaction, under
  the token of the shard that splits. The batch cannot end meanwhile: that shard is still live.
- A unit that fails is a row of ``unit_failures`` and stops nobody. If more than ``max_failed`` have
  failed, the flush that says so marks the batch as stopped; the other shards see that at their next
  flush, and all end as canceled. The failing flushes of a batch are counted one after another: each
  locks its row first.
- A batch ends once, since it is a run: succeeded if all its shards have succeeded and it was not
  stopped, failed otherwise.
- Shards follow their batch. It is a wake (`domain/child.py`) that tells of a change, and whoever
  looks at it compares: while the batch is paused, each shard that may run is paused and marked, and
  none that is held is let go; once it is not, the marked ones are resumed. So it does not matter in
  which order, or how often, the wakes are looked at. A shard that an operator paused before has no
  mark, and stays paused. The shards of a batch that was canceled, or has failed, are asked to
  end; those of one that was terminated lose their leases.
- A batch that is retried starts those shards anew that have not succeeded or were asked to end; the
  rows of ``shards`` stay, so each goes on after its last flush.

Units that do not fit into the input of the run (a long list, an iterator) are *staged*: written in
pages of at most 2,000, before there is a run. The run is enqueued when all are there, and that
seals it. Pages of a client that dies before are deleted after ``seal_timeout``.

Units that are the records of an artifact are counted by the batch before it opens; see
`durable/filed.py`.

What happens when it dies here:

- while units are staged: nothing was enqueued, and the pages go away;
- between the last page and the enqueue: the same;
- in a unit, or between units and their flush: those units are done again, at most 500 of them;
- between the last flush of a shard and its end: the next attempt finds nothing left to do;
- between the end of the last shard and that of the batch: its handler is called again, and looks
  again.
"""

from collections.abc import Sequence

import msgspec

from windlass.domain.report import ErrorInfo
from windlass.domain.run import NULL

MOST_SHARDS = 100_000
"""How many shards a batch may have, those that came by splitting included."""
MOST_PAGE = 500
"""How many units are flushed at once."""
MOST_STAGED = 2000
PAGE_BYTES = 512 * 1024
"""How many units, and bytes of them, are staged at once."""
SHARDS = "shards"
"""The step of a batch in which its shards are started."""
TOO_MANY_FAILED = "max_failed"


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as its handler opens it. ``total`` is None if only the end of its source tells."""

    total: int | None
    size: int
    shards: int
    begins: Sequence[int] = ()  # the bytes at which the shards of a file begin


class FilePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a shard is in a file: at which byte the record of which unit begins."""

    unit: int
    offset: int


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it is stored."""

    total: int | None = None
    size: int
    shards: int  # those that came by splitting included
    stopped: str | None = None


class BatchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How far a batch is. The numbers are of one moment, and add up."""

    total: int | None = None
    """How many units there are; None until the source has come to its end."""
    succeeded: int = 0
    failed: int = 0
    shards: int = 0
    shards_done: int = 0
    stopped: str | None = None
    """Why the batch was stopped early: ``max_failed``, or None."""

    @property
    def processed(self) -> int:
        """How many units are done: those that succeeded and those that failed."""
        return self.succeeded + self.failed

    @property
    def left(self) -> int | None:
        """How many units are not done yet; None while the total is not known."""
        return None if self.total is None else self.total - self.processed


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard as its handler finds it. ``until`` is None for the shard of a source."""

    batch: str
    n: int
    first: int
    until: int | None = None
    succeeded: int = 0
    failed: int = 0
    place: msgspec.Raw = NULL
    done: bool = False
    stopped: str | None = None
    input: msgspec.Raw = NULL  # that of its batch

    @property
    def next(self) -> int:
        """The number of the unit that comes next."""
        return self.first + self.succeeded + self.failed


class UnitFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that failed, as a shard reports it."""

    n: int
    unit: msgspec.Raw
    error: ErrorInfo


class FailedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that failed: its number in the batch, the unit itself, and its error."""

    n: int
    shard: int
    unit: msgspec.Raw
    error: ErrorInfo


class ShardWrite(msgspec.Struct, frozen=True, kw_only=True):
    """What a shard flushes: its counts by now, not what has been added."""

    succeeded: int
    failed: int
    place: msgspec.Raw = NULL
    done: bool = False
    failures: Sequence[UnitFailure] = ()
    max_failed: int | None = None


class Flushed(msgspec.Struct, frozen=True, kw_only=True):
    """What a flush brought back."""

    stopped: str | None = None


class UnitPage(msgspec.Struct, frozen=True, kw_only=True):
    """Units that were staged; the first of them has the number ``first``."""

    first: int = 0
    units: tuple[msgspec.Raw, ...] = ()
