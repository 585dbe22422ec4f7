"""Keeps tests away from stores that are in use.

In a test session only stores that were made for tests are opened. The session is declared, and its
stores are listed, in a variable of the environment, so that programs which a test starts obey as
well. pytest imports this module in every project that has Windlass installed: it imports nothing of
Windlass until it refuses.

    WINDLASS_TEST_STORES     a line `only` declares the session: no stores but those listed
                             a place, as `Store.place` names it; if it ends with a slash, a folder
                             of SQLite files; `*` is every store

Django's test runner tells nobody when it starts. It is known by the settings that it keeps
meanwhile.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "WINDLASS_TEST_STORES"
_ONLY, _EVERY = "only", "*"
_SQLITE = "sqlite:///"


def in_tests() -> bool:
    """Whether this process belongs to a test session."""
    return _ONLY in _lines() or in_django_tests()


def begin(*, every_store: bool) -> str | None:
    """Declare a test session; returns what :func:`end` wants to be given."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = _EVERY if every_store else _ONLY
    return before


def end(before: str | None) -> None:
    """End a test session that :func:`begin` declared."""
    _write([] if before is None else before.split("\n"))


def allow(place: str) -> None:
    """Let tests open this store from now on."""
    lines = _lines()
    if _ONLY not in lines and in_django_tests():
        lines.append(_ONLY)  # so that programs which the test starts know it too
    _write([*lines, place])


def allow_folder(folder: Path) -> None:
    """Let tests open the SQLite files below a folder from now on."""
    allow(f"{_SQLITE}{folder.resolve()}/")


@contextmanager
def allowing(place: str) -> Iterator[None]:
    """Let tests open this store for a while."""
    allow(place)
    try:
        yield
    finally:
        left = _lines()
        left.remove(place)
        _write(left)


def is_allowed(place: str) -> bool:
    """Whether a store was made for tests, or somebody means that very store."""
    return any(
        one in (_EVERY, place) or (one.endswith("/") and place.startswith(one)) for one in _lines()
    )


def check(place: str) -> None:
    """Raise UsageError if this is a test session, and the store is not one for tests."""
    if not in_tests() or is_allowed(place):
        return
    from windlass.errors import UsageError

    raise UsageError(
        f"Tests run here, and {place} is not a test store: {way_to_test()}; if the test is meant "
        "to use this very store, write `with windlass.testing.real_store(app):`."
    )


def way_to_test(otherwise: str = "") -> str:
    """How a test puts the application on a store of its own, in words.

    `otherwise`: what to say where Django's test runner does not run the test.
    """
    if in_django_tests():
        return "call `self.enterContext(windlass_in_test())` in setUp"
    return otherwise or "use the fixture windlass_app or `with windlass.testing.isolated(app):`"


def _lines() -> list[str]:
    value = os.environ.get(VARIABLE)
    return value.split("\n") if value else []


def _write(lines: list[str]) -> None:
    if lines:
        os.environ[VARIABLE] = "\n".join(lines)
    else:
        os.environ.pop(VARIABLE, None)


def in_django_tests() -> bool:
    """Whether Django's test runner runs here."""
    utilities = sys.modules.get("django.test.utils")
    return hasattr(getattr(utilities, "_TestState", None), "saved_data")
