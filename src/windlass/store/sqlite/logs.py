"""The logs of runs on SQLite: see `domain/runlog.py`."""

from collections.abc import Sequence

import msgspec

from windlass.domain.run import ProgressReply
from windlass.domain.runlog import LogChunk, LogPlace, LogWrite
from windlass.store.sqlite.control import holds
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.values import blob_or_none

_encode = msgspec.json.Encoder().encode
_BEGINNING = LogPlace(-1, -1)


def record_logs(tx: OpenTransaction, writes: Sequence[LogWrite]) -> ProgressReply:
    """Write pieces of logs."""
    lost = []
    for write in writes:
        run = (write.tenant, blob_or_none(write.id))
        if holds(tx, write.held) or tx.fetch("ended_under", (*run, write.token)):
            lines = _encode(write.lines).decode()
            tx.execute("put_log", (*run, write.token, write.first, write.attempt, lines))
        else:
            lost.append(write.held)
    return ProgressReply(lost=lost)


def list_logs(
    tx: OpenTransaction, tenant: str, run: str, after: LogPlace | None, limit: int
) -> Sequence[LogChunk]:
    """Return the pieces after a place."""
    place = after or _BEGINNING
    bindings = (tenant, blob_or_none(run), place.token, place.number, limit)
    return [
        LogChunk(token=token, first=first, attempt=attempt, lines=msgspec.Raw(lines.encode()))
        for token, first, attempt, lines in tx.fetch("list_logs", bindings)
    ]
