"""Stores for embedded workers, and the files that the pages on embedding and Django show."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.apps import app, url
from tests.fixtures.pages import Examples, blocks, examples
from tests.fixtures.postgres import make_database, remove_database, with_database

__all__ = ["app", "examples", "page", "url"]

PAGES = ("docs/embedding.md", "docs/django.md")


@pytest.fixture
def page(examples: Examples) -> dict[str, str]:
    """The files of the pages, by name; those that the test says it runs show that they have run."""
    texts = {block.name: block.text for page in PAGES for block in blocks(page)}
    return {**texts, **examples}


@pytest.fixture
def pg_empty(pg_database: str, pg_desk: psycopg.Connection) -> Iterator[str]:
    """The URL of a database without a schema of ours, dropped after the test."""
    name = f"wl_test_{secrets.token_hex(6)}"
    make_database(pg_desk, name)
    yield with_database(pg_database, name)
    remove_database(pg_desk, name)
