"""Listeners: functions that are called when something has happened.

    @app.on("run.failed", job=send_welcome)
    async def tell_us(event: Event) -> None:
        await chat.post(f"{event.job}: {event.error.message}")

Each process that runs a worker of the application calls them, with the events of the whole store.
What must be done once, and must not be lost, is for a job: see `on_failure` and `using(after=…)`.
`engine/audience.py` calls them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from windlass.client.event_filter import EventFilter
from windlass.domain.event_names import check_types
from windlass.errors import BadOption

F = TypeVar("F", bound=Callable[[Any], Any])


class Listener(NamedTuple):
    """A function, and the events that it is called with."""

    function: Callable[[Any], Any]
    types: tuple[str, ...] | None
    job: object

    @property
    def wanted(self) -> EventFilter:
        """What it asks for. A job has its name once its router is included."""
        return EventFilter.of(self.types, None, self.job)


class Listeners:
    """The definitions: `@app.on("run.failed")`. Calling one calls the function."""

    def __init__(self) -> None:
        self.all: list[Listener] = []
        self._passed_on_to: list[Listener] | None = None  # an application's, from a router

    def __call__(self, *types: str, job: Any = None) -> Callable[[F], F]:
        """Call a function, plain or async, with each event of these types, or with all events.

        `job` is a job or its name: only events about its runs. The function is called in every
        process that runs a worker, after the event was committed, in order. What it raises is
        logged, and what takes long holds up nobody but itself.
        """
        for name in types:
            if callable(name):
                raise BadOption("on", "call it first: @app.on() is for all events")
        asked = check_types(types) or None

        def listen(function: F) -> F:
            listener = Listener(function, asked, job)
            self.all.append(listener)
            if self._passed_on_to is not None:
                self._passed_on_to.append(listener)
            return function

        return listen

    def add_all(self, others: "Listeners") -> None:
        """Take all of them, and whatever is defined there later."""
        self.all += others.all
        others._passed_on_to = self.all

    def remove_all(self, others: "Listeners") -> None:
        """Give all of them back."""
        others._passed_on_to = None
        for listener in others.all:
            self.all.remove(listener)
