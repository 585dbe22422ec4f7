"""The verbs that can be applied to many runs at once: each joins by one line of `BULK_VERBS`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from windlass.domain.states import TRANSITIONS, Status, Verb
from windlass.errors import IllegalTransition, RunNotFound, StoreBusy, WindlassError

# PostgreSQL keeps the numbers of 64 subtransactions of a session where others find them quickly.
MOST_AT_ONCE = 50


_TIMED = {"status": (Status.SCHEDULED, Status.QUEUED)}
_WAITING = {"status": (Status.SCHEDULED, Status.QUEUED, Status.WAITING, Status.PAUSED)}
_LIVE = {"status": (Status.SCHEDULED, Status.QUEUED, Status.RUNNING, Status.WAITING, Status.PAUSED)}
_PAUSED = {"status": (Status.PAUSED, Status.RUNNING)}
_DEAD = {"dead": True}


@dataclass(frozen=True, slots=True)
class BulkVerb:
    """A verb for many runs. Its name is that of the store's operation for one run."""

    name: str
    done: str  # what the runs then are, for people
    where: frozenset[Status]  # the statuses that it can be applied to
    by_default: Mapping[str, Any]  # the runs that are meant where no status is given
    repeatable: bool = False  # as the operation for one run


def _where(verb: Verb) -> frozenset[Status]:
    """By the rules; that a succeeded run may be reopened once it is stale is not for the many."""
    found = {status for status, verbs in TRANSITIONS.items() if verb in verbs}
    return frozenset(found - {Status.SUCCEEDED})


BULK_VERBS: Mapping[str, BulkVerb] = MappingProxyType(
    {
        verb.name: verb
        for verb in (
            # What is canceled already may be canceled again.
            BulkVerb("cancel", "canceled", _where(Verb.CANCEL) | {Status.CANCELED}, _LIVE, True),
            BulkVerb("pause", "paused", _where(Verb.PAUSE), _LIVE, True),
            BulkVerb("resume", "resumed", _where(Verb.RESUME), _PAUSED, True),
            BulkVerb(
                "terminate", "terminated", _where(Verb.TERMINATE) | {Status.CANCELED}, _LIVE, True
            ),
            BulkVerb("restart", "restarted", _where(Verb.RESTART), _DEAD),
            BulkVerb("retry", "retried", _where(Verb.RETRY), _DEAD),
            BulkVerb("reschedule", "rescheduled", _where(Verb.RESCHEDULE), _TIMED),
            BulkVerb("reprioritize", "moved", _where(Verb.REPRIORITIZE), _WAITING, True),
            BulkVerb("change", "changed", _where(Verb.CHANGE), _WAITING, True),
            BulkVerb("discard", "discarded", frozenset({Status.FAILED}), _DEAD),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one run: the status it was left in, or why the verb was refused."""

    id: str
    status: Status | None = None
    error: WindlassError | None = None


def reason_of(error: WindlassError) -> str:
    """Why a run was left out, in a word: its status, or the code of the error."""
    match error:
        case IllegalTransition(status=status):
            return str(status)
        case RunNotFound():
            return "deleted"
        case StoreBusy():
            return "busy"
        case _:
            return error.code
