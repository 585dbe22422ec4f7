"""What a step, a sleep and a wait do, for both kinds of handlers: generators, see `acts.py`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from windlass import codec
from windlass.domain.approval import Approval, Question, read_answer, signal_of
from windlass.domain.outcome import describe_error
from windlass.domain.policy import Retry
from windlass.domain.report import ErrorInfo
from windlass.domain.states import Failure
from windlass.domain.step import Step, StepKind, StepState, StepWrite, check_replay
from windlass.durable.acts import Body, StepFlow, Wait
from windlass.durable.ledger import Ledger
from windlass.durable.values import reader_of
from windlass.errors import BadPayload, PayloadTooLarge, StepFailed, WaitTimeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How often a step is tried, and for how long each time."""

    retry: Retry
    max_attempts: int
    timeout: float | None
    value_limit: int
    jitter: Callable[[], float]
    monotonic: Callable[[], float]
    kind: StepKind = StepKind.STEP


class Name(NamedTuple):
    """What a step is called, before it has a number."""

    text: str
    within: str | None
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A question to people."""

    question: str
    expires: float | None
    nonce: Callable[[], str]
    notify: Callable[[], Any] | None  # tells them, and returns the hash of the token they got


def step(
    ledger: Ledger,
    path: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    given: str | None,
    policy: Policy,
) -> StepFlow[Any]:
    """Call a function once, or return what it returned before."""
    read = reader_of(function)
    if ledger.stage is not None:
        function = ledger.stage.stand_in(path) or function
    known = ledger.find(path, policy.kind, given)
    failures = 0
    while True:
        if known is not None:
            if known.state.ended:
                return _outcome(known, read)
            failures = known.failures
            yield from _pause(ledger, known)
            ledger.numbers.restart(path)
        began = policy.monotonic()
        try:
            phase = policy.kind is StepKind.PHASE
            value = yield Body(path, function, args, kwargs, policy.timeout, phase)
            data = codec.encode(value, what=f"result of step {path!r}", limit=policy.value_limit)
        except Exception as error:  # noqa: BLE001 - a step is foreign code, as a handler is
            known = yield from _failed(ledger, path, given, error, failures, began, policy)
        else:
            known = yield from ledger.record(
                StepWrite(
                    path=path,
                    kind=policy.kind,
                    state=StepState.DONE,
                    input=given,
                    value=msgspec.Raw(data),
                    failures=failures,
                    took=policy.monotonic() - began,
                )
            )


def joined_step(
    ledger: Ledger,
    connection: object,
    name: Name,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    given: str | None,
    policy: Policy,
) -> StepFlow[Any]:
    """Call a function in the caller's transaction, and record that in the same transaction.

    It is not tried again here: its failure is one of the transaction, which the caller ends.
    """
    read = reader_of(function)
    if ledger.stage is not None:
        function = ledger.stage.stand_in(name.text) or function
    path, known = yield from _joined_path(ledger, connection, name)
    if known is not None:
        check_replay(ledger.run, known, StepKind.STEP, given)
        return _outcome(known, read)
    began = policy.monotonic()
    value = yield Body(path, function, args, kwargs, policy.timeout)
    data = codec.encode(value, what=f"result of step {path!r}", limit=policy.value_limit)
    write = StepWrite(
        path=path,
        kind=StepKind.STEP,
        state=StepState.DONE,
        input=given,
        value=msgspec.Raw(data),
        took=policy.monotonic() - began,
    )
    recorded = yield from ledger.join(connection, path, write)
    assert recorded is not None, "what was recorded is there"
    return _outcome(recorded, read)


def _joined_path(
    ledger: Ledger, connection: object, name: Name
) -> StepFlow[tuple[str, Step | None]]:
    """The path of a joined step, and what is recorded of it.

    A call of the same name whose transaction was rolled back left nothing: this one takes its
    place. So a transaction that is repeated has one step, now and in a replay.
    """
    last = ledger.joined.get(name)
    if last is not None and (yield from ledger.join(connection, last, None)) is None:
        return last, None
    path = ledger.numbers.next(name.text, within=name.within, key=name.key)
    ledger.joined[name] = path
    return path, (yield from ledger.join(connection, path, None))


def _failed(
    ledger: Ledger,
    path: str,
    given: str | None,
    error: Exception,
    failures: int,
    began: float,
    policy: Policy,
) -> StepFlow[Step]:
    """Remember that a try has failed, and whether there is another."""
    failures += 1
    delay = None
    # A value that cannot be stored could not the next time.
    if not isinstance(error, (BadPayload, PayloadTooLarge)) and failures < policy.max_attempts:
        delay = policy.retry.delay_for(failures, error, policy.jitter())
    step: Step = yield from ledger.record(
        StepWrite(
            path=path,
            kind=policy.kind,
            state=StepState.FAILED if delay is None else StepState.RETRYING,
            input=given,
            value=None if delay is not None else _why(error, policy),
            error=describe_error(error),
            failures=failures,
            wait=delay,
            took=policy.monotonic() - began,
        )
    )
    return step


def _why(error: Exception, policy: Policy) -> msgspec.Raw:
    """By what a step has failed, which its run fails by too."""
    if isinstance(error, TimeoutError):
        why = Failure.TIMEOUT
    elif policy.retry.is_fatal(error) or isinstance(error, (BadPayload, PayloadTooLarge)):
        why = Failure.FATAL
    else:
        why = Failure.EXHAUSTED
    return msgspec.Raw(msgspec.json.encode(why))


def _outcome(known: Step, read: Callable[[msgspec.Raw], Any]) -> Any:
    if known.state is StepState.DONE:
        return read(known.value if known.value is not None else msgspec.Raw(b"null"))
    why = "exhausted" if known.value is None else str(codec.decode(known.value))
    raise StepFailed(known.path, known.error or ErrorInfo(), known.failures, why)


def _pause(ledger: Ledger, known: Step) -> StepFlow[None]:
    """Wait until the time of a step has come."""
    while (left := ledger.left(known)) > 0:
        yield Wait(known.path, left, known.until)
    ledger.check(known.path)


def sleep(ledger: Ledger, path: str, seconds: float) -> StepFlow[None]:
    """Let time pass, from when it was first asked for."""
    known = ledger.find(path, StepKind.SLEEP)
    if known is None:
        known = yield from ledger.record(
            StepWrite(path=path, kind=StepKind.SLEEP, state=StepState.WAITING, wait=seconds)
        )
    yield from _pause(ledger, known)


def wait_for(ledger: Ledger, path: str, name: str, timeout: float | None) -> StepFlow[msgspec.Raw]:
    """Wait for a signal; returns its payload. Raises WaitTimeout."""
    known = ledger.find(path, StepKind.SIGNAL)
    ask = StepWrite(
        path=path, kind=StepKind.SIGNAL, state=StepState.WAITING, signal=name, wait=timeout
    )
    known = yield from _until_answered(ledger, known, ask)
    if known.state is StepState.TIMED_OUT:
        raise WaitTimeout(path)
    return known.value if known.value is not None else msgspec.Raw(b"null")


def approval(ledger: Ledger, path: str, asked: Asking, policy: Policy) -> StepFlow[Approval]:
    """Ask people, and wait for their answer."""
    hashed = None
    if asked.notify is not None:
        hashed = yield from step(ledger, f"{path}/notify", asked.notify, (), {}, None, policy)
    known = ledger.find(path, StepKind.APPROVAL)
    question = Question(question=asked.question, token=hashed)
    ask = StepWrite(
        path=path,
        kind=StepKind.APPROVAL,
        state=StepState.WAITING,
        # What was asked first stays: people may have read it, and answer that.
        input=msgspec.json.encode(question).decode() if known is None else known.input,
        signal=signal_of(path, asked.nonce()) if known is None else known.signal,
        wait=asked.expires,
    )
    known = yield from _until_answered(ledger, known, ask)
    if known.state is StepState.TIMED_OUT:
        return Approval(approved=False, expired=True, at=known.at)
    return read_answer(known.value if known.value is not None else msgspec.Raw(b"null"))


def _until_answered(ledger: Ledger, known: Step | None, ask: StepWrite) -> StepFlow[Step]:
    """Wait for the signal of a step, or the end of its time."""
    while known is None or not known.state.ended:
        known = yield from ledger.record(ask)
        if not known.state.ended:
            left = None if known.until is None else max(0.0, ledger.left(known))
            yield Wait(ask.path, left, known.until, signal=True)
            ledger.check(ask.path)
    return known


def value(ledger: Ledger, path: str, make: Callable[[], object]) -> StepFlow[Any]:
    """Make a value once."""
    known = ledger.find(path, StepKind.VALUE)
    if known is None:
        known = yield from _record_value(ledger, path, StepKind.VALUE, make())
    return codec.decode(known.value or b"null")


def version(ledger: Ledger, path: str) -> StepFlow[bool]:
    """Whether a run has come here for the first time with the code that asks."""
    old = ledger.is_replaying
    known = ledger.find(path, StepKind.VERSION)
    if known is None:
        known = yield from _record_value(ledger, path, StepKind.VERSION, not old)
    return bool(codec.decode(known.value or b"null"))


def find_winner(ledger: Ledger, path: str, names: str) -> StepFlow[str | None]:
    """Which of several came first, if that is known."""
    yield from ()
    known = ledger.find(path, StepKind.RACE, names)
    return None if known is None else str(codec.decode(known.value or b"null"))


def record_winner(ledger: Ledger, path: str, names: str, winner: str) -> StepFlow[str]:
    """Remember which came first."""
    known = yield from _record_value(ledger, path, StepKind.RACE, winner, given=names)
    return str(codec.decode(known.value or b"null"))


def _record_value(
    ledger: Ledger, path: str, kind: StepKind, made: object, given: str | None = None
) -> StepFlow[Step]:
    data = codec.encode(made, what=f"value of {path!r}")
    write = StepWrite(
        path=path, kind=kind, state=StepState.DONE, value=msgspec.Raw(data), input=given
    )
    return (yield from ledger.record(write))
