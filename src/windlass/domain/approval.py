"""Approvals: questions to people, as steps that wait for a signal.

A handler asks by `ctx.approval(…)`. That is a step of the kind ``approval`` which waits for a
signal of its own, whose name nobody else can send: it has a ``#``. The question is kept as the
step's input, with the hash of a token if there is one. A person answers by `app.approve` or
`app.reject`; the store looks at the step, its time and its token under the lock of the run, and
sends the signal with the key ``answer``. So there is one answer at most, the first one, and none
after the time is over.

The token is for whoever has no other right than to answer this one question, such as by a link in
a mail. It is random, given once to the handler's `notify`, and nowhere stored.
"""

import hashlib
from datetime import datetime
from typing import Any

import msgspec

from windlass.domain.job import check_text
from windlass.domain.open_enum import OpenEnum

ANSWER = "answer"
"""The key of the signal that answers: the first one counts."""

_SIGNAL = "approval#"
_LONGEST_PATH = 400  # bytes of a path that is a signal's name as it is
_LONGEST_QUESTION = 2_000
_LONGEST_NAME = 200
_LONGEST_COMMENT = 10_000


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a question to people; it is true if they approved."""

    approved: bool
    at: datetime  # when it was answered, or when its time was over
    by: str | None = None  # who answered, as they said
    comment: str | None = None
    expired: bool = False  # nobody answered in time; then it is not approved

    def __bool__(self) -> bool:
        """`if await ctx.approval(…):` means what it says."""
        return self.approved


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `notify` is given, to tell people that they are asked."""

    run: str
    name: str  # the path of the step
    question: str
    token: str  # to answer with: `app.approve(run, name, token=…)`; a secret


class OpenApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits for its answer."""

    run: str
    job: str
    name: str  # the path of the step
    question: str
    asked_at: datetime
    expires_at: datetime | None = None


class AnswerOutcome(OpenEnum):
    """What the store made of an answer."""

    ANSWERED = "answered"
    KNOWN = "known"  # it was answered before: the first answer is returned
    EXPIRED = "expired"
    UNKNOWN = "unknown"  # the run asks no such question
    REFUSED = "refused"  # the token is another's


class AnswerReply(msgspec.Struct, frozen=True, kw_only=True):
    """The store's reply to an answer, with the answer that counts if there is one."""

    outcome: AnswerOutcome
    answer: Approval | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the step of an approval has as its input."""

    question: str
    token: str | None = None  # its hash


def signal_of(path: str, nonce: str) -> str:
    """The name of the signal that answers an approval, and no other: ``nonce`` is random.

    The next generation of a run may ask by the same path. A late answer to the question of before
    must not answer that.

    >>> signal_of("deploy", "x7"), len(signal_of("deploy/" * 100, "x7"))
    ('approval#deploy#x7', 44)
    """
    if len(path.encode()) > _LONGEST_PATH:
        path = hashlib.sha256(path.encode()).hexdigest()[:32]
    return f"{_SIGNAL}{path}#{nonce}"


def hash_of(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_question(text: str | None) -> Question:
    """The input of an approval's step; one of another origin is shown as it is."""
    try:
        return msgspec.json.decode(text or "", type=Question)
    except msgspec.MsgspecError:
        return Question(question=text or "")


def read_answer(payload: msgspec.Raw) -> Approval:
    """The payload of the signal that answers."""
    return msgspec.json.decode(payload, type=Approval)


def check_question(value: object) -> str:
    """Return a question that can be shown. Raises BadOption."""
    return check_text("question", value, _LONGEST_QUESTION)


def check_by(value: object) -> str | None:
    """Return who answers, if that is said. Raises BadOption."""
    return None if value is None else check_text("by", value, _LONGEST_NAME)


def check_comment(value: object) -> str | None:
    """Return what they say about it, if anything. Raises BadOption."""
    return None if value is None else check_text("comment", value, _LONGEST_COMMENT)


def is_same(one: Approval, approved: bool, by: str | None, comment: str | None) -> bool:
    """Whether an answer says the same as another: then it may be given twice."""
    told: tuple[Any, ...] = (one.approved, one.by, one.comment)
    return told == (approved, by, comment)
