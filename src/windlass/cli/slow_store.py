"""Says that a store does not answer, before the patience with it is over."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from windlass.cli.failures import sentence
from windlass.errors import StoreUnavailable

if TYPE_CHECKING:
    from windlass.app import Windlass

SLOW = 0.8
"""Seconds after which it is said."""


def knock(app: "Windlass") -> None:
    """Ask a database for an answer, for a command that waits for it patiently. If it cannot be
    reached, say so, and go on."""
    if _is_file(app):
        return
    try:
        with said_if_slow(app):
            app.store.schema_version()
    except StoreUnavailable as error:
        click.echo(f"windlass: {sentence(error)} Still trying; Ctrl-C ends it.", err=True)


@contextmanager
def said_if_slow(app: "Windlass") -> Iterator[None]:
    """Say on standard error that the store does not answer, if this takes long."""
    if _is_file(app):
        yield
        return
    text = f"windlass: Waiting for an answer from {app.store.place}; Ctrl-C ends it."
    timer = threading.Timer(SLOW, click.echo, [text], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a thread could take a Ctrl-C at a question


def _is_file(app: "Windlass") -> bool:
    return getattr(app.store, "path", None) is not None
