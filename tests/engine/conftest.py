"""The application under test, on each store."""

import pytest

from tests.fixtures.apps import app, url
from windlass.engine import resending

__all__ = ["app", "url"]


@pytest.fixture
def brief_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is sent again after milliseconds: for tests of what happens then, not of when."""
    monkeypatch.setattr(resending, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(resending, "_LONGEST_PAUSE", 0.1)
