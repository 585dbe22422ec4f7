"""The hot path: a worker's round trip, packed for and unpacked from ``windlass.cycle``."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from windlass.domain.outcome import Outcome
from windlass.domain.run import (
    Claimed,
    CycleReply,
    Extras,
    Finish,
    Held,
    Mark,
    Options,
    Want,
)
from windlass.store.mending import readable
from windlass.store.postgres.ids import is_id
from windlass.store.postgres.instants import instant
from windlass.store.postgres.literals import json_array, plain_array, text_array

_encode = msgspec.json.Encoder().encode
_decode_options = msgspec.json.Decoder(Options).decode
_decode_extras = msgspec.json.Decoder(Extras).decode


class _Search(msgspec.Struct, frozen=True):
    """The queues that a claim found for itself."""

    names: tuple[str, ...] = ()
    seconds: float = 0.0


class _Row(NamedTuple):
    """A row of `windlass.cycle`; which columns it has depends on its kind."""

    kind: str
    tenant: str
    id: str
    job: str
    queue: str
    token: int
    attempt: int
    failures: int
    crash_count: int
    input: str
    options: str | None
    trace: str | None
    rank: int
    ready_at: str
    now: str
    schedule: str | None
    slot: str | None
    deadline_at: str | None
    deadline_in: str
    extras: str | None


_NO_SEARCH = _Search()
_decode_search = msgspec.json.Decoder(_Search).decode


def pack_cycle(
    worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
) -> tuple[object, ...]:
    """The arguments of ``windlass.cycle``: plain successes as arrays, the rest as JSON."""
    done = [f for f in finishes if f.outcome is Outcome.SUCCEEDED and not f.version]
    others: list[Finish] = []
    if len(done) < len(finishes):
        others = [f for f in finishes if f.outcome is not Outcome.SUCCEEDED or f.version]
    return (
        worker,
        claim_no,
        *_pack_successes(done),
        _encode(others).decode() if others else None,
        *_pack_want(want),
    )


def _pack_successes(done: Sequence[Finish]) -> tuple[object, ...]:
    if not done:
        return (None, None, None, None)
    # Those without a result come last: the array of results is shorter then, and has no nulls.
    done = sorted(done, key=_has_no_result)
    results = [f.result for f in done if f.result is not None]
    return (
        text_array([f.tenant for f in done]),
        plain_array([f.id for f in done]),
        plain_array([f.token for f in done]),
        json_array(results) if results else None,
    )


def _has_no_result(finish: Finish) -> bool:
    return finish.result is None


def _pack_want(want: Want | None) -> tuple[object, ...]:
    if want is None:
        return (0, "{}", None, None, None, None, None, None)
    refs = None if want.ids is None else [ref for ref in want.ids if is_id(ref.id)]
    return (
        want.limit,
        text_array(want.jobs),
        None if want.queues is None else text_array(want.queues),
        _encode(want.after).decode() if want.after else None,
        want.window,
        None if refs is None else text_array([r.tenant for r in refs]),
        None if refs is None else plain_array([r.id for r in refs]),
        want.turn,
    )


def unpack_cycle(rows: Sequence[tuple[Any, ...]], *, marked: bool) -> CycleReply:
    """Sort the rows of ``windlass.cycle`` by what they say they are.

    ``marked``: the runs claimed are the heads of their queues, so the last one is a mark.
    """
    now: datetime | None = None
    lost: list[Held] = []
    busy: list[Held] = []
    claimed: list[Claimed] = []
    last: dict[str, tuple[Any, ...]] = {}
    stops: dict[str, Mark] = {}
    search = _NO_SEARCH
    refused = locked = False
    for values in rows:
        if values[0] == "run":
            run = _claimed(values)
            claimed.append(run)
            last[run.queue] = values  # rows of a queue come in claim order
            continue
        row = _Row._make(values)
        kind = row.kind
        if kind == "stop":
            stops[row.queue] = _mark(row)
        elif kind == "queues":
            search = _decode_search(row.input)
        elif kind == "lost":
            lost.append(Held(row.tenant, row.id, row.token))
        elif kind == "busy":
            busy.append(Held(row.tenant, row.id, row.token))
        elif kind == "refused":
            refused = True
        elif kind == "locked":
            locked = True
        else:
            now = instant(row.now)
    assert now is not None, "windlass.cycle always tells the time"
    return CycleReply(
        now=now,
        lost=tuple(lost),
        busy=tuple(busy),
        claimed=tuple(claimed),
        marks={queue: _mark(_Row._make(row)) for queue, row in last.items()} if marked else {},
        stops=stops,
        queues=search.names,
        searched=search.seconds,
        refused=refused,
        locked=locked,
    )


def _mark(row: _Row) -> Mark:
    at, flaw = readable("ready_at", instant, row.ready_at)
    if at is None or flaw:  # out of Python's time; a mark is a hint, and one past it will do
        return Mark(row.rank, "-infinity" if row.ready_at.startswith("-") else "infinity", row.id)
    return Mark(row.rank, at.isoformat(), row.id)


def _claimed(values: tuple[Any, ...]) -> Claimed:
    # Taken apart at once, without the names of a row: this is done for every run.
    (
        _, tenant, ident, job, queue, token, attempt, failures, crash_count, given, options, trace,
        rank, ready_at, _, schedule, slot, deadline_at, _, extras,
    ) = values  # fmt: skip
    start = Claimed(
        tenant, ident, job, queue, token, attempt, failures, crash_count,
        msgspec.Raw(given.encode()), None, trace, schedule, rank, ready_at,
    )  # fmt: skip
    if (
        options is None and slot is None and deadline_at is None and extras is None
    ):  # most have none
        return start
    return _with_terms(start, _Row._make(values))


def _with_terms(run: Claimed, row: _Row) -> Claimed:
    """The same run with its options, slot, deadline and extras, as far as they can be read."""
    options, flaw = readable("options", _decode_options, row.options)
    slot, bad_slot = readable("slot", instant, row.slot)
    deadline, bad_deadline = readable("deadline", instant, row.deadline_at)
    extras, bad_extras = readable("metadata", _decode_extras, row.extras)
    return msgspec.structs.replace(
        run,
        options=options,
        slot=slot,
        deadline_at=deadline,
        deadline_in=None if deadline is None else float(row.deadline_in),
        extras=extras,
        flaw=flaw or bad_slot or bad_deadline or bad_extras,
    )
