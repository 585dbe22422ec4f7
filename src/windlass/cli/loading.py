"""Finds the application that a command works with.

The application is a `Windlass` in a module, or a function there that makes one. It is named by
`--app module:name`, `$WINDLASS_APP`, or `app` in windlass.toml. Commands that only need the store
do without one, and then a URL is enough. A URL on the command line counts more than the
application's own.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from windlass.app import Windlass
from windlass.cli.slow_store import said_if_slow
from windlass.config import FILE_NAME, Settings, find_file
from windlass.errors import StoreError, UsageError
from windlass.factories import made_by
from windlass.isolation.locate import move
from windlass.modules import MissingModule, find_module

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
        with said_if_slow(found):
            found.store.schema_version()
    return found


def absent_file(app: Windlass) -> Path | None:
    """The SQLite file that the first write would make; None if there is one, or on PostgreSQL."""
    path: Path | None = getattr(app.store, "path", None)
    return path if path is not None and not path.exists() else None


def must_exist(app: Windlass) -> None:
    """Raise StoreError where the SQLite file would have to be made."""
    path = absent_file(app)
    if path is not None:
        raise StoreError(
            f"There is no file {path}: it is made when a worker starts or an application enqueues; "
            "or name another store by --url."
        )


def load(named: str) -> Windlass:
    """Import `module:name`, and call it if it is a factory. Raises UsageError."""
    module_name, _, name = named.partition(":")
    name = name or DEFAULT_NAME
    searched = _extend_path()
    module = _import(module_name, searched)
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    app = found if isinstance(found, Windlass) else made_by(found, module, name)
    if app is not None:
        return app
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
    try:
        return find_module(name)
    except MissingModule as error:
        parent, _, last = name.rpartition(".")
        meant = getattr(sys.modules.get(parent), last, None)
        if error.module == name and (isinstance(meant, Windlass) or callable(meant)):
            raise UsageError(
                f"There is no module {name!r}, but module {parent!r} has {last!r}: use --app "
                f"{parent}:{last}."
            ) from None
        raise UsageError(
            f"There is no module {error.module!r}: looked in {' and '.join(searched)} and "
            "among the installed packages; start in the folder that holds it, or change --app."
        ) from None


def _others(module: ModuleType) -> str:
    """What the user may have meant."""
    names = [name for name, value in vars(module).items() if isinstance(value, Windlass)]
    if not names:
        return " and no other Windlass: write `app = Windlass(...)` there, or change --app"
    return f": use --app {module.__name__}:{names[0]}"
