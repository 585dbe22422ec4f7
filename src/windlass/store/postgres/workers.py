"""What workers do, on PostgreSQL: see `store/operations/workers.py`."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from windlass.domain.run import (
    Blocked,
    CycleReply,
    Finish,
    Held,
    ProgressReply,
    ProgressWrite,
    RenewReply,
    RunRef,
    SweepReply,
    Want,
    WorkerInfo,
)
from windlass.store.postgres.cycle import pack_cycle, unpack_cycle
from windlass.store.postgres.ids import id_or_nobody
from windlass.store.postgres.instants import instant
from windlass.store.postgres.literals import plain_array, text_array, text_array_or_none
from windlass.store.postgres.statement import Row, Statement, every, one, value


def register(worker: WorkerInfo, lease: float) -> Statement[datetime]:
    """Make a worker known."""
    parameters = (
        worker.id,
        lease,
        worker.host,
        worker.pid,
        worker.version,
        text_array_or_none(worker.queues),
        text_array(worker.jobs),
        worker.seats,
    )
    return Statement("register", parameters, lambda rows: instant(rows[0][0]))


def cycle(
    worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
) -> Statement[CycleReply]:
    """Finish and claim in one round trip."""
    # Runs claimed by name say nothing of how far a queue was read.
    marked = want is not None and want.ids is None
    return Statement(
        "cycle",
        pack_cycle(worker, claim_no, finishes, want),
        lambda rows: unpack_cycle(rows, marked=marked),
    )


def renew(
    worker: str, lease: float, held: Sequence[Held], settled: int, blocked: Blocked | None
) -> Statement[RenewReply]:
    """Keep a worker alive."""
    parameters = (
        worker,
        lease,
        text_array([h.tenant for h in held]),
        plain_array([h.id for h in held]),
        plain_array([h.token for h in held]),
        settled,
        None if blocked is None else msgspec.json.encode(blocked).decode(),
    )
    return Statement("renew", parameters, one(RenewReply))


def retire(worker: str) -> Statement[int]:
    """Forget a worker that stops."""
    return Statement("retire", (worker,), value)


def list_workers() -> Statement[Sequence[WorkerInfo]]:
    """All workers known."""
    return Statement("list_workers", (), every(WorkerInfo))


def sweep(
    *,
    dispatch: bool,
    expire: bool,
    reap: bool,
    max_crashes: int,
    limit: int,
    every: float,
    spare: bool,
) -> Statement[SweepReply]:
    """Dispatcher, expiry and reaper."""
    parameters = (dispatch, expire, reap, max_crashes, limit, every, spare)
    return Statement("sweep", parameters, one(SweepReply))


def unpublished(older_than: float, limit: int) -> Statement[Sequence[RunRef]]:
    """Ready runs whose message has to be sent again."""
    return Statement(
        "unpublished", (older_than, limit), lambda rows: [RunRef(*row) for row in rows]
    )


def record_progress(reports: Sequence[ProgressWrite]) -> Statement[ProgressReply]:
    """Write the latest progress of runs."""
    items = [msgspec.structs.replace(report, id=id_or_nobody(report.id)) for report in reports]

    def read(rows: Sequence[Row]) -> ProgressReply:
        found: dict[str, list[Held]] = {"lost": [], "busy": []}
        for number, answer in rows:
            found[answer].append(reports[int(number) - 1].held)
        return ProgressReply(lost=found["lost"], busy=found["busy"])

    return Statement("record_progress", (msgspec.json.encode(items).decode(),), read)
