"""When a cancel or a pause was asked, heard and done, as the history of a run tells it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.domain.event import EventType
from windlass.domain.run import Event
from windlass.domain.stopping import stop_requests

START = datetime(2030, 1, 1, tzinfo=UTC)


def history(*rows: tuple[float, EventType, dict[str, Any] | None]) -> list[Event]:
    return [
        Event(seq=n, type=kind, at=START + timedelta(seconds=at), attempt=1, data=data)
        for n, (at, kind, data) in enumerate(rows, 1)
    ]


def told(*rows: tuple[float, EventType, dict[str, Any] | None]) -> list[tuple[Any, ...]]:
    def after(moment: datetime | None) -> float | None:
        return None if moment is None else (moment - START).total_seconds()

    return [
        (each.kind, after(each.asked_at), after(each.heard_at), after(each.done_at), each.became)
        for each in stop_requests(history(*rows))
    ]


def test_a_cancel_is_asked_heard_and_done() -> None:
    asked = (2.0, EventType.CANCEL_REQUESTED, {"reason": "enough"})
    began = (1.0, EventType.STARTED, None)
    assert told(began, asked) == [("cancel", 2.0, None, None, None)]
    done = (5.0, EventType.CANCELED, {"reason": "enough", "heard": 2.5})
    assert told(began, asked, done) == [("cancel", 2.0, 2.5, 5.0, EventType.CANCELED)]
    (request,) = stop_requests(history(began, asked, done))
    assert request.reason == "enough"


def test_what_the_worker_did_not_say_is_not_known() -> None:
    asked = (2.0, EventType.CANCEL_REQUESTED, None)
    won = (3.0, EventType.SUCCEEDED, None)
    assert told(asked, won) == [("cancel", 2.0, None, 3.0, EventType.SUCCEEDED)]
    reaped = (9.0, EventType.CANCELED, None)
    assert told(asked, reaped) == [("cancel", 2.0, None, 9.0, EventType.CANCELED)]
    # The clocks of the worker and the store differ: it was not heard before it was asked.
    early = (3.0, EventType.CANCELED, {"heard": 1.2})
    assert told(asked, early) == [("cancel", 2.0, 2.0, 3.0, EventType.CANCELED)]


def test_a_run_that_was_not_running_stopped_at_once() -> None:
    assert told((1.0, EventType.ENQUEUED, None), (2.0, EventType.CANCELED, None)) == []
    assert told((1.0, EventType.ENQUEUED, None), (2.0, EventType.PAUSED, None)) == []


def test_pauses_one_after_another_and_one_that_is_taken_back() -> None:
    # An operator pauses it as it waits for its next attempt: that is another matter.
    crashed = ((4.0, EventType.CRASHED, None), (5.0, EventType.PAUSED, None))
    back = ((1.0, EventType.PAUSE_REQUESTED, None), (2.0, EventType.RESUMED, None))
    assert told(*back, *crashed) == [("pause", 1.0, None, 2.0, EventType.RESUMED)]
    rows = (
        (1.0, EventType.PAUSE_REQUESTED, None),
        (2.0, EventType.INTERRUPTED, {"heard": 0.5}),
        (2.0, EventType.PAUSED, None),
        (3.0, EventType.RESUMED, {"to": "queued"}),
        (4.0, EventType.PAUSE_REQUESTED, None),
        (5.0, EventType.RESUMED, None),
        (6.0, EventType.PAUSE_REQUESTED, None),
        (7.0, EventType.CANCEL_REQUESTED, None),
        (8.0, EventType.CANCELED, {"heard": 0.25}),
    )
    assert told(*rows) == [
        ("pause", 1.0, 1.5, 2.0, EventType.PAUSED),
        ("pause", 4.0, None, 5.0, EventType.RESUMED),
        ("pause", 6.0, 7.75, 8.0, EventType.CANCELED),
        ("cancel", 7.0, 7.75, 8.0, EventType.CANCELED),
    ]
