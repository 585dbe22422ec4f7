"""Pipelines: functions that run one after another, each with the results of those before it.

A `Plan` is what can be known of them beforehand: their names, what each is given, and what the
whole takes. A parameter is the result of an earlier phase if it has that phase's name; any other is
an input of the pipeline. The context comes first, if a function wants it, as in handlers.

`Plan.walk` is the one loop over the phases. It calls nothing itself: it yields whose turn it is,
with what arguments, and is sent what came of it. So the same walk serves a durable job, where each
turn is a step, and `PhaseRunner`, which just calls.
"""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from windlass.domain import reflection
from windlass.domain.phase import MOST_PHASES
from windlass.domain.policy import ErrorTypes, Retry
from windlass.domain.reflection import Hints
from windlass.domain.step import check_step_name
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, UsageError


@dataclass(frozen=True, slots=True)
class Phase:
    """A function that is a part of a pipeline, under a name; made by `phase`."""

    name: str
    function: Callable[..., Any]
    retry: Retry | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    fatal: ErrorTypes = ()

    @property
    def is_async(self) -> bool:
        """Whether calling it makes a coroutine."""
        return reflection.is_coroutine_handler(self.function)


def phase(
    name: str | Callable[..., Any],
    function: Callable[..., Any] | None = None,
    *,
    retry: Retry | None = None,
    max_attempts: int | None = None,
    timeout: Duration | None = None,
    fatal: ErrorTypes = (),
) -> Phase:
    """A phase of a pipeline: a function with a name of its own, a retry policy, a timeout.

    `phase("fetch", download, retry=Retry.fixed("5s"))`; without a name it has the function's:
    `phase(download, timeout="1m")`. The options are those of `ctx.step`.
    """
    named, called = (name, function) if isinstance(name, str) else (_name(name), name)
    if not isinstance(name, str) and function is not None:
        raise BadOption("phase", "give the name first, and then the function")
    if not callable(called):
        raise BadOption("phase", f"{called!r} of phase {named!r} cannot be called")
    made = Phase(
        name=check_step_name(named, "phase"),
        function=called,
        retry=retry,
        max_attempts=max_attempts,
        timeout=None if timeout is None else parse_duration(timeout),
        fatal=fatal,
    )
    if made.timeout is not None and not made.is_async:
        why = f"phase {named!r} is not async, and a thread cannot be stopped"
        raise BadOption("timeout", f"{why}: make it `async def`, or give the job a timeout")
    return made


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is, and what it is called with, after the context if it takes one."""

    place: int
    phase: Phase
    takes_context: bool
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Part:
    phase: Phase
    takes_context: bool
    parameters: tuple[Parameter, ...]
    hints: Hints


class PhaseResult:
    """What a phase came to."""

    __slots__ = ("name", "result")

    def __init__(self, name: str, result: Any) -> None:
        self.name = name
        self.result = result

    def __repr__(self) -> str:
        return f"<PhaseResult {self.name}: {self.result!r}>"


class PhaseResults(dict[str, PhaseResult]):
    """What the phases came to that have ended, by name: `ctx.phases["download"].result`."""

    def __missing__(self, name: str) -> PhaseResult:
        known = ", ".join(self) or "none"
        raise UsageError(f"Phase {name!r} has no result by now. These have: {known}.")


class Plan:
    """The phases of a pipeline, checked."""

    def __init__(self, name: str, *phases: Phase | Callable[..., Any]) -> None:
        """Raises BadOption for what cannot be a pipeline."""
        if not 1 <= len(phases) <= MOST_PHASES:
            raise BadOption("pipeline", f"{name!r} must have 1 to {MOST_PHASES} phases")
        made = [each if isinstance(each, Phase) else phase(each) for each in phases]
        self.name = name
        self.names = tuple(each.name for each in made)
        twice = [each for n, each in enumerate(self.names) if each in self.names[:n]]
        if twice:
            why = f"{name!r} has two phases {twice[0]!r}: name one of them by phase(name, function)"
            raise BadOption("pipeline", why)
        self._parts = [_read(each) for each in made]
        self.is_async = any(each.is_async for each in made)
        self.inputs = tuple(self._inputs())
        self.signature = self._signature()

    @property
    def phases(self) -> Sequence[Phase]:
        """The phases, in order."""
        return [part.phase for part in self._parts]

    def walk(self, input: Mapping[str, Any], results: PhaseResults) -> Generator[Turn, Any, Any]:
        """Yield the phases in turn, and take what each returned; returns what the last one did."""
        value: Any = None
        for place, part in enumerate(self._parts):
            given: dict[str, Any] = {}
            for parameter in part.parameters:
                if parameter.name in self.names[:place]:
                    given[parameter.name] = results[parameter.name].result
                elif parameter.name in input:
                    given[parameter.name] = input[parameter.name]
            value = yield Turn(place, part.phase, part.takes_context, given)
            results[part.phase.name] = PhaseResult(part.phase.name, value)
        return value

    def _inputs(self) -> Mapping[str, Parameter]:
        """What the pipeline takes: all that is not a result. Those with a default come last."""
        found: dict[str, Parameter] = {}
        for place, part in enumerate(self._parts):
            for parameter in part.parameters:
                if parameter.name in self.names[:place]:
                    continue
                self._refuse_later(part, place, parameter)
                known = found.get(parameter.name)
                resolved = _resolved(parameter, part.hints)
                found[parameter.name] = resolved if known is None else self._one(known, resolved)
        ordered = sorted(found.values(), key=lambda p: p.default is not Parameter.empty)
        return {parameter.name: parameter for parameter in ordered}

    def _refuse_later(self, part: _Part, place: int, parameter: Parameter) -> None:
        """A phase cannot be given what comes after it, nor what it returns itself."""
        if parameter.name in self.names[place:]:
            why = f"phase {part.phase.name!r} of {self.name!r} wants the result of"
            raise BadOption("pipeline", f"{why} {parameter.name!r}, which does not come before it")

    def _one(self, known: Parameter, other: Parameter) -> Parameter:
        """What two phases both take: it must be the same."""
        told = f"the phases of {self.name!r} do not agree on {known.name!r}"
        bare = Parameter.empty
        if bare not in (known.annotation, other.annotation) and (
            known.annotation != other.annotation
        ):
            raise BadOption("pipeline", f"{told}: they annotate it differently")
        if bare not in (known.default, other.default) and known.default != other.default:
            raise BadOption("pipeline", f"{told}: they have different defaults for it")
        default = bare if bare in (known.default, other.default) else known.default
        annotation = other.annotation if known.annotation is bare else known.annotation
        return known.replace(annotation=annotation, default=default)

    def _signature(self) -> inspect.Signature:
        """The signature of the pipeline as a handler: the context, and what it takes."""
        last = self._parts[-1].hints
        returns = last.known.get("return", inspect.Signature.empty)
        context = Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [context, *self._inputs().values()]
        return inspect.Signature(parameters, return_annotation=returns)


def _name(function: object) -> str:
    return str(getattr(function, "__name__", ""))


def _read(each: Phase) -> _Part:
    signature = reflection.read_signature(each.function, each.name)
    hints = reflection.read_hints(each.function, signature)
    parameters = list(signature.parameters.values())
    takes_context = bool(parameters) and reflection.is_context(parameters[0], hints)
    parameters = parameters[takes_context:]
    reflection.refuse_unfit(parameters, hints, each.name)
    for parameter in parameters:
        if parameter.kind in (Parameter.VAR_KEYWORD, Parameter.POSITIONAL_ONLY):
            why = f"phase {each.name!r} takes {parameter}: name what it is given"
            raise BadOption("pipeline", why)
    return _Part(each, takes_context, tuple(parameters), hints)


def _resolved(parameter: Parameter, hints: Hints) -> Parameter:
    """The parameter with the type that its annotation means where the function is."""
    annotation = hints.known.get(parameter.name, parameter.annotation)
    return parameter.replace(annotation=annotation, kind=Parameter.POSITIONAL_OR_KEYWORD)
