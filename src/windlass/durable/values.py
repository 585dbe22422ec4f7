"""What steps return: stored as JSON, and read as the function's return annotation says.

The first run reads it too, so that a handler sees the same type then and in a replay.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from windlass import codec
from windlass.domain import reflection
from windlass.domain.returns import told
from windlass.errors import ResultMismatch

Reader = Callable[[msgspec.Raw], Any]


def reader_of(function: Callable[..., Any]) -> Reader:
    """What reads the values of a function. Raises BadOption where nothing can."""
    bare = inspect.unwrap(function)
    while isinstance(bare, functools.partial):
        bare = bare.func
    # Lambdas and inner functions are made anew with each call; their code is not.
    code = getattr(bare, "__code__", None)
    return _plain if code is None else _reader(code, _Ask(bare))


class _Ask:
    """A function, equal to any other: the cache goes by its code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ask)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=1024)
def _reader(code: object, ask: _Ask) -> Reader:
    function = ask.function
    name = getattr(function, "__qualname__", "a step")
    decoder = reflection.make_return_decoder(function, name)
    if decoder is None:
        return _plain

    def read(data: msgspec.Raw) -> Any:
        try:
            return decoder.decode(data)
        except (ValueError, RecursionError) as error:
            raise ResultMismatch("", name, told(error).removeprefix(": ")) from error

    return read


def _plain(data: msgspec.Raw) -> Any:
    return codec.decode(data)
