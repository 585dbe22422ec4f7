"""Is there room left for the data? It can be seen where the server runs on this machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from windlass.domain.checkup import Finding, Limits, fine, note
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import Asking
from windlass.store.postgres.target import Target
from windlass.store.room import judge_room

_HERE = ("localhost", "127.0.0.1", "::1")


def checks(ask: Asking, target: Target) -> Iterator[Check]:
    """The disk of the server."""
    yield Check(
        name="disk", look=lambda limits: _check_disk(ask, target, limits), needs=Needs.STORE
    )


def _check_disk(ask: Asking, target: Target, limits: Limits) -> Iterator[Finding]:
    folder, size = ask.row("data_folder")
    host = str(conninfo_to_dict(target.conninfo).get("host") or "")
    here = host in _HERE or host.startswith("/") or not host
    if here and folder and Path(folder).exists():
        yield judge_room(shutil.disk_usage(folder).free, f"the server's folder {folder}", limits)
    else:
        text = f"The database has {size / 1024**2:,.0f} MiB; its disk cannot be seen from here."
        yield note(text) if not here else fine(text)
