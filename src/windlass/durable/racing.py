"""Races among waits in handlers that run in threads.

A thread waits for one thing at a time. So what it may wait for is said first, as a `Pending`, and
done by `ctx.first`: each of them goes on until it has to wait, and the thread waits for all of them
together, or gives up its seat for as long.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from windlass.domain.approval import Approval
from windlass.durable.acts import Doing, StepFlow, Wait
from windlass.durable.blocking import BlockingWork
from windlass.durable.requests import Asked, Desk, Notify, Race, check_notify, read_payload
from windlass.duration import Duration
from windlass.errors import BadOption, StepFailed, WaitTimeout

T = TypeVar("T")


class First(NamedTuple):
    """What came first: its name among those given, and what it brought."""

    name: str
    value: Any


class _Raise:
    """A default that says: there is none."""


NO_DEFAULT: Any = _Raise()


class Pending(Generic[T]):
    """Something that a handler in a thread may wait for: give it to `ctx.first`."""

    __slots__ = ("_asked", "_default", "_read")

    def __init__(self, asked: Asked, read: Callable[[Any], T], default: Any = NO_DEFAULT) -> None:
        self._asked = asked
        self._read = read
        self._default = default

    def begin(self) -> StepFlow[Any]:
        """What it does."""
        return self._asked.flow()

    def outcome(self, ended: "_Ended") -> T:
        """What it brought, or raises."""
        if ended.error is None:
            return self._read(ended.value)
        if isinstance(ended.error, WaitTimeout) and self._default is not NO_DEFAULT:
            default: T = self._default
            return default
        raise ended.error


class BlockingRacing:
    """Races, for handlers in threads."""

    __slots__ = ()

    def _durable(self) -> tuple[BlockingWork, Desk]:
        raise AssertionError("a context has this")

    def waiting_for(
        self,
        signal: str,
        *,
        timeout: Duration | None = None,
        default: Any = NO_DEFAULT,
        type: Any = None,
        key: str | None = None,
    ) -> Pending[Any]:
        """A signal that `ctx.first` is to wait for; the arguments are those of `wait_for`."""
        asked = self._durable()[1].wait_for(signal, timeout, key)
        return Pending(asked, lambda data: read_payload(data, type), default)

    def sleeping(
        self,
        name_or_length: Duration | None = None,
        length: Duration | None = None,
        /,
        **parts: float,
    ) -> Pending[None]:
        """A time that `ctx.first` is to let pass; the arguments are those of `sleep`."""
        return Pending(self._durable()[1].asleep(name_or_length, length, parts), lambda over: None)

    def asking(
        self,
        question: str,
        *,
        expires: Duration | None = None,
        name: str = "approval",
        notify: Notify | None = None,
        key: str | None = None,
    ) -> Pending[Approval]:
        """An approval that `ctx.first` is to wait for; the arguments are those of `approval`."""
        check_notify(notify)
        asked = self._durable()[1].approval(question, expires, name, key, notify)
        return Pending(asked, lambda answer: answer)

    def first(self, **waits: Pending[Any]) -> First:
        """Wait for several without a seat, and go on with the first:
        `ctx.first(paid=ctx.waiting_for("paid"), late=ctx.sleeping(days=3))`.

        Who won is recorded; the others are given up. If the winner raises, that is raised.
        """
        for name, wait in waits.items():
            if not isinstance(wait, Pending):
                raise BadOption(
                    "first",
                    f"{name} is no wait: give it ctx.waiting_for(…), ctx.sleeping(…) or "
                    "ctx.asking(…)",
                )
        work, desk = self._durable()
        race = desk.race(waits)
        flows = {name: wait.begin for name, wait in waits.items()}
        winner, ended = work.run(race.path, lambda: _race(race, flows))
        return First(winner, waits[winner].outcome(ended))


class _Ended(NamedTuple):
    """How one of them ended."""

    value: Any = None
    error: WaitTimeout | StepFailed | None = None


def _race(
    race: Race, flows: Mapping[str, Callable[[], StepFlow[Any]]]
) -> StepFlow[tuple[str, _Ended]]:
    """Let all of them go on in turn, until one is over."""
    winner = yield from race.known()
    if winner is not None:
        return winner, (yield from _ended(flows[winner]()))
    runners = {name: _ended(make()) for name, make in flows.items()}
    waits: dict[str, Wait] = {}
    try:
        while True:
            for name, runner in runners.items():
                found = yield from _until_it_waits(runner, begun=name in waits)
                if isinstance(found, _Ended):
                    yield from race.won_by(name)
                    return name, found
                waits[name] = found
            yield _together(list(waits.values()))
    finally:
        for runner in runners.values():
            runner.close()


def _ended(flow: StepFlow[Any]) -> StepFlow[_Ended]:
    """How a flow ends: by what is recorded of it. Any other error is raised."""
    try:
        return _Ended(value=(yield from flow))
    except (WaitTimeout, StepFailed) as error:
        return _Ended(error=error)


def _until_it_waits(runner: StepFlow[_Ended], *, begun: bool) -> StepFlow[Wait | _Ended]:
    """Let one of them go on; returns what it waits for, or how it ended."""
    try:
        doing: Doing = runner.send(None) if begun else next(runner)
        while not isinstance(doing, Wait):
            try:
                answer = yield doing
            except BaseException as error:  # noqa: BLE001 - raised again, where it was yielded
                doing = runner.throw(error)
            else:
                doing = runner.send(answer)
    except StopIteration as stop:
        ended: _Ended = stop.value
        return ended
    return doing


def _together(waits: list[Wait]) -> Wait:
    """A wait for the first of several."""
    soonest = min(waits, key=lambda wait: float("inf") if wait.left is None else wait.left)
    others = tuple(wait for wait in waits if wait is not soonest)
    return Wait(soonest.path, soonest.left, soonest.until, soonest.signal, beside=others)
