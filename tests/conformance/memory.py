"""The part of the history checker that reads steps and signals: see `history` (I18 to I21)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tests.conformance.places import Row
from windlass.domain.event import EventType
from windlass.domain.step import StepKind, StepState, event_of

NEVER = 2**31  # a seq that comes after all others

_STEPS = ("step.", "phase.")


class Memory:
    """What one run remembers of its steps, and the signals that were sent to it."""

    def __init__(
        self, steps: Sequence[Row], signals: Sequence[Row], generations: Sequence[Row] = ()
    ) -> None:
        self._steps = steps
        self._signals = signals
        self._generations = generations
        # Of an input that the run went on from, by its number; 0 is what it has.
        self._over = {row["generation"]: int(row["seq"]) for row in generations} | {0: NEVER}
        # Steps of negative generations failed: they wait for nothing, and no signal answered them.
        kept = [step for step in steps if step["generation"] >= 0]
        kept.sort(key=lambda step: self._over.get(step["generation"], NEVER))
        self._kept: dict[str, list[Row]] = {}
        for step in kept:
            self._kept.setdefault(step["path"], []).append(step)
        self._answers = dict(self._paired())

    def _paired(self) -> Iterator[tuple[int, Row]]:
        """The number of each signal that was taken, and the step that it answered.

        A path may be that of a step in each generation: they took their signals in turn.
        """
        for path, steps in self._kept.items():
            taken = [row["number"] for row in self._signals if row["taken_by"] == path]
            done = [s for s in steps if s["signal"] is not None and s["state"] == StepState.DONE]
            yield from zip(taken, done, strict=False)

    def _alive(self, path: str, at: int) -> Iterator[Row]:
        """The step of a path that the run had, at this seq."""
        for step in self._kept.get(path, ()):
            before = (step["generation"] or len(self._generations) + 1) - 1
            since = self._over.get(before, 0) if before else 0
            if since < at <= self._over.get(step["generation"], NEVER):
                yield step

    def answers(self, paths: Sequence[str], at: int = NEVER) -> bool:
        """Whether a step of these waits, at this seq, for a signal that is there and free."""
        waiting = [step for path in paths for step in self._alive(path, at)]
        names = {
            step["signal"]
            for step in waiting
            if step["signal"] is not None and self._ended(step) >= at
        }
        return any(
            signal["name"] in names and signal["number"] < at and self._taken(signal) >= at
            for signal in self._signals
        )

    def waits_for_children(self, paths: Sequence[str]) -> bool:
        """Whether one of these steps has started children; `offspring` says whether they live."""
        kinds = {step["kind"] for step in self._steps if step["path"] in paths}
        return not kinds.isdisjoint({"child", "children"})

    def problems(self, events: Sequence[Row]) -> Iterator[str]:
        """What is wrong with them, in sentences."""
        yield from self._wrong_steps(events)
        yield from self._wrong_signals(events)
        yield from self._wrong_answers()
        told = [event["seq"] for event in events if event["type"] == EventType.CONTINUED]
        kept = [(row["generation"], row["seq"]) for row in self._generations]
        if kept != list(enumerate(told, 1)):
            yield f"has the generations {kept}, by its events {told} (I21)"

    def _wrong_steps(self, events: Sequence[Row]) -> Iterator[str]:
        told = {event["seq"]: event for event in events if event["type"].startswith(_STEPS)}
        for step in self._steps:
            kind, state = StepKind(step["kind"]), StepState(step["state"])
            event = told.get(step["seq"])
            if state.ended != (step["seq"] is not None):
                yield f"step {step['path']} is {state}, ended by seq {step['seq']} (I18)"
            elif state.ended and (event is None or event["type"] != event_of(kind, state)):
                yield f"step {step['path']} is {state} by no event of that kind (I18)"
            elif event is not None and _data(event).get("step") != step["path"]:
                yield f"step {step['path']} was ended by the event of another (I18)"
        ends = Counter(step["seq"] for step in self._steps if step["seq"] is not None)
        for seq, event in told.items():
            if event["type"] != EventType.STEP_RETRYING and ends[seq] != 1:
                yield f"{event['type']} at seq {seq} is of {ends[seq]} steps (I18)"

    def _wrong_signals(self, events: Sequence[Row]) -> Iterator[str]:
        told = [
            (event["seq"], _data(event)["number"], _data(event)["name"])
            for event in events
            if event["type"] == EventType.SIGNALED
        ]
        sent = [(row["number"], row["number"], row["name"]) for row in self._signals]
        if sorted(told) != sorted(sent):
            yield f"was sent the signals {sent}, by its events {told} (I19)"

    def _wrong_answers(self) -> Iterator[str]:
        taken = Counter(row["taken_by"] for row in self._signals if row["taken_by"] is not None)
        for path, times in taken.items():
            if times > len(self._kept.get(path, ())):
                yield f"step {path} took {times} signals (I19)"
        last: dict[str, int] = {}
        for signal in self._signals:
            step = self._answers.get(signal["number"])
            if signal["taken_by"] is None:
                continue
            if step is None or step["state"] != StepState.DONE or step["signal"] != signal["name"]:
                yield f"signal {signal['number']} was taken by {signal['taken_by']}: not so (I19)"
            elif _decoded(step["value"]) != _decoded(signal["payload"]):
                yield f"step {step['path']} has not the payload of its signal (I19)"
            elif step["seq"] < last.get(signal["name"], 0) or step["seq"] < signal["number"]:
                yield f"signal {signal['number']} answered out of turn (I19)"
            else:
                last[signal["name"]] = step["seq"]
        for path, steps in self._kept.items():
            done = [s for s in steps if s["signal"] is not None and s["state"] == StepState.DONE]
            if len(done) > taken[path]:
                yield f"step {path} was answered by no signal (I19)"

    def _ended(self, step: Row) -> int:
        return NEVER if step["seq"] is None else int(step["seq"])

    def _taken(self, signal: Row) -> int:
        """The seq at which a signal was taken."""
        taken_by = self._answers.get(signal["number"])
        return NEVER if taken_by is None else self._ended(taken_by)


def _data(event: Row) -> Mapping[str, Any]:
    return _decoded(event["data"]) or {}


def _decoded(document: Any) -> Any:
    """JSON is text in one store and a value in the other, which may be a text itself."""
    try:
        return msgspec.json.decode(document) if isinstance(document, str) else document
    except msgspec.DecodeError:
        return document
