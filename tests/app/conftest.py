"""The application under test, on each store."""

from tests.fixtures.apps import app, url

__all__ = ["app", "url"]
