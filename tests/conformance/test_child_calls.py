"""Calls of child processes: what a handler sends is what the worker calls, JSON and all."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from windlass.domain.report import ErrorInfo
from windlass.domain.run import Held
from windlass.domain.step import Step, StepKind, StepState, StepWrite
from windlass.store.operations import Operations
from windlass.store.operations.handlers import (
    make_call,
    pack_answer,
    pack_arguments,
    unpack_answer,
)

HELD = Held("default", "x", 1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def shown(steps: object) -> list[dict[str, object]]:
    assert isinstance(steps, list)
    found = [msgspec.structs.asdict(step) for step in steps]
    for fields in found:
        fields["value"] = None if fields["value"] is None else bytes(fields["value"])
    return found


def test_steps_travel_with_their_values() -> None:
    ops = Operations()
    writes = [
        StepWrite(path="a", kind=StepKind.STEP, state=StepState.DONE, value=msgspec.Raw(b"[1]")),
        StepWrite(path="b", kind=StepKind.VALUE, state=StepState.DONE),
        StepWrite(path="c", kind=StepKind.STEP, state=StepState.FAILED, failures=2,
                  error=ErrorInfo(type="E", message="m"), value=msgspec.Raw(b'"fatal"')),
    ]  # fmt: skip
    sent = pack_arguments(ops, ops.record_steps(HELD, writes))
    call = make_call(ops, "record_steps", HELD, sent)
    assert shown(call.keywords["steps"]) == shown(writes)


def test_answers_travel_with_their_values() -> None:
    ops = Operations()
    steps = [
        Step(path="a", kind=StepKind.STEP, state=StepState.DONE, started_at=NOW, at=NOW, attempt=1,
             value=msgspec.Raw(b"[1,2]")),
        Step(path="b", kind=StepKind.SLEEP, state=StepState.WAITING, started_at=NOW, at=NOW,
             attempt=1, until=NOW, left=3.0),
    ]  # fmt: skip
    for name in ("record_steps", "list_steps"):
        assert shown(unpack_answer(ops, name, pack_answer(steps))) == shown(steps)
    assert unpack_answer(ops, "record_steps", pack_answer(None)) is None
