"""Children: runs that runs start and wait for. `domain/child.py` has the protocol."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from windlass.domain.child import ChildEnd, ChildRow, Started
from windlass.domain.run import Held, NewRun, RunRef
from windlass.domain.states import Failure, Status, Verb
from windlass.domain.step import Step, StepKind, StepState, StepWrite
from windlass.errors import BadArguments
from windlass.store.sqlite.control import end_now, stop_run
from windlass.store.sqlite.enqueue import enqueue
from windlass.store.sqlite.followers import look_at_follower
from windlass.store.sqlite.moves import Moves
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.positions import FOREVER, ready_of, timer_of
from windlass.store.sqlite.shards import lead_shards
from windlass.store.sqlite.steps import record_steps, step_of
from windlass.store.sqlite.values import blob_or_none, to_blob, to_error, to_id, to_raw, to_texts

_KINDS = (StepKind.CHILD, StepKind.CHILDREN)


def start_children(
    tx: OpenTransaction,
    held: Held,
    step: StepWrite,
    first: int,
    runs: Sequence[NewRun],
    parallel: int | None,
) -> Started:
    """Start children in a step of a run, those whose places are free."""
    if step.kind not in _KINDS:
        raise BadArguments("start_children", "takes a step of kind child or children", "kind")
    if parallel is not None and parallel < 1:
        raise BadArguments("start_children", "takes a positive number of children", "parallel")
    if any(run.after for run in runs):
        raise BadArguments("start_children", "takes runs that come after no others", "after")
    recorded = record_steps(tx, held, [step])
    if recorded is None:
        return Started(lost=True)
    parent = to_blob(held.id)
    group = (held.tenant, parent, step.path)
    taken = {n for (n,) in tx.fetch("child_places", group)}
    fresh: dict[int, NewRun] = {}
    if not recorded[0].state.ended:
        fresh = {n: run for n, run in enumerate(runs, first) if n not in taken}
    if not fresh:
        return Started(started=len(taken))
    enqueue(tx, list(fresh.values()))
    free = _free(tx, (held.tenant, parent, 0, step.path), parallel, len(fresh))
    (root,) = tx.fetch_one("root_of", (held.tenant, parent)) or (parent,)
    rows = [
        (held.tenant, to_blob(run.id), parent, root, step.path, n, "live" if k < free else "held")
        for k, (n, run) in enumerate(fresh.items())
    ]
    tx.execute_many("insert_child", rows)
    tx.execute_many("mark_child", [row[:2] for row in rows])
    tx.execute("mark_parent", group[:2])
    held_back = [row[:2] for row in rows[free:]]
    _hold(tx, held_back)
    ready = tuple(RunRef(held.tenant, run.id) for run in list(fresh.values())[:free])
    return Started(started=len(taken) + len(fresh), ready=ready)


def await_children(tx: OpenTransaction, held: Held, path: str, tolerant: bool) -> Step | None:
    """Look whether the children of a step have ended; if so, the step ends."""
    group = (held.tenant, blob_or_none(held.id), path)
    row = tx.fetch_one("get_step", group)
    step = None if row is None else step_of(row, tx.now)
    if step is None or step.kind not in _KINDS:
        raise BadArguments("await_children", "takes a step that has started children", "path")
    write = StepWrite(path=path, kind=step.kind, state=StepState.WAITING, input=step.input)
    if tx.fetch_one("unfinished_child", group) is None:
        write = _end_of_many(tx, group, write, tolerant)
        if step.kind is StepKind.CHILD:
            write = _end_of_one(tx, group, write)
    recorded = record_steps(tx, held, [write])
    return None if recorded is None else recorded[0]


def list_children(
    tx: OpenTransaction,
    tenant: str,
    run: str,
    path: str | None,
    after: tuple[str, int] | None,
    limit: int,
) -> Sequence[ChildRow]:
    """Return the children of a run, by step and place."""
    last, n = (None, None) if after is None else after
    bindings = {
        "tenant": tenant, "run": blob_or_none(run), "path": path, "after": last, "after_n": n,
        "limit": limit,
    }  # fmt: skip
    return [
        ChildRow(
            path=path,
            n=n,
            id=to_id(blob),
            state=state,
            status=None if status is None else Status(status),
            failure=None if failure is None else Failure(failure),
            result=to_raw(result),
            error=to_error(error),
            reason=reason,
        )
        for path, n, blob, state, status, failure, result, error, reason in tx.fetch(
            "list_children", bindings
        )
    ]


class Tended(NamedTuple):
    """What a look at the wakes brought."""

    ready: tuple[RunRef, ...] = ()
    asked: int = 0  # runs that run, and are to stop: their workers may be told
    more: bool = False  # there are more of them


def tend(tx: OpenTransaction, limit: int) -> Tended:
    """Look at runs that were woken: move parents, let held children go, cancel children."""
    wakes = tx.fetch("wakes", (tx.now, limit))
    if not wakes:
        return Tended()
    tx.execute_many("delete_wake", [(n,) for n, _, _ in wakes])
    ready: list[RunRef] = []
    asked = 0
    for tenant, run in sorted({(tenant, run) for _, tenant, run in wakes}):
        why = tx.fetch_one("ends_children", (tenant, run))
        if why is not None:
            asked += _cancel_children(tx, tenant, run, limit, why[0], detached=False)
            continue
        asked += _cancel_children(tx, tenant, run, limit, "its parent began anew", detached=True)
        ready += _move_parent(tx, tenant, run)
        led = lead_shards(tx, tenant, run, limit)
        ready += led.ready
        asked += led.asked
        if not led.paused:
            ready += _admit_children(tx, tenant, run)
        ready += look_at_follower(tx, tenant, run)
    return Tended(tuple(ready), asked, more=tx.fetch_one("any_wake") is not None)


def _free(
    tx: OpenTransaction, group: tuple[str, bytes, int, str], parallel: int | None, most: int
) -> int:
    """How many children of a step may be live besides those that are."""
    if parallel is None:
        return most
    live: int
    ((live,),) = tx.fetch("count_live_children", group)
    return min(most, max(0, parallel - live))


def _hold(tx: OpenTransaction, names: Sequence[tuple[str, bytes]]) -> None:
    """Hold new children back: their timers are never due."""
    moves = Moves(tx)
    for row in tx.fetch_many("get_ready", names):
        moves.add(ready_of(row), Verb.HOLD, at=FOREVER)
    moves.apply()


def _end_of_one(
    tx: OpenTransaction, group: tuple[str, bytes | None, str], write: StepWrite
) -> StepWrite:
    ((blob, status, failure, result, error, reason),) = tx.fetch("only_child", group)
    if status == Status.SUCCEEDED:
        value = None if result is None else to_raw(result)
        return msgspec.structs.replace(write, state=StepState.DONE, value=value, failures=0)
    end = ChildEnd(run=to_id(blob), status=status or "deleted", failure=failure, reason=reason)
    return msgspec.structs.replace(
        write,
        state=StepState.FAILED,
        failures=1,
        error=to_error(error),
        value=msgspec.Raw(msgspec.json.encode(end)),
    )


def _end_of_many(
    tx: OpenTransaction, group: tuple[str, bytes | None, str], write: StepWrite, tolerant: bool
) -> StepWrite:
    ((total, failed),) = tx.fetch("count_children", group)
    fails = failed > 0 and not tolerant
    return msgspec.structs.replace(
        write,
        state=StepState.FAILED if fails else StepState.DONE,
        failures=int(fails),
        value=msgspec.Raw(msgspec.json.encode({"total": total, "failed": failed})),
    )


def _move_parent(tx: OpenTransaction, tenant: str, run: bytes) -> list[RunRef]:
    """Make a parent ready, if it waits for children that have all ended."""
    row = tx.fetch_one("get_timer", (tenant, run))
    if row is None:
        return []
    place = timer_of(row)
    if place.status is not Status.WAITING or not any(
        tx.fetch_one("answered_wait", (tenant, run, path)) for path in to_texts(place.waits)
    ):
        return []
    moves = Moves(tx)
    moves.add(place, Verb.DUE)
    moves.apply()
    return [RunRef(tenant, to_id(run))]


def _admit_children(tx: OpenTransaction, tenant: str, run: bytes) -> list[RunRef]:
    """Let held children go, as far as their steps allow."""
    moves = Moves(tx)
    freed = []
    for generation, path, parallel in tx.fetch("windowed_steps", (tenant, run)):
        group = (tenant, run, generation, path)
        free = _free(tx, group, parallel or 1, parallel or 1)
        for (child,) in tx.fetch("held_children", (*group, free)):
            row = tx.fetch_one("get_timer", (tenant, child))
            assert row is not None, "a child that is held has a timer, and nothing else"
            tx.execute("free_child", (tenant, child))
            moves.add(timer_of(row), Verb.DUE)
            freed.append(RunRef(tenant, to_id(child)))
    moves.apply()
    return freed


def _cancel_children(
    tx: OpenTransaction, tenant: str, run: bytes, limit: int, reason: str, *, detached: bool
) -> int:
    """End children of a run, all or those that it began anew without; those beyond the limit at the
    next look. Returns how many workers may be told."""
    forced = not detached and tx.fetch_one("is_forced", (tenant, run)) is not None
    name = (tenant, run, int(detached), int(forced))
    children = tx.fetch("children_to_cancel", (*name, limit + 1))
    asked = 0
    for (child,) in children[:limit]:
        ref = RunRef(tenant, to_id(child))
        asked += tx.fetch_one("lease_token", (tenant, child)) is not None
        if forced:
            end_now(tx, ref, "its batch was terminated")
        else:
            stop_run(tx, ref, reason)
    if len(children) > limit:
        tx.execute("insert_wake", (tenant, run))
    return asked
