"""PgBouncer, where this machine has it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.faults.harness import eventually
from tests.fixtures.postgres import account, free_port, hand_over, make_folder

_CONFIG = """\
[databases]
* = host={host} port={there} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {here}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
logfile = {folder}/log
"""


def find_pgbouncer() -> str | None:
    """The program, if it is installed; Debian keeps it off the path of users."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class PgBouncer:
    """In front of a database, on a port of its own; a context manager."""

    def __init__(self, url: str, size: int = 3, *, mode: str = "transaction") -> None:
        self._parts = urlsplit(url)
        self._size = size
        self._mode = mode
        self._port = free_port()

    @property
    def url(self) -> str:
        """The same database, through it."""
        netloc = f"{self._parts.username}@127.0.0.1:{self._port}"
        return self._parts._replace(netloc=netloc).geturl()

    def __enter__(self) -> Self:
        program = find_pgbouncer()
        assert program is not None
        self._folder = make_folder()
        config = self._folder / "pgbouncer.ini"
        config.write_text(self._config())
        hand_over(config)
        self._process = subprocess.Popen(
            [program, str(config)],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **account(),
        )
        eventually(self._answers, what=f"PgBouncer answers; see {self._folder}/log")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder)

    def _config(self) -> str:
        parts = self._parts
        return _CONFIG.format(
            host=parts.hostname,
            there=parts.port or 5432,
            user=parts.username,
            password=parts.password,
            here=self._port,
            folder=Path(self._folder),
            mode=self._mode,
            size=self._size,
        )

    def _answers(self) -> bool:
        assert self._process.poll() is None, "PgBouncer has ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
