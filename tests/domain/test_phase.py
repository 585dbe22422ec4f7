"""How far a pipeline is: the formula, and the phases of a run, derived from what is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.phase import PhaseStatus, overall, phases_of
from windlass.domain.progress import Detail
from windlass.domain.report import ErrorInfo
from windlass.domain.run import RunRecord
from windlass.domain.states import Status
from windlass.domain.step import Step, StepKind, StepState

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("download", "process", "upload")
BOOM = ErrorInfo(type="ValueError", message="boom")

TABLE = [
    # index, progress of the phase in percent, phases, overall in percent
    (0, 0, 1, 0), (0, 37, 1, 37), (0, 100, 1, 100),
    (0, 50, 2, 25), (1, 0, 2, 50), (1, 50, 2, 75), (1, 100, 2, 100),
    (0, 0, 4, 0), (1, 20, 4, 30), (2, 40, 4, 60), (3, 100, 4, 100),
]  # fmt: skip


@pytest.mark.parametrize(("index", "progress", "phases", "percent"), TABLE)
def test_overall_progress(index: int, progress: int, phases: int, percent: int) -> None:
    assert overall(index, progress / 100, phases) * 100 == percent
    assert ((index + progress / 100) / phases) * 100 == percent


@given(st.integers(1, 100), st.data(), st.floats(0, 1))
def test_overall_progress_is_exact(phases: int, data: st.DataObject, own: float) -> None:
    index = data.draw(st.integers(0, phases - 1))
    found = overall(index, own, phases)
    exact = (index + Fraction(own)) / phases
    assert found == float(exact), "rounded once"
    assert 0 <= found <= 1
    assert float(Fraction(index, phases)) <= found <= float(Fraction(index + 1, phases))


@given(st.integers(2, 100), st.data(), st.floats(0, 1), st.floats(0, 1))
def test_overall_progress_never_goes_back(
    phases: int, data: st.DataObject, one: float, other: float
) -> None:
    index = data.draw(st.integers(0, phases - 2))
    low, high = sorted((one, other))
    assert overall(index, low, phases) <= overall(index, high, phases)
    assert overall(index, 1.0, phases) == overall(index + 1, 0.0, phases)


def run_in(status: Status, **fields: Any) -> RunRecord:
    known: dict[str, Any] = {
        "tenant": "default", "id": "x", "job": "j", "queue": "q", "priority": 0, "attempt": 1,
        "failures": 0, "crash_count": 0, "token": 1, "created_at": START, "scheduled_for": START,
        "updated_at": START, "input": msgspec.Raw(b"{}"), "started_at": START,
        "finished_at": at(90) if status.finished else None,
    }  # fmt: skip
    return RunRecord(status=status, **(known | fields))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def step(name: str, state: StepState = StepState.DONE, **fields: Any) -> Step:
    known: dict[str, Any] = {"started_at": at(1), "at": at(9), "attempt": 1, "seq": 3}
    return Step(path=name, kind=StepKind.PHASE, state=state, **(known | fields))


def told(place: int, own: float | None = 0.4, **fields: Any) -> dict[str, Any]:
    detail = Detail(phases=NAMES, place=place, own=own, took=5.0)
    return {"progress_detail": detail, "progress_message": "on it", "progress_at": at(30)} | fields


def statuses(record: RunRecord, *steps: Step, known: tuple[str, ...] = NAMES) -> list[str]:
    return [phase.status.value for phase in phases_of(record, steps, known)]


def test_a_run_that_has_not_started_has_its_jobs_phases() -> None:
    queued = run_in(Status.QUEUED, attempt=0, started_at=None)
    assert statuses(queued) == ["pending"] * 3
    canceled = run_in(Status.CANCELED, attempt=0, started_at=None)
    assert statuses(canceled) == ["canceled", "pending", "pending"]


def test_a_run_in_its_second_phase() -> None:
    found = phases_of(run_in(Status.RUNNING, **told(1)), [step("download")])
    first, second, third = found
    assert (first.status, first.progress) == (PhaseStatus.SUCCEEDED, 1.0)
    assert (first.started_at, first.completed_at, first.message) == (at(1), at(9), None)
    assert (second.status, second.progress, second.message) == (PhaseStatus.RUNNING, 0.4, "on it")
    assert (second.started_at, second.completed_at) == (at(25), None)
    assert (third.status, third.progress, third.started_at) == (PhaseStatus.PENDING, 0.0, None)


def test_what_is_recorded_counts_more_than_what_was_told_before() -> None:
    """The row of progress may be a second behind."""
    found = phases_of(run_in(Status.RUNNING, **told(0, 0.9)), [step("download")])
    assert [(p.status.value, p.progress) for p in found] == [
        ("succeeded", 1.0), ("running", 0.0), ("pending", 0.0),
    ]  # fmt: skip
    assert found[1].message is None


ENDS: list[tuple[RunRecord, list[Step], list[str]]] = [
    (run_in(Status.SUCCEEDED, **told(2, 1.0)), [step(n) for n in NAMES], ["succeeded"] * 3),
    (run_in(Status.FAILED, error=BOOM, **told(1)),
     [step("download"), step("process", StepState.FAILED, error=BOOM)],
     ["succeeded", "failed", "pending"]),
    # A worker died in it once too often: there is no record of the phase.
    (run_in(Status.FAILED, error=BOOM, **told(1)), [step("download")],
     ["succeeded", "failed", "pending"]),
    (run_in(Status.CANCELED, **told(1)), [step("download")], ["succeeded", "canceled", "pending"]),
    (run_in(Status.SCHEDULED, waits=("process",), **told(1)),
     [step("download"), step("process", StepState.RETRYING, error=BOOM)],
     ["succeeded", "retrying", "pending"]),
    (run_in(Status.SCHEDULED, waiting_for="backoff", error=BOOM, **told(1)), [step("download")],
     ["succeeded", "retrying", "pending"]),
    (run_in(Status.SCHEDULED, waits=("process/nap",), **told(1)), [step("download")],
     ["succeeded", "waiting", "pending"]),
    (run_in(Status.WAITING, waits=("process/paid",), **told(1)), [step("download")],
     ["succeeded", "waiting", "pending"]),
    (run_in(Status.QUEUED, **told(1)), [step("download")], ["succeeded", "interrupted", "pending"]),
]  # fmt: skip


@pytest.mark.parametrize(("record", "steps", "expected"), ENDS)
def test_phases_of_runs_in_each_status(
    record: RunRecord, steps: list[Step], expected: list[str]
) -> None:
    found = phases_of(record, steps)
    assert [phase.status.value for phase in found] == expected
    for phase in found:
        wrong = phase.status in (PhaseStatus.FAILED, PhaseStatus.RETRYING)
        assert phase.error == (BOOM if wrong else None)
    if record.status in (Status.FAILED, Status.CANCELED):
        assert found[1].completed_at == record.finished_at


def test_without_names_what_is_recorded_is_shown() -> None:
    """Of a run of another program, before anything was told."""
    steps = [step("b", started_at=at(5)), step("a")]
    assert [p.name for p in phases_of(run_in(Status.RUNNING), steps)] == ["a", "b"]


ONLY = [
    (Status.QUEUED, {"attempt": 0}, "pending", 0.0),
    (Status.RUNNING, {"progress": 0.3, "progress_message": "on it"}, "running", 0.3),
    (Status.SUCCEEDED, {"progress": 0.3}, "succeeded", 1.0),
    (Status.FAILED, {"error": BOOM}, "failed", 0.0),
    (Status.CANCELED, {}, "canceled", 0.0),
    (Status.WAITING, {"waits": ("paid",)}, "waiting", 0.0),
]


@pytest.mark.parametrize(("status", "fields", "expected", "progress"), ONLY)
def test_a_job_without_phases_has_the_one_phase_run(
    status: Status, fields: dict[str, Any], expected: str, progress: float
) -> None:
    record = run_in(status, **fields)
    [only] = phases_of(record, [])
    assert (only.name, only.status, only.progress) == ("run", expected, progress)
    assert only.message == record.progress_message
    assert only.error == (BOOM if status is Status.FAILED else None)
