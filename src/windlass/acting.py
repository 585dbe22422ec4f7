"""Who acts: the name that the audit log has for what is done here."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from windlass.current import current_run
from windlass.domain.audit import LONGEST_ACTOR
from windlass.domain.job import check_text

_actor: ContextVar[str | None] = ContextVar("windlass_actor", default=None)


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Let what is done in the block, in this task or thread, be done by them. Raises BadOption."""
    token = _actor.set(check_text("name", name, LONGEST_ACTOR))
    try:
        yield
    finally:
        _actor.reset(token)


def actor() -> str:
    """Who acts here: who was named, the run whose handler this is, or the user of the system."""
    named = _actor.get()
    if named is not None:
        return named
    run = current_run()
    return system_user() if run is None else f"run {run.id}"


def asker() -> str | None:
    """Who was named here, if anybody was: a run remembers who asked for it."""
    return _actor.get()


def system_user() -> str:
    """The user of the operating system; its number, if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
