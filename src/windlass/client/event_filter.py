"""Which events a listener asks for."""

from collections.abc import Iterable
from typing import NamedTuple

from windlass.client.ids import check_id
from windlass.domain.envelope import Event
from windlass.domain.event_names import check_types, is_asked_for
from windlass.domain.job import check_name
from windlass.domain.run import FeedEvent


class EventFilter(NamedTuple):
    """Types, a run and a job; None: any."""

    types: tuple[str, ...] | None = None
    run: str | None = None
    job: str | None = None

    @classmethod
    def of(
        cls,
        types: str | Iterable[str] | None,
        run: object,
        job: object,
    ) -> "EventFilter":
        """What a caller means by names, a run or its id, a job or its name.

        Raises BadOption and RunNotFound.
        """
        ident, name = getattr(run, "id", run), getattr(job, "name", job)
        return cls(
            check_types(types),
            None if ident is None else check_id(ident),
            None if name is None else check_name("job", name),
        )

    def may_want(self, fed: FeedEvent) -> bool:
        """Whether it is one of them, as far as the feed says."""
        return is_asked_for(fed.type, self.types) and self.run in (None, fed.subject)

    def wants(self, event: Event) -> bool:
        """Whether it is one of them."""
        return (
            is_asked_for(event.type, self.types)
            and self.run in (None, event.subject)
            and self.job in (None, event.job)
        )
