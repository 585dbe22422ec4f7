"""Events of a program's own: under the token of the lease, and in the feed like all others."""

from __future__ import annotations

import msgspec

from tests.conformance.kit import Driver, ref
from windlass.domain.envelope import NewEvent
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Held

SHIPPED = NewEvent(name="order.shipped", data=msgspec.Raw(b'{"order":7}'))


def held_of(run: Claimed) -> Held:
    """Its lease."""
    return Held(run.tenant, run.id, run.token)


def test_an_event_is_in_the_history_and_in_the_feed(drive: Driver) -> None:
    held = drive.start()
    assert drive.call(drive.ops.emit(held_of(held), SHIPPED)) == 3
    drive.advance(1)
    drive.finish(held, Outcome.SUCCEEDED)

    assert drive.trail(held.ref) == [
        "run.enqueued", "run.started", "order.shipped", "run.succeeded",
    ]  # fmt: skip
    (told,) = [event for event in drive.feed(at_least=4) if event.type == "order.shipped"]
    assert (told.subject, told.seq, told.attempt, told.data) == (held.id, 3, 1, {"order": 7})


def test_who_has_lost_the_lease_tells_nothing(drive: Driver) -> None:
    held = drive.start()
    stale = Held(held.tenant, held.id, held.token - 1)
    assert drive.call(drive.ops.emit(stale, SHIPPED)) is None
    drive.finish(held, Outcome.SUCCEEDED)
    assert drive.call(drive.ops.emit(held_of(held), SHIPPED)) is None
    assert drive.call(drive.ops.emit(Held("default", "nobody", 1), SHIPPED)) is None

    assert "order.shipped" not in drive.trail(ref(held.id))
