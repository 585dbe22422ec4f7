"""Approvals: questions to people, and their answers. `domain/approval.py` has the rules."""

from collections.abc import Sequence
from hmac import compare_digest

from windlass.domain.approval import (
    ANSWER,
    AnswerOutcome,
    AnswerReply,
    Approval,
    OpenApproval,
    read_answer,
    read_question,
)
from windlass.domain.run import RunRef
from windlass.domain.states import Verb
from windlass.domain.step import StepState
from windlass.store.sqlite.audit import note_audit
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.places import live_place
from windlass.store.sqlite.signals import send
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    from_micros_or_none,
    to_id,
    to_json,
    to_raw,
)

_NOBODY = (None, None, None, None)


def answer_approval(
    tx: OpenTransaction,
    run: RunRef,
    path: str,
    approved: bool,
    by: str | None,
    comment: str | None,
    token: str | None,
    *,
    actor: str | None = None,
) -> AnswerReply:
    """Answer an approval, unless that was done before or its time is over."""
    name = run.tenant, blob_or_none(run.id)
    state, signal, until, hashed = tx.fetch_one("get_approval", (*name, path)) or _NOBODY
    if token is not None and signal is not None and not compare_digest(token, hashed or ""):
        return AnswerReply(outcome=AnswerOutcome.REFUSED)
    known = tx.fetch_one("signal_of_key", (*name, signal, ANSWER))
    if known is not None:
        return AnswerReply(outcome=AnswerOutcome.KNOWN, answer=read_answer(to_raw(known[3])))
    place = live_place(tx, run, Verb.SIGNAL)
    if signal is None:
        return AnswerReply(outcome=AnswerOutcome.UNKNOWN)
    if state != StepState.WAITING or (until is not None and until <= tx.now):
        return AnswerReply(outcome=AnswerOutcome.EXPIRED)
    told = Approval(approved=approved, at=from_micros(tx.now), by=by, comment=comment)
    send(tx, place, signal, to_json(told), ANSWER)
    verb = "approve" if approved else "reject"
    note_audit(tx, run, verb, by or actor, comment, {"name": path})
    return AnswerReply(outcome=AnswerOutcome.ANSWERED, answer=told)


def list_approvals(
    tx: OpenTransaction, tenant: str, after: tuple[str, str] | None, limit: int
) -> Sequence[OpenApproval]:
    """Return what is asked for and has no answer."""
    run, path = after or ("", "")
    bindings = (tenant, blob_or_none(run) or b"", path, tx.now, limit)
    return [
        OpenApproval(
            run=to_id(row[0]),
            job=row[1],
            name=row[2],
            question=read_question(row[3]).question,
            asked_at=from_micros(row[4]),
            expires_at=from_micros_or_none(row[5]),
        )
        for row in tx.fetch("list_approvals", bindings)
    ]
