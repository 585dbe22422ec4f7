"""Stores for embedded workers, and the files that the page on embedding shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures.apps import app, url

__all__ = ["app", "page", "url"]

PAGE = Path(__file__).parents[2] / "docs/embedding.md"
FILE = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def page() -> dict[str, str]:
    """The files of the page, by name."""
    return dict(FILE.findall(PAGE.read_text("utf-8")))
