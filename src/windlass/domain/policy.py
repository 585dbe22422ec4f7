"""When a failed attempt is tried again.

A `Retry` says how long to wait after the n-th failure; `max_attempts` says how many failures a
run may have, and is no part of it. The published delay is an upper bound: jitter spreads the
retries of many runs over the time before it, so that they do not all come back at once.

The formula part is stored in the job's row (`to_json`), for workers that are not this process.
Rules about exception classes, and functions, live in the handler's process alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self, TypeAlias, TypedDict, Unpack

from windlass.duration import Duration, parse_duration
from windlass.errors import BadDuration, BadOption

Rule: TypeAlias = Callable[[int, BaseException], Duration | None]
"""Takes the number of failures so far, from 1, and the error; None means: no retry."""

After: TypeAlias = Duration | Callable[[Any], Duration]
"""A delay, or what reads it from the error, e.g. from a Retry-After header.

`Any`: the function gets errors of its own class only, and no type of a mapping can say so.
"""

ErrorTypes: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]

DEFAULT_BASE = 1.0
DEFAULT_CAP = 3600.0
DEFAULT_FACTOR = 2.0
DEFAULT_JITTER = 0.5


class RetryAfter(Exception):
    """Raise this in a handler to choose the delay of its retry; it counts as a failure.

    >>> RetryAfter("90s", "the mail server asked for patience").delay
    90.0
    """

    def __init__(self, delay: Duration, message: str = "") -> None:
        super().__init__(delay, message)
        self.delay = parse_duration(delay)
        self.message = message

    def __str__(self) -> str:
        return self.message or f"retry after {self.delay:g} s"


class Fatal(Exception):
    """Raise this in a handler to fail the run for good, whatever its `retry` says."""


class RetryKind(StrEnum):
    """The formula of a policy."""

    NEVER = "never"
    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    CUSTOM = "custom"


class Rules(TypedDict, total=False):
    """The options that all kinds of policy share.

    `jitter` is the share of the delay that chance may take off, from 0 to 1. Errors of the `fatal`
    classes are never retried; where `only` is given, no others are. `after` gives certain errors
    a delay of their own, taken as it is, since it often repeats what a server asked for.
    """

    jitter: float
    fatal: ErrorTypes
    only: ErrorTypes
    after: Mapping[type[BaseException], After]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How long to wait before a failed run is tried again.

    >>> policy = Retry.exponential(base="1s", cap="1h", fatal=PermissionError)
    >>> [policy.delay_for(n, OSError(), 0.0) for n in (1, 2, 3, 100)]
    [1.0, 2.0, 4.0, 3600.0]
    >>> policy.delay_for(1, PermissionError(), 0.0) is None
    True
    """

    kind: RetryKind = RetryKind.EXPONENTIAL
    base: float = DEFAULT_BASE
    cap: float = DEFAULT_CAP
    factor: float = DEFAULT_FACTOR
    jitter: float = DEFAULT_JITTER
    fatal: ErrorTypes = ()
    only: ErrorTypes = ()
    after: Mapping[type[BaseException], After] = field(default_factory=dict, hash=False)
    rule: Rule | None = None

    def __post_init__(self) -> None:
        """Refuse at definition what would otherwise fail at the first error."""
        put = object.__setattr__  # the dataclass is frozen
        put(self, "base", parse_duration(self.base))
        put(self, "cap", parse_duration(self.cap))
        put(self, "fatal", _error_types("fatal", self.fatal))
        put(self, "only", _error_types("only", self.only))
        put(self, "after", MappingProxyType(_checked_after(self.after)))
        if self.cap < self.base:
            raise BadOption("cap", f"{self.cap:g} s is less than the first delay {self.base:g} s")
        if not _is_number(self.factor) or not 1 <= self.factor <= 1000:
            raise BadOption("factor", f"{self.factor!r} is not a number from 1 to 1000")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise BadOption("jitter", f"{self.jitter!r} is not a number from 0 to 1")
        if self.rule is not None and not callable(self.rule):
            raise BadOption("rule", f"{self.rule!r} is not a function")
        # Floats overflow at once, where a power of whole numbers would fill the memory.
        put(self, "factor", float(self.factor))
        put(self, "jitter", float(self.jitter))

    @classmethod
    def never(cls) -> Self:
        """Never try again."""
        return cls(kind=RetryKind.NEVER)

    @classmethod
    def fixed(cls, delay: Duration, **rules: Unpack[Rules]) -> Self:
        """Wait for the same time after each failure."""
        seconds = parse_duration(delay)
        return cls(kind=RetryKind.FIXED, base=seconds, cap=seconds, **rules)

    @classmethod
    def linear(cls, step: Duration, *, cap: Duration = DEFAULT_CAP, **rules: Unpack[Rules]) -> Self:
        """Wait one step longer after each failure, up to the cap."""
        return cls(
            kind=RetryKind.LINEAR, base=parse_duration(step), cap=parse_duration(cap), **rules
        )

    @classmethod
    def exponential(
        cls,
        base: Duration = DEFAULT_BASE,
        cap: Duration = DEFAULT_CAP,
        factor: float = DEFAULT_FACTOR,
        **rules: Unpack[Rules],
    ) -> Self:
        """Wait `factor` times as long after each failure, up to the cap."""
        return cls(
            kind=RetryKind.EXPONENTIAL,
            base=parse_duration(base),
            cap=parse_duration(cap),
            factor=factor,
            **rules,
        )

    @classmethod
    def custom(cls, rule: Rule, **rules: Unpack[Rules]) -> Self:
        """Ask a function. If it raises or returns nonsense, the default formula applies."""
        return cls(kind=RetryKind.CUSTOM, rule=rule, **rules)

    def with_fatal(self, types: ErrorTypes) -> Self:
        """The same, with more errors that are never retried."""
        return replace(
            self, fatal=(*_error_types("fatal", self.fatal), *_error_types("fatal", types))
        )

    def is_fatal(self, error: BaseException) -> bool:
        """Whether the error's class alone forbids a retry."""
        if isinstance(error, (Fatal, self.fatal)):
            return True
        return bool(self.only) and not isinstance(error, (self.only, RetryAfter))

    def delay_for(self, failures: int, error: BaseException, random: float) -> float | None:
        """Return the seconds to wait after the n-th failure (n from 1), or None for no retry.

        `random` is of [0, 1) and is all the chance there is. What the error and the rules answer
        is read with care: nonsense leaves the formula. Whether the error is of a class may still
        raise, where a metaclass decides it.
        """
        if self.kind is RetryKind.NEVER or self.is_fatal(error):
            return None
        asked = self._asked(error)
        if asked is not None:
            return asked
        delay = self._published(failures, error)
        return None if delay is None else delay * (1 - self.jitter * random)

    def to_json(self) -> dict[str, Any]:
        """Return the formula for the job's row."""
        return {
            "kind": self.kind.value,
            "base": self.base,
            "cap": self.cap,
            "factor": self.factor,
            "jitter": self.jitter,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote, or somebody by hand; may raise BadOption.

        Absent members have their defaults; the cap is then no less than the base.
        """
        numbers = {name: value for name, value in stored.items() if name != "kind"}
        unknown = numbers.keys() - {"base", "cap", "factor", "jitter"}
        if unknown:
            raise BadOption("retry", f"unknown members {sorted(unknown)}", "stored policy")
        wrong = sorted(name for name, value in numbers.items() if not _is_number(value))
        if wrong:
            raise BadOption("retry", f"{', '.join(wrong)}: not a number", "stored policy")
        numbers.setdefault("cap", max(DEFAULT_CAP, numbers.get("base", DEFAULT_BASE)))
        try:
            return cls(kind=RetryKind(stored.get("kind", "exponential")), **numbers)
        except (BadDuration, ValueError) as error:
            raise BadOption("retry", str(error), "stored policy") from error

    def _published(self, failures: int, error: BaseException) -> float | None:
        if self.rule is None:
            return self._formula(failures)
        try:
            answer = self.rule(failures, error)
            return None if answer is None else parse_duration(answer)
        except BaseException:  # noqa: BLE001
            # A broken rule must not turn a failure that could be retried into a lost run.
            return self._formula(failures)

    def _asked(self, error: BaseException) -> float | None:
        """The delay that the error, or a rule for its class, asks for."""
        try:
            if isinstance(error, RetryAfter):
                # A subclass may have put there what a header said, or nothing at all.
                return parse_duration(error.delay)
            # Along the class's own order of bases, so that the most specific rule wins.
            mro = type(error).__mro__
            rule = next((self.after[cls] for cls in mro if cls in self.after), None)
            if rule is None:
                return None
            return parse_duration(rule(error) if callable(rule) else rule)
        except BaseException:  # noqa: BLE001
            # As above: the formula answers in its place.
            return None

    def _formula(self, failures: int) -> float:
        step = max(failures, 1) - 1
        try:
            match self.kind:
                case RetryKind.FIXED | RetryKind.NEVER:
                    return self.base
                case RetryKind.LINEAR:
                    return min(self.base * (step + 1), self.cap)
                case RetryKind.EXPONENTIAL | RetryKind.CUSTOM:
                    return min(self.base * self.factor**step, self.cap)
        except OverflowError:
            return self.cap if self.base else 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _error_types(option: str, given: object) -> tuple[type[BaseException], ...]:
    types = given if isinstance(given, tuple) else (given,)
    for item in types:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            raise BadOption(option, f"{item!r} is not a class of exceptions")
    return types


def _checked_after(
    given: Mapping[type[BaseException], After],
) -> dict[type[BaseException], After]:
    _error_types("after", tuple(given))
    return {cls: rule if callable(rule) else parse_duration(rule) for cls, rule in given.items()}
