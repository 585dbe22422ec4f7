"""Errors as data: what is kept of an exception, whatever it does to prevent that.

The handler's exception is foreign code. Its `__str__` may raise, recurse without end or return a
hundred megabytes; its text may hold what no store accepts. The run's outcome must be recorded all
the same, so nothing here trusts it.
"""

import hashlib
import os
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from types import CodeType
from typing import Final, Literal

import msgspec

MESSAGE_LIMIT: Final = 10_000
"""Characters of an error's message that are kept, from its start."""

TRACEBACK_LIMIT: Final = 64 * 1024
"""Bytes of an error's traceback that are kept, from its end."""

_VERSION = re.compile(
    r"(?<=\w)@[0-9]+"
)  # of a job file, `jobs@7`: the next one's are the same types
_MAX_CHAIN = 20
_MAX_FRAMES = 100
_MAX_WIDTH = 10
_MAX_DEPTH = 2
_NAME_LIMIT = 500

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of an exception.

    `fingerprint` groups errors that are the same mistake: it covers the type and the place, but
    neither the message nor the line, which change with data and with every edit.

    The defaults are for errors that a worker in another language told without one of these.
    """

    type: str = "Error"
    message: str = ""
    traceback: str = ""
    fingerprint: str = ""


def describe_error(error: BaseException) -> ErrorInfo:
    """Describe an exception in clean text of bounded size. It does not raise."""
    return ErrorInfo(
        type=_guarded(error, _type_name),
        message=_guarded(error, _message),
        traceback=_guarded(error, _traceback),
        fingerprint=_guarded(error, _fingerprint),
    )


def _guarded(error: BaseException, describe: Callable[[BaseException], str]) -> str:
    try:
        return describe(error)
    except BaseException as failure:  # noqa: BLE001
        # A hostile class may raise anything from its methods and properties, RecursionError and
        # KeyboardInterrupt included; the outcome must be recorded nevertheless.
        return f"<not available: {type(failure).__name__}>"


def _type_name(error: BaseException) -> str:
    cls = type(error)
    # The type's own descriptors: a metaclass may have redefined what cls.__name__ does.
    name = str(type.__dict__["__qualname__"].__get__(cls))
    module = type.__dict__["__module__"].__get__(cls)
    if isinstance(module, str) and module not in ("builtins", "__main__"):
        name = f"{_VERSION.sub('', module)}.{name}"
    return _clean(name)[:_NAME_LIMIT]


def _message(error: BaseException) -> str:
    text = str(error)
    # str's own slicing: the text may be of a subclass that redefines it. Cut before it is
    # cleaned, which would copy all of it, and after, since that can make it longer.
    return _clean(str.__getitem__(text, slice(MESSAGE_LIMIT)))[:MESSAGE_LIMIT]


def clean_traceback(text: str) -> str:
    """Return what is kept of a stack that was rendered without an exception."""
    return _cut(_clean(text))


def _traceback(error: BaseException) -> str:
    return _cut("".join(_render_chain(error)))


def _cut(text: str) -> str:
    return text.encode("utf-8")[-TRACEBACK_LIMIT:].decode("utf-8", "ignore")


def _clean(text: str) -> str:
    """Return text that UTF-8, JSON and both stores accept."""
    visible = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return visible.replace("\0", "\\x00")


def _render_chain(error: BaseException) -> Iterator[str]:
    """Render an error after those that it came from, as the interpreter does."""
    chain: list[tuple[BaseException, str]] = [(error, "")]
    current = error
    # Chains may be cyclic, and retry loops make long ones: the nearest errors matter most.
    while len(chain) < _MAX_CHAIN:
        cause = current.__cause__
        # Compared with None throughout: an exception may define its own truth.
        context = None if current.__suppress_context__ else current.__context__
        origin = context if cause is None else cause
        if origin is None or any(origin is seen for seen, _ in chain):
            break
        chain.append((origin, _CONTEXT if cause is None else _CAUSE))
        current = origin
    for item, joint in reversed(chain):
        yield from _render_one(item, depth=_MAX_DEPTH)
        yield joint


def _render_one(error: BaseException, depth: int) -> Iterator[str]:
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield _clean("".join(traceback.extract_tb(error.__traceback__, -_MAX_FRAMES).format()))
    kind, message = _guarded(error, _type_name), _guarded(error, _message)
    yield f"{kind}: {message}\n" if message else f"{kind}\n"
    # Bounded in width and depth: a group may hold one and the same group many times over.
    if isinstance(error, BaseExceptionGroup) and depth:
        count = len(error.exceptions)
        for number, inner in enumerate(error.exceptions[:_MAX_WIDTH], start=1):
            yield f"  | sub-exception {number} of {count}\n"
            text = "".join(_render_one(inner, depth - 1))
            yield "".join(f"  | {line}\n" for line in text.splitlines())


def _fingerprint(error: BaseException) -> str:
    code = _place([frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)])
    where = f"{PurePath(code.co_filename).name}:{code.co_qualname}" if code else ""
    return hashlib.sha256(_clean(f"{_type_name(error)}|{where}").encode()).hexdigest()[:16]


def _place(codes: Sequence[CodeType]) -> CodeType | None:
    """Return the innermost code that is the user's own; the outermost comes first.

    Where an application is installed beside its libraries the two cannot be told apart; then it
    is the outermost code that is neither ours nor Python's: the handler.
    """
    kinds = [(code, _kind_of(code.co_filename)) for code in codes]
    own = [code for code, kind in kinds if kind == "own"]
    installed = [code for code, kind in kinds if kind == "installed"]
    if own:
        return own[-1]
    return installed[0] if installed else (codes[-1] if codes else None)


def _kind_of(filename: str) -> Literal["own", "installed", "other"]:
    if filename.startswith((_OUR_FOLDER, "<frozen ")):
        return "other"
    if not _INSTALLED.isdisjoint(PurePath(filename).parts):
        return "installed"
    # Checked last: site-packages may be inside the standard library's folder.
    return "other" if filename.startswith(_PYTHONS_FOLDER) else "own"


_INSTALLED = frozenset({"site-packages", "dist-packages"})
_OUR_FOLDER = f"{Path(__file__).parent.parent}{os.sep}"
_PYTHONS_FOLDER = f"{sysconfig.get_path('stdlib')}{os.sep}"
