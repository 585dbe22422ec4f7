"""Followers: runs that start when others have ended. `domain/follower.py` has the protocol."""

from collections.abc import Sequence

from windlass.domain.follower import FollowRow, check_followers, reason_of, with_result
from windlass.domain.run import NewRun, RunRef
from windlass.domain.states import Status, Verb
from windlass.errors import BadArguments
from windlass.store.sqlite.moves import End, Moves
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.positions import FOREVER, Position, ready_of, timer_of
from windlass.store.sqlite.values import blob_or_none, raw_text, to_blob, to_id, to_raw


def hold_followers(tx: OpenTransaction, runs: Sequence[NewRun], created: Sequence[bool]) -> None:
    """Hold the new runs of a batch that come after others, and leave a wake for each."""
    fresh = [run for run, is_new in zip(runs, created, strict=True) if is_new]
    followers = [run for run in fresh if run.after]
    check_followers(followers)
    places = {run.id: n for n, run in enumerate(fresh)}
    moves = Moves(tx)
    for run in followers:
        name = (run.tenant, to_blob(run.id))
        for n, awaited in enumerate(dict.fromkeys(run.after)):
            blob = blob_or_none(awaited)
            comes_later = places.get(awaited, -1) >= places[run.id]
            if comes_later or tx.fetch_one("known_run", (run.tenant, blob)) is None:
                why = f"was enqueued after the run {awaited}, which does not exist"
                raise BadArguments(run.job, why, "after")
            tx.execute("insert_follow", (*name, n, blob, run.after_failure, run.takes))
        tx.execute("mark_follower", name)
        tx.execute("insert_wake", name)
        for row in tx.fetch("get_ready", name):
            moves.add(ready_of(row), Verb.HOLD, at=FOREVER)
    moves.apply()


def look_at_follower(tx: OpenTransaction, tenant: str, run: bytes) -> list[RunRef]:
    """Decide a follower that was woken, if it can be decided; return it if it is ready now."""
    name = (tenant, run)
    row = tx.fetch_one("get_timer", name)
    if row is None or timer_of(row).why != "held" or tx.fetch_one("is_follower", name) is None:
        return []
    tx.execute("mark_awaited", name)
    tx.execute("note_outcomes", name)
    for n, awaited, _, argument, outcome in tx.fetch("follows_of", name):
        if argument is not None and outcome == Status.SUCCEEDED:
            status = _take_result(tx, name, awaited, argument)
            if status != outcome:  # reopened since, or deleted: what it succeeded with is gone
                tx.execute("put_outcome", (status, *name, n))
    rows = tx.fetch("follows_of", name)
    moves = Moves(tx)
    for _, awaited, mode, _, outcome in rows:
        if mode == "cancel" and outcome not in (None, Status.SUCCEEDED):
            end = End(reason=reason_of(outcome, to_id(awaited)))
            moves.add(timer_of(row), Verb.CANCEL, end=end)
            moves.apply()
            return []
    if any(outcome is None for *_, outcome in rows):
        return []
    moves.add(timer_of(row), Verb.DUE)
    moves.apply()
    return [RunRef(tenant, to_id(run))]


def let_go(tx: OpenTransaction, place: Position) -> None:
    """Let a follower go without waiting: an operator says so. Raises BadArguments if it takes a
    result that is not there."""
    name = (place.tenant, place.id)
    for _, awaited, _, argument, _ in tx.fetch("follows_of", name):
        if argument is None:
            continue
        _take_result(tx, name, awaited, argument)
        if not _has_argument(tx, name, argument):
            why = (
                f"takes the result of run {to_id(awaited)} as {argument}, and that has not "
                "succeeded: retry that run first, or give the input"
            )
            raise BadArguments(place.job, why, argument)


def list_follows(
    tx: OpenTransaction, tenant: str, run: str, followers: bool, limit: int
) -> Sequence[FollowRow]:
    """Return the runs that a run comes after, or those that come after it."""
    statement = "list_followers" if followers else "list_follows"
    return [
        FollowRow(
            id=to_id(id), n=n, awaited=to_id(awaited), mode=mode, argument=argument, outcome=outcome
        )
        for id, n, awaited, mode, argument, outcome in tx.fetch(
            statement, (tenant, blob_or_none(run), limit)
        )
    ]


def _take_result(
    tx: OpenTransaction, name: tuple[str, bytes], awaited: bytes, argument: str
) -> str | None:
    """Put the result of a run that succeeded into the input of its follower, unless that has the
    argument; return the run's status."""
    status, result = tx.fetch_one("result_of", (name[0], awaited)) or ("deleted", None)
    if status == Status.SUCCEEDED:
        ((input,),) = tx.fetch("get_input", name)
        whole = with_result(to_raw(input), argument, to_raw(result))
        if whole is not None:
            tx.execute("change_input", (raw_text(whole), *name))
    return None if status is None else str(status)


def _has_argument(tx: OpenTransaction, name: tuple[str, bytes], argument: str) -> bool:
    ((input,),) = tx.fetch("get_input", name)
    return with_result(to_raw(input), argument, to_raw(None)) is None
