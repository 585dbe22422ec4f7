"""Finds the application that a command works with.

The application is a `Windlass` in a module: `--app module:name`, `$WINDLASS_APP`, or `app` in
windlass.toml. Commands that only need the store do without one, and then a URL is enough. A URL on
the command line counts more than the application's own.
"""

import importlib
import linecache
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from windlass.app import Windlass
from windlass.config import FILE_NAME, Settings, find_file
from windlass.errors import StoreError, UsageError, WindlassError
from windlass.files.interrupts import interrupts
from windlass.isolation.locate import move

DEFAULT_NAME = "app"


def application(app: str | None, url: str | None, *, alone: bool) -> Windlass:
    """The application with its jobs; where none is named, one for job files alone.

    Raises UsageError where there is no folder of those either, unless it may come (`alone`).
    """
    named = _named(app)
    if named is not None:
        return _load_for(named, url)
    folder = Settings.load().jobs
    if not alone and not folder.is_dir():
        raise UsageError(
            "No application is named: give --app module:name, set WINDLASS_APP, "
            f"or write `app` into {FILE_NAME}; and there is no folder {folder} of job files."
        )
    _extend_path()  # job files import from the project
    return Windlass(url)


def store(app: str | None, url: str | None, *, existing: bool) -> Windlass:
    """An application to reach the store by; where a URL is enough it has no jobs."""
    named = app if url is not None else _named(app)
    found = Windlass(url) if named is None else _load_for(named, url)
    if existing:
        must_exist(found)
        # Asked for at once: a call would wait patiently for a server that may not be there.
        found.store.schema_version()
    return found


def must_exist(app: Windlass) -> None:
    """Raise StoreError where the SQLite file would have to be made."""
    path: Path | None = getattr(app.store, "path", None)
    if path is not None and not path.exists():
        raise StoreError(
            f"There is no file {path}: it is made when a worker starts or an application enqueues; "
            "or name another store by --url."
        )


def load(named: str) -> Windlass:
    """Import `module:name`. Raises UsageError, which says what failed and where."""
    module_name, _, name = named.partition(":")
    name = name or DEFAULT_NAME
    searched = _extend_path()
    module = _import(module_name, searched)
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Windlass):
        return found
    if found is not None:
        kind = type(found).__name__
        raise UsageError(f"{module_name}:{name} is no Windlass but {kind}{_others(module)}.")
    raise UsageError(f"Module {module_name!r} has no {name!r}{_others(module)}.")


def _named(app: str | None) -> str | None:
    return app or Settings.load().app


def _load_for(named: str, url: str | None) -> Windlass:
    app = load(_checked(named))
    if url is not None:
        move(app, url)
    return app


def _checked(named: str) -> str:
    file, colon, name = named.partition(":")
    if file.endswith(".py") or "/" in named or "\\" in named:
        module = Path(file).with_suffix("").as_posix().strip("/.").replace("/", ".")
        raise UsageError(f"{file!r} is a file: name its module, as in --app {module}{colon}{name}.")
    return Settings.load(app=named).app or named


def _extend_path() -> Sequence[str]:
    """Put the working directory, and that of windlass.toml, first; return them."""
    config = find_file(Path.cwd())
    folders = [str(Path.cwd())]
    if config is not None and str(config.parent) not in folders:
        folders.append(str(config.parent))
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    return folders


def _import(name: str, searched: Sequence[str]) -> ModuleType:
    with interrupts() as raised:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and f"{name}.".startswith(f"{error.name}."):
                raise UsageError(
                    f"There is no module {error.name!r}: looked in {' and '.join(searched)} and "
                    "among the installed packages; start in the folder that holds it, or change "
                    "--app."
                ) from None
            raise _failed(name, error) from error
        except BaseException as error:  # foreign code may raise anything
            if raised:
                raise raised[0] from None  # a Ctrl-C, whatever the module made of it
            raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> UsageError:
    file, line = _where(error)
    kind = "" if isinstance(error, WindlassError) else f"{type(error).__name__}: "
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    code = linecache.getline(file, line).strip()
    shown = f", `{code}`" if code else ""
    return UsageError(
        f"Module {name!r} cannot be imported: {kind}{text.rstrip('.')} ({file}, line {line}{shown})"
        f"; `python -c 'import {name}'` shows all of it."
    )


def _where(error: BaseException) -> tuple[str, int]:
    """The place to look at: the innermost line that is not a library's."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.filename, error.lineno or 0
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    libraries = (sysconfig.get_path("stdlib"), "<frozen ", str(Path(__file__).parents[1]))
    own = [f for f in frames if not f[0].startswith(libraries) and "-packages" not in f[0]]
    return (own or frames)[-1]


def _others(module: ModuleType) -> str:
    """What the user may have meant."""
    names = [name for name, value in vars(module).items() if isinstance(value, Windlass)]
    if not names:
        return " and no other Windlass: write `app = Windlass(...)` there, or change --app"
    return f": use --app {module.__name__}:{names[0]}"
