"""Where an application is tested: a store of the test's own, on a clock of the test's own.

Only the application's connections change hands. Its jobs, schedules and resources stay, so a test
enqueues with the very objects that the program has.
"""

import importlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass import guard
from windlass.app import Windlass
from windlass.config import Settings, find_file
from windlass.domain.scheduling.rules import Moment
from windlass.errors import UsageError
from windlass.factories import made_by
from windlass.sources import Sources
from windlass.testing.clock import START, VirtualClock
from windlass.testing.faces import Procedure, Work, perform_anywhere
from windlass.transport.store import StoreTransport

MEMORY = Path("/dev/shm")


@contextmanager
def isolated(
    app: Windlass | None = None,
    *,
    server: str | None = None,
    start: Moment = START,
    seed: int = 0,
    **settings: Any,
) -> Iterator[Windlass]:
    """Put an application, or a new one, on an empty store and a virtual clock, for a while.

    The store is a temporary SQLite file or, where `server` is a postgresql:// URL, a new database
    on that server; the one that the URL names is not touched. `start` is the first time that the
    clock shows, an instant or "now"; `seed` decides ids and jitter.
    """
    with scratch(server) as url, moved(app, url, start=start, seed=seed, **settings) as found:
        yield found


@contextmanager
def moved(
    app: Windlass | None,
    url: str,
    *,
    start: Moment = START,
    seed: int = 0,
    **settings: Any,
) -> Iterator[Windlass]:
    """The same on an empty store that is there already."""
    clock = VirtualClock(start)
    sources = Sources.manual(clock=clock, seed=seed)
    with _artifacts(settings.pop("artifacts", None)) as folder:
        if app is None:
            made = Windlass(url, sources=sources, artifacts=folder, **settings)
            with _prepared(made, clock) as found:
                yield found
            return
        there = replace(app.settings.having(**settings), url=url, artifacts=folder)
        with app.ground.moved(there, sources, StoreTransport()), _prepared(app, clock) as found:
            yield found


@contextmanager
def _artifacts(place: str | None) -> Iterator[str]:
    """Where artifacts of a test are kept: never where the application has its own."""
    if place is not None:
        yield place
        return
    folder = tempfile.mkdtemp(prefix="windlass-", dir=MEMORY if MEMORY.is_dir() else None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _prepared(app: Windlass, clock: VirtualClock) -> Iterator[Windlass]:
    """Bring the schema up to date; close the store afterwards."""
    with guard.allowing(app.store.place):
        try:
            app.store.migrate()
            # Declared schedules count from where they are declared, not from the next drain.
            clock.before_moving(app.schedules.sync)
            yield app
        finally:
            perform_anywhere(app.store, _closing(app))


@contextmanager
def real_store(app: Windlass) -> Iterator[Windlass]:
    """Let a test use the application's own store, for a while: for tests that mean that very store.

    Without this, a test session refuses to open it. Its connections are closed afterwards.
    """
    with guard.allowing(app.store.place):
        try:
            yield app
        finally:
            perform_anywhere(app.store, _closing(app))


@contextmanager
def scratch(server: str | None = None, template: str | None = None) -> Iterator[str]:
    """The URL of an empty store that is gone afterwards."""
    if server is None:
        # In memory where there is such a folder: each commit waits for its disk.
        folder = tempfile.mkdtemp(prefix="windlass-", dir=MEMORY if MEMORY.is_dir() else None)
        try:
            yield f"sqlite:///{folder}/windlass.db"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    if not server.startswith(("postgresql:", "postgres:")):
        raise UsageError("A server for tests is named by a postgresql:// URL.")
    from windlass.store.postgres.scratch import create_database, drop_database

    url = create_database(server, template)
    try:
        yield url
    finally:
        drop_database(server, url)


def load(named: str | None, root: Path) -> Windlass | None:
    """The application at `module:name`, else the one that the project's settings name, if any."""
    named = named or Settings.load(directory=root).app
    if named is None:
        return None
    config = find_file(root)
    folder = str(root if config is None else config.parent)
    if folder not in sys.path:  # as the command line does
        sys.path.insert(0, folder)
    module, _, name = named.partition(":")
    imported, name = importlib.import_module(module), name or "app"
    found = getattr(imported, name, None)
    app = found if isinstance(found, Windlass) else made_by(found, imported, name)
    if app is None:
        raise UsageError(f"{named} is no Windlass: name the application under test as module:name.")
    return app


def refuse_real_store(app: Windlass) -> None:
    """Raise UsageError if the application is on a real store, and nobody means that one."""
    guard.check(app.store.place)
    if not guard.is_allowed(app.store.place):
        clock_of(app)


def clock_of(app: Windlass) -> VirtualClock:
    """The application's virtual clock. Raises UsageError where it has none."""
    clock = app.sources.clock
    if not isinstance(clock, VirtualClock):
        raise UsageError(
            "This application is on its own store and the real clock, which tests must leave "
            f"alone: {guard.way_to_test()}."
        )
    return clock


def _closing(app: Windlass) -> Procedure[None]:
    yield Work(coroutine=app.store.aclose)
