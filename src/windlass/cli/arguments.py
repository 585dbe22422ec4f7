"""What is handed to a run by a command: a JSON document, NAME=VALUE, or both.

The arguments of a job are an object; the payload of a signal is any JSON.
"""

import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

R = TypeVar("R")

_PAIR = re.compile(r"\w+=")  # which no JSON begins with
_QUOTES = "; text needs quotes of its own, such as '\"yes\"'"


def job_arguments(command: Callable[..., R]) -> Callable[..., R]:
    """Add them; the command gets them as `input_`, which is None where nothing was given."""

    @click.argument("texts", metavar="[JSON] [NAME=VALUE]...", nargs=-1)
    @click.option(
        "--arg",
        "pairs",
        metavar="NAME=VALUE",
        multiple=True,
        help="An argument, the same as NAME=VALUE; JSON, or text if it is none. Repeatable.",
    )
    @functools.wraps(command)
    def with_arguments(
        *args: Any, texts: tuple[str, ...], pairs: tuple[str, ...], **kwargs: Any
    ) -> R:
        return command(*args, input_=_read_arguments(texts, pairs), **kwargs)

    return with_arguments


def payload_arguments(command: Callable[..., R]) -> Callable[..., R]:
    """Add those of a signal; the command gets its `payload`, None where nothing was given."""

    @click.argument("texts", metavar="[JSON] [NAME=VALUE]...", nargs=-1)
    @functools.wraps(command)
    def with_payload(*args: Any, texts: tuple[str, ...], **kwargs: Any) -> R:
        return command(*args, payload=_read_payload(texts), **kwargs)

    return with_payload


def _read_arguments(texts: Sequence[str], pairs: Sequence[str]) -> dict[str, Any] | None:
    text, named = _sort(texts)
    if text is None and not named and not pairs:
        return None
    found = {} if text is None else _read_json("The arguments are", text)
    if not isinstance(found, dict):
        raise click.UsageError(
            "The arguments must be a JSON object, by name, such as '{\"user_id\": 7}'."
        )
    return found | dict(map(_read_pair, (*named, *pairs)))


def _read_payload(texts: Sequence[str]) -> object:
    text, named = _sort(texts)
    hint = "" if text is None or not text[0:1].isalpha() else _QUOTES
    found = None if text is None else _read_json("The payload is", text, hint)
    if not named:
        return found
    if text is not None and not isinstance(found, dict):
        raise click.UsageError("NAME=VALUE goes with a JSON object only, or with nothing else.")
    return (found or {}) | dict(map(_read_pair, named))


def _sort(texts: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the JSON document, if there is one, and what is NAME=VALUE."""
    documents = [text for text in texts if not _PAIR.match(text)]
    if len(documents) > 1:
        raise click.UsageError(
            f"{documents[1]!r} is neither NAME=VALUE nor a part of the JSON object: quote that, "
            "such as '{\"user_id\": 7}'."
        )
    named = [text for text in texts if _PAIR.match(text)]
    return documents[0] if documents else None, named


def _read_json(what: str, text: str, hint: str = "") -> Any:
    """Read a JSON document; "-" is standard input, "@FILE" a file."""
    given: str | bytes = text
    if text == "-":
        given = sys.stdin.buffer.read()  # JSON says itself how it is encoded, not the locale
    elif text.startswith("@"):
        try:
            given = Path(text[1:]).read_bytes()
        except OSError as error:
            raise click.UsageError(f"{text[1:]} cannot be read: {error.strerror}.") from None
    try:
        return json.loads(given, parse_constant=_refuse)
    except ValueError as error:
        raise click.UsageError(f"{what} not JSON: {error}{hint}.") from None
    except RecursionError:
        raise click.UsageError(f"{what} nested too deeply.") from None


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
