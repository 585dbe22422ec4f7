"""The schema in Django's test databases.

Django makes a test database, migrates it, and drops it at the end. Windlass' schema is made when
Django has migrated. In a database that is in use, `manage.py migrate` does not touch it: there a
new schema is the operator's decision (`manage.py windlass_migrate`).
"""

from collections.abc import Callable

from django.db import connections

from windlass.app import Windlass
from windlass.store.interface import Store
from windlass.testing.faces import Procedure, Work, perform_anywhere


class TestDatabases:
    """What is done to the test databases of one alias."""

    __test__ = False  # pytest takes the name for a test's

    def __init__(self, alias: str, app: Callable[[], Windlass]) -> None:
        self._alias = alias
        self._app = app
        self._in_use: object = connections.settings[alias]["NAME"]

    @property
    def _testing(self) -> bool:
        """Django gives a test database another name, after the project is set up."""
        return bool(connections.settings[self._alias]["NAME"] != self._in_use)

    def prepare(self, using: str) -> None:
        """Bring the schema of a test database up to date; called for each installed app."""
        if using != self._alias or not self._testing:
            return
        store = self._app().store
        found, needed = store.schema_version()
        if found != needed or store.outdated():
            store.migrate()

    def let_go(self) -> None:
        """Close our connections to a test database: Django is about to create, copy or drop one,
        for which it has just connected to no database at all, and nobody may be inside."""
        if self._testing:
            store = self._app().store
            perform_anywhere(store, _closing(store))


def _closing(store: Store) -> Procedure[None]:
    yield Work(coroutine=store.aclose)
