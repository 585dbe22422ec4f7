"""The hot path: a worker's round trip, packed for and unpacked from ``windlass.cycle``."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, CycleReply, Finish, Held, Mark, Options, Want
from windlass.store.mending import readable
from windlass.store.postgres.ids import is_id
from windlass.store.postgres.instants import instant
from windlass.store.postgres.literals import json_array, plain_array, text_array

_encode = msgspec.json.Encoder().encode
_decode_options = msgspec.json.Decoder(Options).decode


class _Search(msgspec.Struct, frozen=True):
    """The queues that a claim found for itself."""

    names: tuple[str, ...] = ()
    seconds: float = 0.0


_NO_SEARCH = _Search()
_decode_search = msgspec.json.Decoder(_Search).decode


def pack_cycle(
    worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
) -> tuple[object, ...]:
    """The arguments of ``windlass.cycle``: plain successes as arrays, the rest as JSON."""
    done = [f for f in finishes if f.outcome is Outcome.SUCCEEDED and f.version is None]
    others = [f for f in finishes if f.outcome is not Outcome.SUCCEEDED or f.version is not None]
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
    for row in rows:
        kind = row[0]
        if kind == "run":
            claimed.append(_claimed(row))
            last[row[4]] = row  # rows of a queue come in claim order
        elif kind == "stop":
            stops[row[4]] = _mark(row)
        elif kind == "queues":
            search = _decode_search(row[9])
        elif kind == "lost":
            lost.append(Held(row[1], row[2], row[5]))
        elif kind == "busy":
            busy.append(Held(row[1], row[2], row[5]))
        elif kind == "refused":
            refused = True
        elif kind == "locked":
            locked = True
        else:
            now = instant(row[14])
    assert now is not None, "windlass.cycle always tells the time"
    return CycleReply(
        now=now,
        lost=tuple(lost),
        busy=tuple(busy),
        claimed=tuple(claimed),
        marks={queue: _mark(row) for queue, row in last.items()} if marked else {},
        stops=stops,
        queues=search.names,
        searched=search.seconds,
        refused=refused,
        locked=locked,
    )


def _mark(row: tuple[Any, ...]) -> Mark:
    at, flaw = readable("ready_at", instant, row[13])
    if at is None or flaw:  # out of Python's time; a mark is a hint, and one past it will do
        return Mark(row[12], "-infinity" if row[13].startswith("-") else "infinity", row[2])
    return Mark(row[12], at.isoformat(), row[2])


def _claimed(row: tuple[Any, ...]) -> Claimed:
    options = slot = deadline = flaw = None
    if row[10] is not None or row[16] is not None or row[17] is not None:  # most have none
        options, flaw = readable("options", _decode_options, row[10])
        slot, bad_slot = readable("slot", instant, row[16])
        deadline, bad_deadline = readable("deadline", instant, row[17])
        flaw = flaw or bad_slot or bad_deadline
    return Claimed(
        tenant=row[1],
        id=row[2],
        job=row[3],
        queue=row[4],
        token=row[5],
        attempt=row[6],
        failures=row[7],
        crash_count=row[8],
        input=msgspec.Raw(row[9].encode()),
        options=options,
        trace=row[11],
        schedule=row[15],
        slot=slot,
        deadline_at=deadline,
        deadline_in=None if deadline is None else float(row[18]),
        flaw=flaw,
    )
