"""What the flows of durable work ask of their drivers, besides store calls."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from windlass.domain.run import Finish, Held, ProgressWrite
from windlass.domain.step import StepWrite
from windlass.store.operations import Call

T = TypeVar("T")

UNITS = "units"
"""The path of what calls units of a batch: a step inside would not know its unit."""


@dataclass(frozen=True, slots=True)
class Body:
    """Call the function of a step."""

    path: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    timeout: float | None
    phase: bool = False  # it may stop within


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until it may be time to look again: for a signal, or until a time."""

    path: str
    left: float | None  # seconds; None: without a limit
    until: datetime | None
    signal: bool = False
    beside: tuple["Wait", ...] = ()  # what is waited for too, by a handler in a thread
    pause: bool = False  # it was asked to pause, and goes on if that is taken back


@dataclass(frozen=True, slots=True)
class Join:
    """Look for a step, or record it, in the caller's own transaction."""

    connection: object
    held: Held
    path: str
    write: StepWrite | None = None


@dataclass(frozen=True, slots=True)
class JoinEnd:
    """Record the end of the attempt in the caller's own transaction, and what was told last."""

    connection: object
    finish: Finish
    told: ProgressWrite | None


Doing = Call[Any] | Body | Wait | Join | JoinEnd
StepFlow = Generator[Doing, Any, T]


@dataclass(frozen=True, slots=True)
class Suspension:
    """An attempt that gives up its seat: what it waits for, and until when at the latest."""

    waits: tuple[Wait, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The steps in which it waits."""
        return tuple(sorted({wait.path for wait in self.waits}))

    @property
    def until(self) -> datetime | None:
        """When it goes on, whatever comes."""
        return min((wait.until for wait in self.waits if wait.until is not None), default=None)

    @property
    def pauses(self) -> bool:
        """Whether it has stopped because it was asked to pause."""
        return any(wait.pause for wait in self.waits)

    @property
    def signal(self) -> bool:
        """Whether something else than time may let it go on."""
        return any(wait.signal for wait in self.waits)


class Stage(Protocol):
    """What a test puts around the steps of a handler; see `windlass.testing.steps`."""

    def stand_in(self, path: str) -> Callable[..., Any] | None:
        """What is called in the place of a step's function, if anything is."""

    def recorded(self, path: str) -> None:
        """A step was recorded; what this raises ends the attempt."""


class Suspended(BaseException):
    """Unwinds a handler in a thread that waits for long; not an error, and not to be caught."""
