"""How far a batch is, as `windlass show` says it."""

from windlass.cli import output
from windlass.domain.batch import BatchCounts


def draw_batch(counts: BatchCounts) -> str:
    """The line about the units and shards of a batch."""
    of = "" if counts.total is None else f" of {counts.total:,}"
    shards = f"{counts.shards_done:,} of {counts.shards:,} shards done"
    stopped = "" if counts.stopped is None else f", stopped by {counts.stopped}"
    told = f"{counts.processed:,}{of} units done, {counts.failed:,} failed; {shards}{stopped}"
    return f"{output.heading('batch')}  {told}"
