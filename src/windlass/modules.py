"""The modules of a project: imported all at once, with errors that say where to look."""

import importlib
import linecache
import pkgutil
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from windlass.errors import BadOption, UsageError, WindlassError
from windlass.files.interrupts import interrupts
from windlass.isolation.main_module import importable_name

T = TypeVar("T")


def import_all(package: str) -> Sequence[str]:
    """Import a package and every module in it, deep; return the names. Raises UsageError."""
    module = import_module(package)
    return [package, *_inside(module)]


def _inside(package: ModuleType) -> Iterator[str]:
    if not hasattr(package, "__path__"):
        return  # a plain module: there is nothing in it
    for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda item: item.name):
        name = f"{package.__name__}.{found.name}"
        if found.name == "__main__":
            continue  # a program: to import it may be to run it
        module = import_module(name)
        yield name
        if found.ispkg:
            yield from _inside(module)


class MissingModule(ImportError):
    """There is no module of that name, or no package around it."""

    def __init__(self, module: str) -> None:
        super().__init__(module)
        self.module = module

    def __str__(self) -> str:
        return (
            f"There is no module {self.module!r}: it was not found where Python looks for modules "
            "(sys.path)."
        )


class BrokenCode(UsageError):
    """Code of the project that raises an error when it is imported or called.

    `file` and `line` are the place to look at.
    """

    def __init__(self, failed: str, why: str, file: str, line: int, more: str = "") -> None:
        super().__init__(failed, why, file, line, more)
        self.failed, self.why, self.file, self.line = failed, why, file, line
        self._more = more

    def __str__(self) -> str:
        code = linecache.getline(self.file, self.line).strip()
        shown = f", `{code}`" if code else ""
        return f"{self.failed}: {self.why} ({self.file}, line {self.line}{shown}){self._more}."


def import_module(name: str) -> ModuleType:
    """Import a module. Raises UsageError, which says what failed and where."""
    try:
        return find_module(name)
    except MissingModule as error:
        raise UsageError(str(error)) from None


def find_module(name: str) -> ModuleType:
    """As :func:`import_module`, but raises MissingModule if there is none of that name."""

    def load() -> ModuleType:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and f"{name}.".startswith(f"{error.name}."):
                raise MissingModule(error.name) from None
            raise

    more = f"; `python -c 'import {name}'` shows all of it"
    return guarded(load, f"Module {name!r} cannot be imported", more)


def guarded(foreign: Callable[[], T], failed: str, more: str = "") -> T:
    """Call foreign code. Raises BrokenCode, which says what failed and the line to look at."""
    with interrupts() as raised:
        try:
            return foreign()
        except MissingModule:
            raise
        except BaseException as error:  # foreign code may raise anything
            if raised:
                raise raised[0] from None  # a Ctrl-C, whatever the code made of it
            raise BrokenCode(failed, _told(error), *_where(error), more) from error


def _told(error: BaseException) -> str:
    kind = "" if isinstance(error, WindlassError) else f"{type(error).__name__}: "
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{kind}{text.rstrip('.')}"


def _where(error: BaseException) -> tuple[str, int]:
    """The place to look at: the innermost line that is not a library's."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.filename, error.lineno or 0
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    own = [f for f in frames if not is_library(f[0])]
    return (own or frames)[-1]


def is_library(file: str) -> bool:
    """Whether a file is Python's, an installed package's, or ours: not the place to look at."""
    libraries = (sysconfig.get_path("stdlib"), "<frozen ", str(Path(__file__).parent))
    return file.startswith(libraries) or "-packages" in file


def name_with_module(function: Callable[..., Any]) -> str:
    """The name of a job that carries its module: `shop.mail.send`."""
    own, module = getattr(function, "__name__", ""), getattr(function, "__module__", None)
    if not own or not isinstance(module, str):
        return own
    named = importable_name(module)
    if named is None:
        why = f"{own} is in a program without a module's name: give the job a name"
        raise BadOption("name", why)
    return f"{named}.{own}"
