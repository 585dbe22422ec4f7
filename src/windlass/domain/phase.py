"""Phases: the parts of a pipeline, one after another, and how far each has come.

A phase is a durable step of the kind ``phase`` at the top of its run. So it has no row of its own
while it runs; what is known of a run's phases is derived here, from three things that are stored
anyway: the status of the run, its steps, and the row of its progress, which has the names of all
phases and which of them is running. There is no second record that could disagree.

A job without phases has the one phase ``run``: the same picture for both.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction

import msgspec

from windlass.domain.open_enum import OpenEnum
from windlass.domain.progress import Detail
from windlass.domain.report import ErrorInfo
from windlass.domain.run import RunRecord
from windlass.domain.states import Status
from windlass.domain.step import Step, StepKind, StepState

MOST_PHASES = 100
"""How many a pipeline may have: for more, a loop of steps is the better form."""

ONLY_PHASE = "run"
"""The phase of a job that has no others."""


class PhaseStatus(OpenEnum):
    """How a phase stands."""

    PENDING = "pending"  # nothing of it has been done
    RUNNING = "running"
    WAITING = "waiting"  # it sleeps, or waits for a signal, without a seat
    RETRYING = "retrying"  # it has failed, and will be tried again
    INTERRUPTED = "interrupted"  # a worker stopped or died in it: it begins anew
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class PhaseState(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a run. `progress` is from 0 to 1, as that of a run is."""

    name: str
    status: PhaseStatus
    progress: float = 0.0
    message: str | None = None
    """What it told last; only of the phase in which the run is, or was when it ended."""
    started_at: datetime | None = None
    completed_at: datetime | None = None
    error: ErrorInfo | None = None


def overall(place: int, own: float, phases: int) -> float:
    """How far a run is: (place + own) / phases, rounded once, where own is from 0 to 1.

    In percent that is ((index + progress / 100) / phases) * 100.

    >>> [overall(0, 0.5, 2), overall(1, 0.0, 3) == 1 / 3, overall(2, 1.0, 3)]
    [0.25, True, 1.0]
    """
    return float((place + Fraction(own)) / phases)


def phases_of(
    run: RunRecord, steps: Sequence[Step], known: Sequence[str] = ()
) -> Sequence[PhaseState]:
    """The phases of a run. `known` are their names by its job, for a run that has not started."""
    detail = run.progress_detail or Detail()
    recorded = {step.path: step for step in steps if step.kind is StepKind.PHASE}
    names = detail.phases or tuple(known) or _in_order(recorded)
    if not names:
        return [_only(run)]
    # By its recorded steps, a run may be further than its row of progress says.
    done = [_is_done(recorded.get(name)) for name in names]
    place = done.index(False) if False in done else len(names)
    told = detail if detail.phases and detail.place == place else None
    return [_state(run, name, n - place, recorded.get(name), told) for n, name in enumerate(names)]


def _in_order(recorded: Mapping[str, Step]) -> Sequence[str]:
    """What is recorded, if nobody says what else there is."""
    return sorted(recorded, key=lambda path: (recorded[path].started_at, recorded[path].seq or 0))


def _is_done(step: Step | None) -> bool:
    return step is not None and step.state is StepState.DONE


def _state(
    run: RunRecord, name: str, ahead: int, step: Step | None, told: Detail | None
) -> PhaseState:
    """One phase, so many places ahead of the one that the run is in."""
    if step is not None and _is_done(step):
        return PhaseState(
            name=name,
            status=PhaseStatus.SUCCEEDED,
            progress=1.0,
            started_at=step.started_at,
            completed_at=step.at,
        )
    if ahead or (told is None and step is None and not _has_begun(run)):
        ended = ahead == 0 and run.status is Status.CANCELED
        return PhaseState(name=name, status=PhaseStatus.CANCELED if ended else PhaseStatus.PENDING)
    status = _status(run, step)
    return PhaseState(
        name=name,
        status=status,
        progress=0.0 if told is None else told.own or 0.0,
        message=None if told is None else run.progress_message,
        started_at=_began(run, step, told),
        completed_at=run.finished_at if run.status.finished else None,
        error=step.error if step is not None and step.error is not None else _error(run, status),
    )


def _status(run: RunRecord, step: Step | None) -> PhaseStatus:
    match run.status:
        case Status.RUNNING:
            retries = step is not None and step.state is StepState.RETRYING
            return PhaseStatus.RETRYING if retries and _waits(step) else PhaseStatus.RUNNING
        case Status.SUCCEEDED:  # by other code, which has fewer phases or ends without this one
            return PhaseStatus.PENDING
        case Status.FAILED:
            return PhaseStatus.FAILED
        case Status.CANCELED:
            return PhaseStatus.CANCELED
        case _ if step is not None and step.state is StepState.RETRYING:
            return PhaseStatus.RETRYING
        case _ if run.waits:
            return PhaseStatus.WAITING
        case _ if run.waiting_for == "backoff":
            return PhaseStatus.RETRYING
        case _:
            return PhaseStatus.INTERRUPTED if _has_begun(run) else PhaseStatus.PENDING


def _waits(step: Step | None) -> bool:
    return step is not None and step.left is not None and step.left > 0


def _has_begun(run: RunRecord) -> bool:
    return run.attempt > 0


def _began(run: RunRecord, step: Step | None, told: Detail | None) -> datetime | None:
    if step is not None:
        return step.started_at
    if told is not None and run.progress_at is not None:
        return run.progress_at - timedelta(seconds=told.took)
    return run.started_at


def _error(run: RunRecord, status: PhaseStatus) -> ErrorInfo | None:
    return run.error if status in (PhaseStatus.FAILED, PhaseStatus.RETRYING) else None


def _only(run: RunRecord) -> PhaseState:
    """The one phase of a job without phases: the run itself."""
    status = PhaseStatus.SUCCEEDED if run.status is Status.SUCCEEDED else _status(run, None)
    own = 1.0 if status is PhaseStatus.SUCCEEDED else run.progress or 0.0
    return PhaseState(
        name=ONLY_PHASE,
        status=status,
        progress=own,
        message=run.progress_message,
        started_at=run.started_at,
        completed_at=run.finished_at,
        error=_error(run, status),
    )
