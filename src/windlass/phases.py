"""Phases without Windlass: functions that run in order, with their progress, in your own process.

`app.pipeline` makes a durable job of the same functions. The runner here needs no store and no
worker; what is done, and where that is kept, is up to you:

    runner = PhaseRunner(download, process, upload)
    runner.run({"url": url}, done=load(), completed=save)

`done` has the results of phases that are not to run again, by name, and `completed` is called with
the name and the result of each that has just ended. `changed` is called with the state of all
phases and the overall progress whenever something changes. What a phase raises is raised.

A function that takes `ctx` first gets a `PhaseContext`: `ctx.progress(0.4, "…")`, and
`ctx.phases["download"].result`.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from windlass.domain.outcome import describe_error
from windlass.domain.phase import PhaseState, PhaseStatus, overall
from windlass.domain.pipeline import Phase, PhaseResult, PhaseResults, Plan, Turn, phase
from windlass.domain.progress import check_fraction
from windlass.errors import BadOption
from windlass.offloop import off_loop
from windlass.sources import Sources

__all__ = [
    "Phase",
    "PhaseContext",
    "PhaseResult",
    "PhaseResults",
    "PhaseRunner",
    "PhaseState",
    "PhaseStatus",
    "overall",
    "phase",
]

Changed = Callable[[Sequence[PhaseState], float], None]
Completed = Callable[[str, Any], None]


class PhaseContext:
    """What a phase sees of the runner."""

    def __init__(self, phases: PhaseResults, told: Callable[[float, str | None], None]) -> None:
        self.phases = phases
        self._told = told

    def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Tell how far this phase is, from 0 to 1, and what it is doing."""
        self._told(check_fraction(fraction) or 0.0, message)


class PhaseRunner:
    """Runs functions in order. It keeps nothing between two calls of `run`."""

    def __init__(self, *phases: Phase | Callable[..., Any], sources: Sources | None = None) -> None:
        """Raises BadOption for what cannot run in order; retries and timeouts are for jobs."""
        self._plan = Plan("phases", *phases)
        self._sources = sources or Sources.system()
        for each in self._plan.phases:
            if each.retry or each.max_attempts or each.timeout or each.fatal:
                why = f"phase {each.name!r} has options that only app.pipeline has"
                raise BadOption("phase", f"{why}: retry and stop it yourself")

    @property
    def names(self) -> Sequence[str]:
        """The names of the phases, in order."""
        return self._plan.names

    def run(
        self,
        input: Mapping[str, Any],
        *,
        done: Mapping[str, Any] | None = None,
        completed: Completed | None = None,
        changed: Changed | None = None,
    ) -> Any:
        """Run the phases that are not done; returns what the last one returned."""
        if self._plan.is_async:
            raise BadOption("phases", "one of them is async: await runner.arun(…)")
        walk = _Walk(self._plan, input, done or {}, completed, changed, self._sources.now)
        while (turn := walk.next()) is not None:
            walk.end(turn)
        return walk.value

    async def arun(
        self,
        input: Mapping[str, Any],
        *,
        done: Mapping[str, Any] | None = None,
        completed: Completed | None = None,
        changed: Changed | None = None,
    ) -> Any:
        """As `run`, in async code; functions that are not async run in threads."""
        walk = _Walk(self._plan, input, done or {}, completed, changed, self._sources.now)
        while (turn := walk.next()) is not None:
            await walk.aend(turn)
        return walk.value


class _Walk:
    """One way through the phases."""

    def __init__(
        self,
        plan: Plan,
        input: Mapping[str, Any],
        done: Mapping[str, Any],
        completed: Completed | None,
        changed: Changed | None,
        now: Callable[[], datetime],
    ) -> None:
        missing = [n for n, p in plan.signature.parameters.items() if _lacks(n, p, input)]
        if missing:
            raise BadOption("input", f"it lacks {missing[0]!r}")
        self._plan, self._done = plan, done
        self._completed, self._changed, self._now = completed, changed, now
        self._results = PhaseResults()
        self._walk = plan.walk(input, self._results)
        self._sent: Any = None
        self._place = 0
        self.value: Any = None
        self.states = [PhaseState(name=name, status=PhaseStatus.PENDING) for name in plan.names]

    def next(self) -> Turn | None:
        """Whose turn it is, of those that are not done; None: all are."""
        try:
            turn = self._walk.send(self._sent)
            while turn.phase.name in self._done:
                self._become(turn, PhaseStatus.SUCCEEDED, 1.0)
                turn = self._walk.send(self._done[turn.phase.name])
        except StopIteration as end:
            self.value = end.value
            return None
        self._begin(turn)
        return turn

    def call(self, turn: Turn) -> Any:
        """Call the function of a phase."""
        first = (PhaseContext(self._results, self._told),) if turn.takes_context else ()
        return turn.phase.function(*first, **turn.arguments)

    def end(self, turn: Turn) -> None:
        """Take what the phase returned, or raised."""
        try:
            value = self.call(turn)
        except BaseException as error:
            self._failed(turn, error)
            raise
        self._ended(turn, value)

    async def aend(self, turn: Turn) -> None:
        """As `end`, for a function of either kind."""
        try:
            if turn.phase.is_async:
                value = await self.call(turn)
            else:
                value = await off_loop(partial(self.call, turn), "windlass-phase")
                value = await value if inspect.isawaitable(value) else value
        except BaseException as error:
            self._failed(turn, error)
            raise
        self._ended(turn, value)

    def _begin(self, turn: Turn) -> None:
        self._place = turn.place
        self._become(turn, PhaseStatus.RUNNING, 0.0, started_at=self._now())

    def _told(self, own: float, message: str | None) -> None:
        state = self.states[self._place]
        self._put(self._place, status=state.status, progress=own, message=message)

    def _ended(self, turn: Turn, value: Any) -> None:
        self._sent = value
        if self._completed is not None:  # before anybody hears of it
            self._completed(turn.phase.name, value)
        self._become(turn, PhaseStatus.SUCCEEDED, 1.0, completed_at=self._now())

    def _failed(self, turn: Turn, error: BaseException) -> None:
        canceled = isinstance(error, asyncio.CancelledError)
        status = PhaseStatus.CANCELED if canceled else PhaseStatus.FAILED
        own = self.states[turn.place].progress
        self._become(turn, status, own, completed_at=self._now(), error=describe_error(error))

    def _become(self, turn: Turn, status: PhaseStatus, own: float, **others: Any) -> None:
        self._put(turn.place, status=status, progress=own, **others)

    def _put(self, place: int, **changes: Any) -> None:
        self.states[place] = msgspec.structs.replace(self.states[place], **changes)
        if self._changed is not None:
            own = self.states[place].progress
            self._changed(tuple(self.states), overall(place, own, len(self.states)))


def _lacks(name: str, parameter: inspect.Parameter, input: Mapping[str, Any]) -> bool:
    return name != "ctx" and parameter.default is parameter.empty and name not in input
