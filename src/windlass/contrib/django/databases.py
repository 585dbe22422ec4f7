"""The store in one of the project's DATABASES: `WINDLASS_DATABASE = "default"`.

PostgreSQL alone. Django opens SQLite files through Python's own copy of SQLite, Windlass through
another. Two copies in one process drop each other's locks on a file, and the file is damaged. So
the runs of a project on SQLite are in a file of their own; a file that Django opens too is refused.

The name of a database changes in Django's tests, after the application was made, and changes again
in each of their processes. So an application on an alias looks at each use where the alias leads.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connections
from django.db.utils import ConnectionDoesNotExist

from windlass import guard
from windlass.app import Windlass
from windlass.client import Ground
from windlass.client.group import GroupCommit
from windlass.config import Settings
from windlass.errors import UsageError
from windlass.sources import Sources
from windlass.store.interface import Store
from windlass.transport.interface import Transport

# Of OPTIONS, those that Django and psycopg keep for themselves. libpq knows the others.
_NOT_LIBPQ = frozenset(
    [
        "assume_role",
        "client_encoding",
        "context",
        "cursor_factory",
        "isolation_level",
        "pool",
        "prepare_threshold",
        "row_factory",
        "server_side_binding",
    ]
)


def url_of_database(alias: str) -> str:
    """Where an alias leads, as Windlass names it. Raises UsageError."""
    try:
        vendor = connections[alias].vendor
    except ConnectionDoesNotExist:
        known = ", ".join(connections.settings)
        raise UsageError(
            f"WINDLASS_DATABASE: DATABASES has no {alias!r} (it has: {known})."
        ) from None
    if vendor == "sqlite":
        raise UsageError(
            f"WINDLASS_DATABASE: {alias!r} is a SQLite file, which Windlass and Django must not "
            "share in one process, or it is damaged. Give Windlass a file of its own: "
            "WINDLASS_URL = f\"sqlite:///{BASE_DIR / 'windlass.db'}\"."
        )
    if vendor != "postgresql":
        raise UsageError(f"WINDLASS_DATABASE: {alias!r} is {vendor}; Windlass needs PostgreSQL.")
    return _url(connections.settings[alias])


def _url(database: Mapping[str, Any]) -> str:
    options = {**(database.get("OPTIONS") or {})}
    if role := options.get("assume_role"):
        options["options"] = f"{options.get('options', '')} -c role={role}".strip()
    given = {
        "host": database.get("HOST"),
        "port": database.get("PORT"),
        "dbname": database.get("NAME"),
        **{name: value for name, value in options.items() if name not in _NOT_LIBPQ},
    }
    user, password = (quote(str(database.get(name) or ""), "") for name in ("USER", "PASSWORD"))
    owner = f"{user}:{password}@" if password else f"{user}@" if user else ""
    pairs = [f"{name}={quote(str(value), '')}" for name, value in given.items() if value]
    return f"postgresql://{owner}/?{'&'.join(pairs)}"


def refuse_shared_file(app: Windlass) -> None:
    """Raise UsageError if the store is a SQLite file that Django opens too."""
    path: Path | None = getattr(app.store, "path", None)
    if path is None:
        return
    for alias, database in connections.settings.items():
        name = database.get("NAME")
        sqlite = "sqlite" in database["ENGINE"] or "spatialite" in database["ENGINE"]
        if sqlite and name and Path(name).resolve() == path.resolve():
            raise UsageError(
                f"{path} is the file of DATABASES[{alias!r}]. Windlass and Django must not share a "
                "SQLite file in one process, or it is damaged: give Windlass a file of its own."
            )


class AliasWindlass(Windlass):
    """An application whose store is where an alias leads."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        super().__init__(url_of_database(alias))

    def _make_ground(
        self, settings: Settings, sources: Sources, transport: Transport, store: Store | None
    ) -> Ground:
        """What it stands on, which follows the alias."""
        return AliasGround(self.alias, settings, sources, transport)


class AliasGround(Ground):
    """Follows an alias from one database to another, unless it was moved elsewhere."""

    def __init__(
        self, alias: str, settings: Settings, sources: Sources, transport: Transport
    ) -> None:
        self._database = connections.settings[alias]
        self._alias = alias
        self._name = self._in_use = self._database["NAME"]
        self._moved = False
        super().__init__(settings, sources, transport)

    def move(self, settings: Settings, sources: Sources, transport: Transport) -> None:
        """Go to the store that the settings name, and stay there."""
        self._moved = True
        super().move(settings, sources, transport)

    @contextmanager
    def moved(
        self,
        settings: Settings,
        sources: Sources,
        transport: Transport,
        store: Store | None = None,
    ) -> Iterator[None]:
        """Go there, and come back to where the alias leads by then."""
        self._follow()
        kept, self._moved = self._moved, True
        try:
            with super().moved(settings, sources, transport, store):
                yield
        finally:
            self._moved = kept

    def _follow(self) -> None:
        name = self._database["NAME"]
        if self._moved or name == self._name:
            return
        self._name = name
        self._store.close()
        there = replace(self._settings, url=url_of_database(self._alias))
        self._stand(there, self.sources, self.transport)
        if name != self._in_use:  # Django has put a test database in the place of the alias's own
            guard.allow(self._store.place)

    @property
    def settings(self) -> Settings:
        """The settings, with the URL of the alias."""
        self._follow()
        return self._settings

    @settings.setter
    def settings(self, value: Settings) -> None:
        self._settings = value

    @property
    def store(self) -> Store:
        """The store in the alias's database."""
        self._follow()
        return self._store

    @store.setter
    def store(self, value: Store) -> None:
        self._store = value

    @property
    def group(self) -> GroupCommit:
        """The group commits of that store."""
        self._follow()
        return self._group

    @group.setter
    def group(self, value: GroupCommit) -> None:
        self._group = value
