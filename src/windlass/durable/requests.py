"""What a handler asks for, checked and numbered at the call, before anything is awaited."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from windlass import codec
from windlass.domain.approval import ApprovalRequest, check_question, hash_of
from windlass.domain.job import check_max_attempts
from windlass.domain.policy import ErrorTypes, Retry
from windlass.domain.step import StepKind, check_step_name, told_input
from windlass.durable import flows
from windlass.durable.acts import UNITS, StepFlow
from windlass.durable.awaited import Patience, within
from windlass.durable.children import (
    Ask,
    JobLike,
    check_job,
    check_parallel,
    check_request,
    given_of,
    requests_of,
)
from windlass.durable.ending import Ending, joined_end
from windlass.durable.ledger import Ledger
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, UsageError
from windlass.sources import Sources

Notify = Callable[[ApprovalRequest], object]
"""Tells people that they are asked; it may be async in async handlers."""


class Asked(NamedTuple):
    """A flow that is to be run, and the step that it is for."""

    path: str
    flow: Callable[[], StepFlow[Any]]


@dataclass(frozen=True, slots=True)
class Terms:
    """What steps of a run have unless they say otherwise."""

    sources: Sources
    retry: Retry
    max_attempts: int
    value_limit: int
    patience: Patience
    ending: Ending


class Desk:
    """Turns what the methods of a context are given into flows."""

    __slots__ = ("_ledger", "_terms")

    def __init__(self, ledger: Ledger, terms: Terms) -> None:
        self._ledger = ledger
        self._terms = terms

    @property
    def sources(self) -> Sources:
        """Time, ids and randomness."""
        return self._terms.sources

    @property
    def ledger(self) -> Ledger:
        """What the attempt knows of the run's steps."""
        return self._ledger

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        retry: Retry | None,
        max_attempts: int | None,
        timeout: Duration | None,
        fatal: ErrorTypes,
        key: str | None,
        connection: object = None,
        kind: StepKind = StepKind.STEP,
    ) -> Asked:
        """A call of a function."""
        if not callable(function):
            raise BadOption("function", f"{function!r} of step {name!r} cannot be called")
        terms = self._terms
        policy = terms.retry if retry is None else retry
        if fatal:
            policy = policy.with_fatal(fatal)
        most = terms.max_attempts
        if max_attempts is not None:
            most = check_max_attempts(max_attempts)
        # What a phase is given comes from the run and from other phases: it need not be compared.
        given = None if kind is StepKind.PHASE else told_input(args, kwargs)
        limit = None if timeout is None else parse_duration(timeout)
        tries = self._policy(policy, most, limit, kind)
        if connection is not None:
            called = flows.Name(check_step_name(name), within.get(), key)
            return Asked(
                name,
                lambda: flows.joined_step(
                    self._ledger, connection, called, function, args, kwargs, given, tries
                ),
            )
        path = self._path(name, key)
        return Asked(
            path, lambda: flows.step(self._ledger, path, function, args, kwargs, given, tries)
        )

    def finish(self, connection: object, value: object) -> Asked:
        """The end of the run, in a transaction of the handler's own."""
        step, ending = within.get(), self._terms.ending
        if step is not None:
            raise UsageError(
                f"A run cannot end inside of {step!r}, which is recorded after that: call finish() "
                "in the handler itself, or let the step return what the handler needs for it."
            )
        return Asked("finish", lambda: joined_end(self._ledger, ending, connection, value))

    def sleep(self, name: str | None, length: Duration | None, parts: Mapping[str, float]) -> Asked:
        """A length of time, as a whole or in parts."""
        seconds = _seconds(length, parts)
        path = self._path(name or "sleep", None)
        return Asked(path, lambda: flows.sleep(self._ledger, path, seconds))

    def asleep(
        self, first: Duration | None, second: Duration | None, parts: Mapping[str, float]
    ) -> Asked:
        """The same, as handlers write it: one given alone is the length, unless parts are."""
        if second is None and not parts:
            return self.sleep(None, first, parts)
        return self.sleep(None if first is None else str(first), second, parts)

    def wait_for(self, signal: str, timeout: Duration | None, key: str | None) -> Asked:
        """A signal."""
        name = check_step_name(signal, "signal")
        limit = None if timeout is None else parse_duration(timeout)
        path = self._path(name, key)
        return Asked(path, lambda: flows.wait_for(self._ledger, path, name, limit))

    def approval(
        self,
        question: str,
        expires: Duration | None,
        name: str,
        key: str | None,
        notify: Notify | None,
    ) -> Asked:
        """A question to people."""
        text, terms = check_question(question), self._terms
        limit = None if expires is None else parse_duration(expires)
        path = self._path(name, key)
        asked = flows.Asking(
            question=text,
            expires=limit,
            nonce=lambda: terms.sources.new_token()[:8],
            notify=None if notify is None else self._notifier(path, text, notify),
        )
        tries = self._policy(terms.retry, terms.max_attempts, None)
        return Asked(path, lambda: flows.approval(self._ledger, path, asked, tries))

    def _notifier(self, path: str, question: str, notify: Notify) -> Callable[[], Any]:
        """What tells people that they are asked; each time with another token."""
        if not callable(notify):
            raise BadOption("notify", f"{notify!r} cannot be called")
        sources, run = self._terms.sources, self._ledger.run

        async def after(told: Awaitable[object], hashed: str) -> str:
            await told
            return hashed

        def tell() -> Any:
            token = sources.new_token()
            request = ApprovalRequest(run=run, name=path, question=question, token=token)
            told = notify(request)
            hashed = hash_of(token)
            return after(told, hashed) if inspect.isawaitable(told) else hashed

        async def atell() -> str:
            found: str = await tell()
            return found

        return atell if inspect.iscoroutinefunction(notify) else tell

    def child(
        self, job: JobLike[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Ask:
        """One child."""
        request = check_request(check_job(job).request(*args, **kwargs))
        return Ask(
            path=self._path(job.name, None),
            kind=StepKind.CHILD,
            requests=(request,),
            given=given_of((request,), job.name),
            sources=self._terms.sources,
        )

    def children(
        self,
        job: JobLike[..., Any],
        inputs: Iterable[Any],
        *,
        parallel: int | None,
        tolerant: bool,
    ) -> Ask:
        """A child for each input."""
        requests = requests_of(check_job(job), inputs)
        return Ask(
            path=self._path(job.name, None),
            kind=StepKind.CHILDREN,
            requests=requests,
            given=given_of(requests, job.name),
            sources=self._terms.sources,
            parallel=check_parallel(parallel),
            tolerant=tolerant,
        )

    def now(self) -> Asked:
        """The time, as it was when it was first asked for."""
        return self._value("now", lambda: self._terms.sources.now())

    def uuid(self) -> Asked:
        """An id."""
        return self._value("uuid", lambda: self._terms.sources.new_id())

    def random(self) -> Asked:
        """A number."""
        return self._value("random", lambda: self._terms.sources.jitter())

    def version(self, change: str) -> Asked:
        """Which version of the code a run has begun with."""
        path = f"version({check_step_name(change, 'change')})"
        return Asked(path, lambda: flows.version(self._ledger, path))

    def race(self, names: Mapping[str, object]) -> "Race":
        """Which of several comes first."""
        if len(names) < 2:
            raise BadOption("first", "it takes two waits or more, each with a name")
        return Race(self._ledger, self._path("first", None), codec.encode(list(names), what="race"))

    def _policy(
        self,
        retry: Retry,
        max_attempts: int,
        timeout: float | None,
        kind: StepKind = StepKind.STEP,
    ) -> flows.Policy:
        sources = self._terms.sources
        return flows.Policy(
            retry=retry,
            max_attempts=max_attempts,
            timeout=timeout,
            value_limit=self._terms.value_limit,
            jitter=sources.jitter,
            monotonic=sources.clock.monotonic,
            kind=kind,
        )

    def _value(self, name: str, make: Callable[[], object]) -> Asked:
        path = self._path(name, None)
        return Asked(path, lambda: flows.value(self._ledger, path, make))

    def _path(self, name: str, key: str | None) -> str:
        if within.get() == UNITS:
            raise UsageError(
                f"A unit of a batch has no durable steps and waits, such as {name!r}: it is done "
                "again as a whole. Start a run for it instead, by job.enqueue(…)."
            )
        return self._ledger.numbers.next(check_step_name(name), within=within.get(), key=key)


class Race:
    """A race between waits, whose winner is recorded."""

    __slots__ = ("_ledger", "_names", "path")

    def __init__(self, ledger: Ledger, path: str, names: bytes) -> None:
        self._ledger = ledger
        self._names = names.decode()
        self.path = path

    def known(self) -> StepFlow[str | None]:
        """Who has won, if that is recorded."""
        return flows.find_winner(self._ledger, self.path, self._names)

    def won_by(self, name: str) -> StepFlow[str]:
        """Record who has won."""
        return flows.record_winner(self._ledger, self.path, self._names, name)


def check_notify(notify: Notify | None) -> None:
    """Refuse what a handler in a thread could not await."""
    if inspect.iscoroutinefunction(notify):
        raise BadOption("notify", "it is async, and its handler is not: it cannot be awaited")


def read_payload(data: msgspec.Raw, kind: Any) -> Any:
    """The payload of a signal, as a type or as plain JSON."""
    if kind is None:
        return codec.decode(data)
    return msgspec.json.decode(data, type=kind)


def read_instant(text: str) -> datetime:
    """A recorded time."""
    return msgspec.convert(text, datetime)


def read_uuid(text: str) -> UUID:
    """A recorded id."""
    return UUID(text)


_PARTS = frozenset({"seconds", "minutes", "hours", "days", "weeks"})


def _seconds(length: Duration | None, parts: Mapping[str, float]) -> float:
    if (length is None) == (not parts):
        raise BadOption("sleep", 'give a length such as "3d", or parts such as days=3, hours=2')
    if length is not None:
        return parse_duration(length)
    unknown = sorted(parts.keys() - _PARTS)
    if unknown:
        raise BadOption("sleep", f"{unknown[0]!r} is not one of {', '.join(sorted(_PARTS))}")
    return parse_duration(timedelta(**parts))
