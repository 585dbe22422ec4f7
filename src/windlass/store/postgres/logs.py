"""The logs of runs on PostgreSQL: see `domain/runlog.py`."""

from collections.abc import Sequence

import msgspec

from windlass.domain.run import Held, ProgressReply
from windlass.domain.runlog import LogChunk, LogPlace, LogWrite
from windlass.store.postgres.ids import id_or_nobody
from windlass.store.postgres.statement import Row, Statement

_encode = msgspec.json.Encoder().encode


def record_logs(writes: Sequence[LogWrite]) -> Statement[ProgressReply]:
    """Write pieces of logs."""
    items = [msgspec.structs.replace(write, id=id_or_nobody(write.id)) for write in writes]

    def read(rows: Sequence[Row]) -> ProgressReply:
        found: dict[str, list[Held]] = {"lost": [], "busy": []}
        for number, answer in rows:
            found[answer].append(writes[int(number) - 1].held)
        return ProgressReply(lost=found["lost"], busy=found["busy"])

    return Statement("record_logs", (_encode(items).decode(),), read)


def list_logs(
    tenant: str, run: str, after: LogPlace | None, limit: int
) -> Statement[Sequence[LogChunk]]:
    """The pieces after a place."""
    place = (None, None) if after is None else (after.token, after.number)
    return Statement("list_logs", (tenant, id_or_nobody(run), *place, limit), _chunks)


def _chunks(rows: Sequence[Row]) -> Sequence[LogChunk]:
    return [
        LogChunk(token=token, first=first, attempt=attempt, lines=msgspec.Raw(lines.encode()))
        for token, first, attempt, lines in rows
    ]
