"""Where calls are made: in namespaces with an internet of their own, or beside injected parts.

`injected` runs everywhere: a resolver that knows the names, and a connector that leads the public
sites to loopback and writes down every other address. `namespaces` needs Linux and root: there the
system's own resolver and connector are used.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import httpcore2

from tests.egress.calling import Call, make_call, trusting
from tests.egress.internet import PLAIN, SITES, TLS
from tests.egress.names import Answers
from tests.egress.site import serve, tls_context
from tests.fixtures.pages import ROOT

_TOOLS = ("unshare", "nsenter", "ip", "mount")
_TRIAL = "ip link add wire type veth peer name end && mount --bind /etc/hosts /etc/resolv.conf"
_UNSHARE = ("unshare", "--net", "--mount", "--kill-child")


class World(Protocol):
    """Somewhere to call from."""

    own: str
    """An address of the machine itself."""
    questions: int
    """How many questions it takes to resolve a name."""
    hostile_environment: dict[str, str]
    """Variables that would lead calls elsewhere, if anybody heeded them."""

    async def call(self, call: Call) -> dict[str, Any]:
        """Make a call; also tells who was `reached` that must not be, and the questions `asked`."""
        ...


class Connector(httpcore2.AsyncNetworkBackend):
    """Leads the public sites to listeners on loopback, and writes all other addresses down."""

    def __init__(self, places: dict[int, int]) -> None:
        self._places = places
        self._real = httpcore2.AnyIOBackend()
        self.reached: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if host not in SITES:
            self.reached.append(f"{host}:{port}")
        if host not in SITES or port not in self._places:
            raise httpcore2.ConnectError("Connection refused")
        return await self._real.connect_tcp("127.0.0.1", self._places[port], timeout)


class Injected:
    """Calls in this process, with a resolver and a connector of the tests."""

    own = "127.0.0.1"
    questions = 1

    def __init__(self, folder: Path, places: dict[int, int]) -> None:
        self.hostile_environment = hostile_environment(folder)
        self._tls = trusting(folder)
        self._places = places
        self._answers = Answers()

    async def call(self, call: Call) -> dict[str, Any]:
        connector = Connector(self._places)
        told = await make_call(call, self._tls, resolver=self._answers.resolve, connector=connector)
        return {**told, "reached": connector.reached, "asked": sum(self._answers.asked.values())}


class Namespaces:
    """Calls in a process that has a machine and an internet of its own."""

    own = "93.184.216.200"
    questions = 2  # one for each family

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self.hostile_environment = hostile_environment(folder)
        self._process = process

    async def call(self, call: Call) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        fields = {name: getattr(call, name) for name in Call.__slots__}
        process.stdin.write(json.dumps(fields).encode() + b"\n")
        await process.stdin.drain()
        told: dict[str, Any] = json.loads(await process.stdout.readline())
        return told


def hostile_environment(folder: Path) -> dict[str, str]:
    """Proxies at a port where nobody is, and a password for the site."""
    netrc = folder / "netrc"
    netrc.write_text("machine public.example login a password b\n")
    proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    return {**proxies, "NETRC": str(netrc)}


@cache
def kinds() -> tuple[str, ...]:
    """The worlds that this machine allows."""
    if not all(shutil.which(tool) for tool in _TOOLS):
        return ("injected",)
    tried = subprocess.run((*_UNSHARE, "sh", "-c", _TRIAL), capture_output=True, check=False)
    return ("injected", "namespaces") if tried.returncode == 0 else ("injected",)


@asynccontextmanager
async def injected(folder: Path) -> AsyncIterator[Injected]:
    """The sites on loopback, and calls that are led there."""
    places = {}
    servers = []
    for port in (*PLAIN, *TLS):
        context = tls_context(folder, TLS[port]) if port in TLS else None
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        servers.append(server)
        places[port] = server.sockets[0].getsockname()[1]
    try:
        yield Injected(folder, places)
    finally:
        for server in servers:
            server.close()


@asynccontextmanager
async def namespaces(folder: Path) -> AsyncIterator[Namespaces]:
    """A machine, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *_UNSHARE, sys.executable, "-m", "tests.egress.machine", str(folder),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
        env={**os.environ, **hostile_environment(folder)},
    )  # fmt: skip
    try:
        yield Namespaces(folder, process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
