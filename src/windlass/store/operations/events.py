"""The feed: where to begin, what is known of those it tells of, and events of a program's own."""

from collections.abc import Sequence
from datetime import datetime

from windlass.domain.envelope import About, EventFacts, NewEvent
from windlass.domain.run import Held
from windlass.store.operations.declare import read, scan, write


class EventOperations:
    """What a reader needs besides the events themselves."""

    @read()
    def find_place(self, at: datetime | None) -> str:
        """A place in the feed: what is committed from now on comes after it.

        With ``at``, one that comes before all events since then, and not long before: the times of
        events that are committed side by side are not in the order of the feed.
        """

    @scan()
    def list_event_facts(self, tenant: str, of: Sequence[About]) -> Sequence[EventFacts]:
        """What is known of runs and schedules, and of the attempts named; unknown ones are left
        out. Answers in any order, one for each (id, attempt)."""

    @write(repeatable=False, for_handlers=True)
    def emit(self, held: Held, event: NewEvent) -> int | None:
        """Add an event of the program's own to its run; returns its seq. None: the lease is lost.

        Whoever calls it again tells it again.
        """
