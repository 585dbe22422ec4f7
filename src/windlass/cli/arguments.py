"""The arguments of a job, as they are given to a command: a JSON object, NAME=VALUE, or both."""

import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

R = TypeVar("R")

_PAIR = re.compile(r"\w+=")  # which no JSON begins with


def job_arguments(command: Callable[..., R]) -> Callable[..., R]:
    """Add them; the command gets them as `input_`, which is None where nothing was given."""

    @click.argument("texts", metavar="[JSON] [NAME=VALUE]...", nargs=-1)
    @click.option(
        "--arg",
        "pairs",
        metavar="NAME=VALUE",
        multiple=True,
        help="The same as NAME=VALUE alone: the value is JSON, else text. May be repeated.",
    )
    @functools.wraps(command)
    def with_arguments(
        *args: Any, texts: tuple[str, ...], pairs: tuple[str, ...], **kwargs: Any
    ) -> R:
        return command(*args, input_=_read(texts, pairs), **kwargs)

    return with_arguments


def _read(texts: Sequence[str], pairs: Sequence[str]) -> dict[str, Any] | None:
    objects = [text for text in texts if not _PAIR.match(text)]
    if len(objects) > 1:
        raise click.UsageError(
            f"{objects[1]!r} is neither NAME=VALUE nor a part of the JSON object: quote that, "
            "such as '{\"user_id\": 7}'."
        )
    if not texts and not pairs:
        return None
    found = _read_object(objects[0]) if objects else {}
    for pair in (*(text for text in texts if _PAIR.match(text)), *pairs):
        name, value = _read_pair(pair)
        found[name] = value
    return found


def _read_object(text: str) -> dict[str, Any]:
    """Read a JSON object; "-" is standard input."""
    given: str | bytes = text
    if text == "-":
        given = sys.stdin.buffer.read()  # JSON says itself how it is encoded, not the locale
    try:
        value = json.loads(given, parse_constant=_refuse)
    except ValueError as error:
        raise click.UsageError(f"The arguments are not JSON: {error}.") from None
    except RecursionError:
        raise click.UsageError("The arguments are nested too deeply.") from None
    if not isinstance(value, dict):
        raise click.UsageError(
            "The arguments must be a JSON object, by name, such as '{\"user_id\": 7}'."
        )
    return value


def _read_pair(pair: str) -> tuple[str, Any]:
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="'--arg'")
    try:
        return name, json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return name, text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
