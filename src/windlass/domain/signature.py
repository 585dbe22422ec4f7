"""What a job's handler takes, checked when a run is enqueued and not when it starts.

A run's input is one JSON object with a member per argument. `Signature` turns a call into that
object and back. It checks names by the handler's parameters and values by their annotations:
the encoded input is decoded again as the worker will do it, into a struct made of them. A
parameter without an annotation is not checked; one whose annotation cannot be checked is refused.

Defaults are not stored: they are filled in when the run starts, by the code that runs it.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any, Self

import msgspec

from windlass import codec
from windlass.domain import reflection
from windlass.domain.returns import Returns, told
from windlass.errors import BadArguments

_EXTRA = "**"  # the mark of a parameter that takes all others
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_AT = re.compile(r"(?P<why>.*) - at `\$\.(?P<name>\w+)(?P<rest>.*)`", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The parameters of one job's handler.

    >>> def greet(ctx, name: str, times: int = 1): ...
    >>> signature = Signature.of(greet, job="greet")
    >>> signature.encode(("Ada",), {})
    b'{"name":"Ada"}'
    >>> signature.decode(b'{"name":"Ada"}')
    (('Ada', 1), {})
    >>> signature.encode((), {"name": 7})
    Traceback (most recent call last):
    windlass.errors.BadArguments: Job 'greet' got a wrong name: expected `str`, got `int`.
    """

    job: str
    is_async: bool
    takes_context: bool
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    known: frozenset[str]
    required: frozenset[str]
    extra: str | None
    """The name of **kwargs, where there is one."""
    decoder: msgspec.json.Decoder[msgspec.Struct] = field(repr=False, compare=False)
    extra_decoder: msgspec.json.Decoder[Any] | None = field(repr=False, compare=False)
    """Of each argument in **kwargs, where these are annotated."""
    returns: Returns | None = field(repr=False, compare=False)
    """What reads results, where the handler says what it returns."""

    @classmethod
    def of(cls, handler: Callable[..., object], job: str) -> Self:
        """Read a handler's signature. Raises BadOption where it cannot be a job."""
        read = reflection.read_signature(handler, job)
        hints = reflection.read_hints(handler, read)
        parameters = list(read.parameters.values())
        takes_context = bool(parameters) and reflection.is_context(parameters[0], hints)
        parameters = parameters[takes_context:]
        reflection.refuse_unfit(parameters, hints, job)
        extra = next((p.name for p in parameters if p.kind is Parameter.VAR_KEYWORD), None)
        named = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
        return cls(
            job=job,
            is_async=reflection.is_coroutine_handler(handler),
            takes_context=takes_context,
            positional=tuple(p.name for p in named if p.kind is not Parameter.KEYWORD_ONLY),
            keyword_only=tuple(p.name for p in named if p.kind is Parameter.KEYWORD_ONLY),
            known=frozenset(p.name for p in named),
            required=frozenset(p.name for p in named if p.default is Parameter.empty),
            extra=extra,
            decoder=reflection.make_decoder(named, hints, job, strict=extra is None),
            extra_decoder=reflection.make_extra_decoder(extra, hints, job),
            returns=Returns.of(job, reflection.make_result_decoder(hints, job)),
        )

    def bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the call's arguments by name, without defaults. Raises BadArguments."""
        if not args and self._fits(kwargs):
            return dict(kwargs)
        if len(args) > len(self.positional):
            most = len(self.positional)
            arguments = f"{most} positional argument{'' if most == 1 else 's'}"
            takes = f"takes {arguments}, {len(args)} were given"
            raise BadArguments(self.job, takes)
        bound = dict(zip(self.positional, args, strict=False))
        for name in kwargs:
            if name in bound:
                raise BadArguments(self.job, f"got {name} twice", name)
        bound.update(kwargs)
        self._check_names(bound.keys())
        return bound

    def encode(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        *,
        limit: int = codec.MAX_BYTES,
    ) -> bytes:
        """Return the input of a run with these arguments.

        Raises BadArguments, BadPayload or PayloadTooLarge.
        """
        bound = self.bind(args, kwargs)
        data = codec.encode(bound, what=f"input of job {self.job!r}", limit=limit)
        self._values(data)
        if self.extra_decoder is not None:
            self._extras(data)
        return data

    @property
    def first(self) -> str:
        """The argument that the result before goes to, in a chain. Raises BadArguments."""
        if not self.positional:
            raise BadArguments(self.job, "takes no positional argument, so no result of a chain")
        return self.positional[0]

    def encode_without_first(
        self, kwargs: Mapping[str, object], *, limit: int = codec.MAX_BYTES
    ) -> bytes:
        """Return the input of a run that will be given its first argument later."""
        first = self.first
        if first in kwargs:
            raise BadArguments(self.job, f"gets {first} from the run before", first)
        self._check_names({first, *kwargs})
        data = codec.encode(dict(kwargs), what=f"input of job {self.job!r}", limit=limit)
        try:
            self.decoder.decode(data)
        except (ValueError, RecursionError) as error:
            # Values are looked at before what is missing, and nothing else is missing.
            if f"missing required field `{first}`" not in str(error):
                raise self._explain(data, error) from error
        if self.extra_decoder is not None:
            self._extras(data)
        return data

    def decode(self, data: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments to call the handler with, after the context.

        Raises BadArguments where the input does not fit, e.g. one of an older version.
        """
        values = self._values(data)
        if not self.keyword_only and self.extra is None:
            return values, {}
        count = len(self.positional)
        keywords = dict(zip(self.keyword_only, values[count:], strict=True))
        if self.extra is not None:
            keywords.update(self._extras(data))
        return values[:count], keywords

    def only_parameter(self, kind: type[msgspec.Struct]) -> str | None:
        """The name of the one parameter, if there is no other and it is annotated like that."""
        found = msgspec.structs.fields(self.decoder.type)
        if self.extra is not None or len(found) != 1 or found[0].type is not kind:
            return None
        return found[0].encode_name

    def parameters(self) -> list[dict[str, Any]]:
        """Return what `check_parameters` needs, for the job's row."""
        names = self.positional + self.keyword_only
        rows = [{"name": name, "required": name in self.required} for name in names]
        if self.extra is not None:
            rows.append({"name": f"{_EXTRA}{self.extra}", "required": False})
        return rows

    def _values(self, data: bytes | msgspec.Raw) -> tuple[Any, ...]:
        try:
            return msgspec.structs.astuple(self.decoder.decode(data))
        except (ValueError, RecursionError) as error:
            raise self._explain(data, error) from error

    def _extras(self, data: bytes | msgspec.Raw) -> dict[str, Any]:
        """The arguments that **kwargs takes."""
        given = {n: v for n, v in _MEMBERS.decode(data).items() if n not in self.known}
        decode = codec.decode if self.extra_decoder is None else self.extra_decoder.decode
        found = {}
        for name, value in given.items():
            try:
                found[name] = decode(value)
            except (ValueError, RecursionError) as error:
                raise BadArguments(self.job, f"got a wrong {name}{told(error)}", name) from error
        return found

    def _explain(self, data: bytes | msgspec.Raw, error: Exception) -> BadArguments:
        found = _AT.fullmatch(str(error))
        if found:
            name, why = found["name"], found["why"][:1].lower() + found["why"][1:]
            return BadArguments(self.job, f"got a wrong {name}{found['rest']}: {why}", name)
        given = codec.decode(data, what=f"input of job {self.job!r}")
        if isinstance(given, dict):
            self._check_names(given)  # says it better than msgspec
        return BadArguments(self.job, "takes an object with a member per argument")

    def _check_names(self, given: Collection[str]) -> None:
        if not self._fits(given):
            # Slower, and says which one is wrong.
            check_parameters(self.parameters(), given, self.job)

    def _fits(self, given: Collection[str]) -> bool:
        known = self.extra is not None or self.known.issuperset(given)
        return known and self.required.issubset(given)


def check_parameters(
    parameters: Sequence[Mapping[str, Any]], given: Collection[str], job: str
) -> None:
    """Check names of arguments against a stored signature, without the handler.

    Raises BadArguments for the first one that is missing or unknown.
    """
    names = [str(row["name"]) for row in parameters]
    for row in parameters:
        if row["required"] and row["name"] not in given:
            raise BadArguments(job, f"needs the argument {row['name']}", str(row["name"]))
    if any(name.startswith(_EXTRA) for name in names):
        return
    for name in given:
        if name not in names:
            takes = ", ".join(names) if names else "none"
            raise BadArguments(job, f"has no argument {name!r} (it takes: {takes})", name)
