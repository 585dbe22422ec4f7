"""The feed, for who follows it, on PostgreSQL: see `store/operations/events.py`."""

from collections.abc import Sequence
from datetime import datetime

from windlass.domain.envelope import About, EventFacts, NewEvent
from windlass.domain.run import Held
from windlass.store.postgres.ids import id_or_nobody, is_id
from windlass.store.postgres.literals import plain_array
from windlass.store.postgres.statement import Statement, every, value


def find_place(at: datetime | None) -> Statement[str]:
    """A place in the feed."""
    return Statement("find_place", (None if at is None else at.isoformat(),), value)


def list_event_facts(tenant: str, of: Sequence[About]) -> Statement[Sequence[EventFacts]]:
    """What is known of runs and schedules."""
    known = [about for about in of if is_id(about.id)]
    ids = plain_array(about.id for about in known)
    attempts = plain_array(about.attempt for about in known)
    return Statement("list_event_facts", (tenant, ids, attempts), every(EventFacts))


def emit(held: Held, event: NewEvent) -> Statement[int | None]:
    """Add an event to a run."""
    data = bytes(event.data).decode()
    parameters = (held.tenant, id_or_nobody(held.id), held.token, event.name, data)
    return Statement("emit", parameters, value, about=held.id)
