"""The internet of the tests: every address there is, in a namespace of its own.

Every address is local here, and every port of the lists below is listened to: whatever a worker
calls, it arrives, and is written down. Started by `machine.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from pathlib import Path

from tests.egress.names import NAME_SERVER, Answers, NameServer
from tests.egress.site import OTHER, PUBLIC, PUBLIC_6, Reader, Writer, serve, tls_context

SITES = (PUBLIC, PUBLIC_6, OTHER)
PLAIN = (80, 8080)
TLS = {
    443: "good", 8443: "good", 9443: "expired", 9444: "wrong-name", 9445: "name-with-nul",
    9446: "no-address", 9447: "self-signed",
}  # fmt: skip
CANARIES = (22, 25, 2375, 5432, 6379, 8000, 11211)


class Canaries:
    """Who was reached that must not be."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def note(self, reader: Reader, writer: Writer) -> None:
        """Write a connection down, and end it."""
        host, port = writer.get_extra_info("sockname")[:2]
        self.reached.append(f"{host.removeprefix('::ffff:')}:{port}")
        writer.close()

    async def site(self, reader: Reader, writer: Writer) -> None:
        """Serve what comes to the public sites; anybody else is a canary."""
        if writer.get_extra_info("sockname")[0].removeprefix("::ffff:") in SITES:
            await serve(reader, writer)
        else:
            await self.note(reader, writer)

    async def listen(self, ports: tuple[int, ...]) -> None:
        """Listen at all addresses of this machine."""
        for port in ports:
            await asyncio.start_server(self.note, ("0.0.0.0", "::"), port)

    def taken(self) -> list[str]:
        """Those since it was last asked."""
        taken, self.reached = self.reached, []
        return taken


async def settled() -> None:
    """Let the loop accept whoever has connected."""
    for _ in range(5):
        await asyncio.sleep(0)


async def main(folder: Path) -> None:
    """Listen until standard input ends."""
    canaries, answers = Canaries(), Answers()
    everywhere = ("0.0.0.0", "::")
    for port in PLAIN:
        await asyncio.start_server(canaries.site, everywhere, port)
    for port, name in TLS.items():
        context = tls_context(folder, name)
        await asyncio.start_server(canaries.site, everywhere, port, ssl=context)
    await canaries.listen(CANARIES)
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(partial(NameServer, answers), local_addr=(NAME_SERVER, 53))

    async def tell(reader: Reader, writer: Writer) -> None:
        await settled()
        asked = sum(answers.asked.values())
        writer.write(json.dumps({"reached": canaries.taken(), "asked": asked}).encode() + b"\n")
        await writer.drain()
        writer.close()

    await asyncio.start_unix_server(tell, folder / "internet")
    print("ready", flush=True)  # noqa: T201 - to machine.py
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
