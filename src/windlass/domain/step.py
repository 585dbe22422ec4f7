"""Durable steps: what a run remembers of the work inside it, and the rules for it.

A step is found by its *path* within its run: its name, numbered from the second of the same name
on (``mail``, ``mail#2``), after the path of the step around it (``order/charge``). The number is
taken when the step is called, before anything is awaited, so that tasks that overtake each other
cannot swap their steps.

States. A step has no row until it has something to remember:

- ``retrying``: it has failed and is tried again, not before ``until``;
- ``waiting``: it sleeps until ``until``, or waits for a signal, at most until then;
- ``done``, ``failed``, ``timed_out``: how it ended. That is never changed again; its body never
  runs again, whatever happens to the worker, the attempt or the program. Only an operator who
  reopens the run (retry, reschedule) lets it try anew what has failed; what is done stays done.

Every write is made under the token of the run's lease, and a step that ends takes the run's next
``seq``: it is an event of the run, and its row is the record of that event.

What happens when it dies here:

- before a body has returned: nothing is remembered, the body runs again (at least once);
- after it has returned, before the record is committed: the same. Where that must not be, the
  effect and the record belong into one transaction (``ctx.using(connection=…)``);
- after the commit: the next attempt reads the record, and the body does not run;
- in a sleep or a wait: the row says until when, by the store's clock. The next attempt waits for
  the rest.

Generations. A handler that returns `ContinueAs` goes on as the same run with another input and no
steps. The old input, with the steps that were made with it, is kept under the next number; 0 is
always what the run has now. That is one transaction, under the token: before it, the old input is
replayed, after it, the new one is begun. Failures and crashes are counted anew, signals that
answered nothing stay, and a cancel that came before ends the run instead.

Replay. The handler is called again from its beginning, and every step that is recorded returns
what it returned then, or fails as it failed then. So the handler has to ask for the same steps. If
a step of a name is now of another kind, or is called with another input, what is recorded belongs
to something else: the run ends failed/nondeterminism (`check_replay`). Steps that are recorded and
never asked for are told in the log, not fatal: code was removed, or a branch was not taken.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import msgspec

from windlass import codec
from windlass.domain.event import EventType
from windlass.domain.open_enum import OpenEnum
from windlass.domain.report import ErrorInfo
from windlass.errors import BadOption, BadPayload, Nondeterminism, PayloadTooLarge

MOST_STEPS = 1024
"""How many steps a run may have, unless the settings or its job say otherwise."""
MOST_MAX_STEPS = 100_000
"""The largest number that they may say: all steps of a run are read when it goes on."""

LONGEST_NAME = 200
LONGEST_PATH = 1000
_MOST_BYTES = 1600  # of a path, which is part of keys
_INPUT = 200  # characters of an input that are kept, to compare and to show
_NOT_IN_NAMES = re.compile(r"[/#\x00-\x1f\x7f]|[\ud800-\udfff]")


class StepKind(OpenEnum):
    """What a step does."""

    STEP = "step"  # calls a function
    VALUE = "value"  # a time, an id or a number that must be the same again
    SLEEP = "sleep"
    SIGNAL = "signal"  # waits for one
    APPROVAL = "approval"  # asks people, see domain/approval.py
    RACE = "race"  # which of several came first
    CHILD = "child"  # has started a run, and waits for it
    CHILDREN = "children"  # the same of many
    VERSION = "version"  # which version of the code a run has begun with
    PHASE = "phase"  # calls a function that is a part of a pipeline: see `phase.py`


class StepState(OpenEnum):
    """How a step stands."""

    RETRYING = "retrying"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"

    @property
    def ended(self) -> bool:
        """Whether it is over, for good."""
        return self in ENDED


ENDED = frozenset({StepState.DONE, StepState.FAILED, StepState.TIMED_OUT})

STEP_EVENTS: MappingProxyType[StepState, EventType] = MappingProxyType(
    {
        StepState.RETRYING: EventType.STEP_RETRYING,
        StepState.DONE: EventType.STEP_SUCCEEDED,
        StepState.FAILED: EventType.STEP_FAILED,
        StepState.TIMED_OUT: EventType.STEP_TIMED_OUT,
    }
)


def event_of(kind: StepKind, state: StepState) -> EventType:
    """The event of a step that has come to this. A phase has one event, as every step does."""
    if kind is StepKind.PHASE and state is StepState.DONE:
        return EventType.PHASE_COMPLETED
    return STEP_EVENTS[state]


class StepWrite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be remembered of a step. A step that has ended stays as it is."""

    path: str
    kind: StepKind
    state: StepState
    input: str | None = None  # as `told_input` tells it
    signal: str | None = None  # the name of the signal that it waits for
    value: msgspec.Raw | None = None
    error: ErrorInfo | None = None
    failures: int = 0
    wait: float | None = None  # seconds from now, by the store's clock, until it goes on
    took: float = 0.0  # seconds since it began


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step as it is remembered."""

    path: str
    kind: StepKind
    state: StepState
    started_at: datetime
    at: datetime  # when it was last written
    attempt: int  # the attempt of the run that wrote it
    seq: int | None = None  # that of the event which ended it
    input: str | None = None
    signal: str | None = None
    value: msgspec.Raw | None = None
    error: ErrorInfo | None = None
    failures: int = 0
    until: datetime | None = None
    left: float | None = None  # seconds until then, by the store's clock, when it was read
    # 0: the run's own; positive: of inputs that it went on from; negative: it had failed when
    # somebody reopened the run after the attempt of that number, and is tried anew
    generation: int = 0


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """An input that a run went on from: its handler returned `ContinueAs` with another."""

    number: int  # from 1; the steps of that time have it as their generation
    input: msgspec.Raw
    attempt: int  # the last one that had this input
    seq: int  # of the event run.continued
    at: datetime  # when it was over


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that was sent to a run."""

    number: int  # its place among the events of the run
    name: str
    at: datetime
    payload: msgspec.Raw
    key: str | None = None
    taken_by: str | None = None  # the path of the step that it answered
    created: bool = True  # false: the key was known, and this is the first one


class Numbering:
    """Gives each call of a step its path.

    >>> paths = Numbering()
    >>> [paths.next("mail"), paths.next("mail"), paths.next("mail", within="order")]
    ['mail', 'mail#2', 'order/mail']
    """

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()

    def next(self, name: str, *, within: str | None = None, key: str | None = None) -> str:
        """The path of the next call of a name; one with a key is known by that, not by its turn."""
        path = name if within is None else f"{within}/{name}"
        if key is not None:
            return _check_path(f"{path}#{check_step_name(key, 'key')}")
        self._calls[path] += 1
        turn = self._calls[path]
        return _check_path(path if turn == 1 else f"{path}#{turn}")

    def restart(self, path: str) -> None:
        """Count anew inside a step whose body is called again: it asks for the same steps.

        >>> paths = Numbering()
        >>> paths.next("mail", within="order"), paths.restart("order")
        ('order/mail', None)
        >>> paths.next("mail", within="order")
        'order/mail'
        """
        for inner in [each for each in self._calls if each.startswith(f"{path}/")]:
            del self._calls[inner]


def _check_path(path: str) -> str:
    """Refuse what a store could not keep, before the step is done. Raises BadOption."""
    if len(path) <= LONGEST_PATH and (
        len(path) <= _MOST_BYTES // 4 or len(path.encode()) <= _MOST_BYTES
    ):
        return path
    raise BadOption(
        "name",
        f"the path {path[:40]!r}… has more than {LONGEST_PATH:,} characters or {_MOST_BYTES:,} "
        "bytes: nest steps less deep, or give them shorter names",
    )


def check_step_name(name: object, option: str = "name") -> str:
    """Return a name that a step or a signal may have. Raises BadOption."""
    if not isinstance(name, str):
        raise BadOption(option, f"it must be text, not {type(name).__name__}")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadOption(option, f"it must have 1 to {LONGEST_NAME} characters")
    if _NOT_IN_NAMES.search(name):
        raise BadOption(option, f"{name!r} has a character that no name may have (/, # or unseen)")
    return name


def check_generation(number: object) -> int:
    """Return a number that a generation may have. Raises BadOption."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
        raise BadOption("generation", f"{number!r} is not a number: 0 is what the run has now")
    return number


def told_input(args: Sequence[object], kwargs: Mapping[str, object]) -> str | None:
    """What a step was called with, to compare with the next time and to show; None: no telling.

    Short ones are kept as they are, of others the beginning and a hash. What is no data, such as a
    connection, cannot be compared.
    """
    given: object = {"args": args, "kwargs": kwargs} if kwargs else list(args)
    try:
        data = codec.encode(given, what="input of the step", limit=64 * codec.MAX_BYTES)
    except (BadPayload, PayloadTooLarge):
        return None
    text = data.decode()
    if len(text) <= _INPUT:
        return text
    return f"{text[: _INPUT - 20]}… {hashlib.sha256(data).hexdigest()[:16]}"


def check_replay(run: str, recorded: Step, kind: StepKind, given: str | None) -> None:
    """Raise Nondeterminism if what is recorded is not what the code now asks for."""
    if recorded.kind is not kind:
        raise Nondeterminism(run, recorded.path, f"a {recorded.kind}", f"a {kind}")
    known = recorded.input is not None and given is not None
    if known and recorded.input != given:
        raise Nondeterminism(run, recorded.path, f"called with {recorded.input}", f"with {given}")
