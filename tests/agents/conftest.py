"""Applications on virtual clocks, on each store."""

from tests.testing.conftest import app

__all__ = ["app"]
