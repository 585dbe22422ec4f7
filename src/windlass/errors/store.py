"""The database's trouble."""

import sys

from windlass.errors.base import WindlassError


class StoreError(WindlassError):
    """The database refused or failed."""

    code = "store"


class StoreUnavailable(StoreError):
    """The database cannot be reached or is too busy."""

    code = "store_unavailable"
    retryable = True


class StoreBusy(StoreUnavailable):
    """Another transaction holds a lock for longer than the call may wait; nothing was done."""

    code = "store_busy"


class StoreFull(StoreError):
    """The disk or the quota of the database is full."""

    code = "store_full"


class StoreRefused(StoreError):
    """The database refused what it was given: trying again cannot help."""

    code = "store_refused"


class PlaceUnavailable(StoreError):
    """The folder or bucket of artifacts cannot be used now."""

    code = "place_unavailable"

    def __init__(self, place: str, why: str) -> None:
        super().__init__(place, why)
        self.place = place
        self.why = why

    def __str__(self) -> str:
        return f"Artifacts in {self.place} cannot be used: {self.why}."


class ArtifactDamaged(StoreError):
    """The bytes of an artifact are missing, or not those that were put."""

    code = "artifact_damaged"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name = name
        self.why = why

    def __str__(self) -> str:
        return f"Artifact {self.name!r} cannot be read: {self.why}; restore it from a backup."


class SchemaMismatch(StoreError):
    """The store's schema is not the one that this version needs; `found` is None if there is none.

    `what` is "schema" or "functions"; `missing` is what is gone although the version is right.
    `callers`: it was found on a connection of the caller's, which may lead to another database.
    """

    code = "schema_mismatch"

    def __init__(
        self,
        found: int | None,
        expected: int,
        what: str = "schema",
        missing: str | None = None,
        callers: bool = False,
    ) -> None:
        super().__init__(found, expected, what, missing, callers)
        self.found, self.expected = found, expected
        self.what, self.missing = what, missing
        self.callers = callers

    def __str__(self) -> str:
        migrate = f"run `{_migrate_command()}`"
        if self.missing is not None:
            if self.what == "functions":
                told = "Functions in the store are missing, or not those of this Windlass"
                return f"{told} ({self.missing}): {migrate}."
            look = "`windlass doctor` names all that is missing"
            return f"A part of the store's schema is gone ({self.missing}): {look}."
        needs = f"this Windlass works with version {self.expected}"
        if self.found is None and self.callers:
            there = f"connect to the database of the store, or {migrate} for this one"
            return f"The database of this connection has no Windlass {self.what}: {there}."
        if self.found is None:
            return f"The store has no Windlass {self.what} and {needs}: {migrate}."
        remedy = migrate if self.found < self.expected else "upgrade Windlass"
        have = "have" if self.what == "functions" else "has"
        return f"The store's {self.what} {have} version {self.found} and {needs}: {remedy}."


def _migrate_command() -> str:
    """The command that migrates the store here.

    In a Django project the settings name the store, and `windlass migrate` alone knows nothing of
    them: it would make a SQLite file. Errors import nothing, so the project is known by its app.
    """
    in_project = "windlass.contrib.django.apps" in sys.modules
    return "python manage.py windlass_migrate" if in_project else "windlass migrate"
