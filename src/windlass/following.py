"""What an application tells of what happens: `app.events(...)` and its async twin."""

from collections.abc import Iterable
from typing import Any

from windlass.client.event_filter import EventFilter
from windlass.client.event_stream import AsyncEvents, Events, Since
from windlass.client.run import Run
from windlass.client.scope import Scope
from windlass.client.tail import BUFFER


class Following:
    """The part of an application that follows the feed."""

    scope: Scope

    def events(
        self,
        *,
        since: Since = "now",
        types: str | Iterable[str] | None = None,
        run: Run[Any] | str | None = None,
        job: Any = None,
        follow: bool = True,
        buffer: int = BUFFER,
    ) -> Events:
        """What happens, in order and without gaps: `for event in app.events(): …` waits for it.

        `since` is "now", "start", a time, or the `id` of an event, to go on after it. `types` are
        names such as "run.failed", or "run.*"; `run` and `job` are those that it is about. Without
        `follow` it ends with what there is. If more than `buffer` events wait to be taken,
        ListenerTooSlow is raised, which says where to go on. In async code use `aevents`.
        """
        wanted = EventFilter.of(types, run, job)
        return Events(self.scope, wanted, since, follow=follow, buffer=buffer)

    def aevents(
        self,
        *,
        since: Since = "now",
        types: str | Iterable[str] | None = None,
        run: Run[Any] | str | None = None,
        job: Any = None,
        follow: bool = True,
        buffer: int = BUFFER,
    ) -> AsyncEvents:
        """As `events`, for async code: `async for event in app.aevents(): …`."""
        wanted = EventFilter.of(types, run, job)
        return AsyncEvents(self.scope, wanted, since, follow=follow, buffer=buffer)
