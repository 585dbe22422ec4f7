"""A machine of its own: namespaces for network and mounts, with a worker's calls in them.

It has loopback with canaries, an address of its own, and one wire, to another namespace where
`internet.py` is. Nothing leaves these two. Started under `unshare` by `worlds.py`; takes calls as
lines of JSON on standard input.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tests.egress.calling import Call, make_call, trusting
from tests.egress.internet import CANARIES, PLAIN, TLS, Canaries, settled
from tests.egress.names import NAME_SERVER

OWN = "93.184.216.200"
_SOME = ("fd00:ec2::254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fec0::1")


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


def build(folder: Path) -> subprocess.Popen[str]:
    """Put the two namespaces up; gives the process of the other one."""
    _run("ip", "link", "set", "lo", "up")
    program = (sys.executable, "-m", "tests.egress.internet", str(folder))
    # It moves into its own namespace before it is a Python: the wire's other end needs its id.
    other = subprocess.Popen(
        ("unshare", "--net", "sh", "-c", 'read go && exec "$@"', "sh", *program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    _wait_for_namespace(other.pid)
    there = ("nsenter", "--net", "--target", str(other.pid), "ip")
    _run(
        "ip", "link", "add", "wire", "type", "veth", "peer", "name", "end", "netns", str(other.pid)
    )
    _run("ip", "address", "add", f"{OWN}/32", "dev", "wire")
    _run("ip", "address", "add", "2606:2800:220:1::2/128", "dev", "wire", "nodad")
    _run("ip", "link", "set", "wire", "up")
    _run(*there, "link", "set", "lo", "up")
    _run(*there, "link", "set", "end", "up")
    _run(*there, "route", "add", f"{OWN}/32", "dev", "end")
    _run(*there, "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "main")
    _run(*there, "address", "add", f"{NAME_SERVER}/32", "dev", "lo")
    for address in ("2606:2800:220:1::1", *_SOME):
        _run(*there, "address", "add", f"{address}/128", "dev", "end", "nodad")
    _run(*there, "route", "add", "2606:2800:220:1::2/128", "dev", "end")
    _run("ip", "route", "add", "default", "dev", "wire")
    _run("ip", "-6", "route", "add", "default", "dev", "wire")
    for name, text in (
        ("resolv.conf", f"nameserver {NAME_SERVER}\noptions timeout:2 attempts:1\n"),
        ("hosts", "127.0.0.1 localhost\n::1 ip6-localhost\n"),
        ("nsswitch.conf", "hosts: files dns\n"),
    ):
        (folder / name).write_text(text)
        _run("mount", "--bind", str(folder / name), f"/etc/{name}")
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write("go\n")
    other.stdin.flush()
    assert other.stdout.readline() == "ready\n"
    return other


def _wait_for_namespace(pid: int) -> None:
    mine = Path("/proc/self/ns/net").readlink()
    for _ in range(500):
        if Path(f"/proc/{pid}/ns/net").readlink() != mine:
            return
        subprocess.run(("sleep", "0.01"), check=True)
    raise RuntimeError("the other namespace did not come up")


async def main(folder: Path) -> None:
    """Make calls until standard input ends."""
    canaries = Canaries()
    await canaries.listen((*CANARIES, *PLAIN, *TLS))
    loop = asyncio.get_running_loop()
    tls = trusting(folder)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        told = await make_call(Call(**json.loads(line)), tls)
        await settled()
        reader, writer = await asyncio.open_unix_connection(folder / "internet")
        outside = json.loads(await reader.readline())
        writer.close()
        told["reached"] = [*canaries.taken(), *outside["reached"]]
        told["asked"] = outside["asked"]
        print(json.dumps(told), flush=True)  # noqa: T201 - to worlds.py


if __name__ == "__main__":
    place = Path(sys.argv[1])
    internet = build(place)
    try:
        asyncio.run(main(place))
    finally:
        internet.kill()
        internet.wait()
