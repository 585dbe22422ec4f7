"""Names of the tests' own internet, and a small DNS server for them."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections import Counter
from typing import Final, cast

from tests.egress.site import OTHER, PUBLIC, PUBLIC_6

# What a name leads to, the first time it is asked for, the second, and from then on.
NAME_SERVER: Final = "198.41.0.4"
NAMES: Final[dict[str, list[list[str]]]] = {
    "public.example": [[PUBLIC]],
    "other.example": [[OTHER]],
    "six.example": [[PUBLIC_6]],
    "xn--bcher-kva.example": [[PUBLIC]],
    "localhost": [["127.0.0.1"]],
    "metadata.google.internal": [["169.254.169.254"]],
    "metadata.example": [["169.254.169.254"]],
    "private.example": [["127.0.0.1"]],
    "two.example": [[PUBLIC, "10.0.0.7"]],
    "families.example": [[PUBLIC, "::1"]],
    "rebinding.example": [[PUBLIC], ["127.0.0.1"]],
    "moved.example": [[PUBLIC], ["10.0.0.1"]],
    "zero.example": [["0.0.0.0"]],
    "nat64.example": [["64:ff9b::7f00:1"]],
    "many.example": [[f"93.184.217.{number}" for number in range(100)]],
    "inner.example": [["10.1.2.3"]],
}
ALIASES: Final = {"alias.example": "inner.example", "alias-of-localhost.example": "localhost"}

_A, _CNAME, _AAAA, _IN = 1, 5, 28, 1


class Answers:
    """What names lead to, one answer after the other."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()

    def of(self, name: str, asker: str = "") -> list[str]:
        """The answer to the next question for a name."""
        answers = NAMES.get(ALIASES.get(name, name), [[]])
        turn = self.asked[name, asker]
        self.asked[name, asker] += 1
        return answers[min(turn, len(answers) - 1)]

    async def resolve(self, host: str, port: int) -> list[str]:
        """As a resolver of the guard."""
        return self.of(host)


class NameServer(asyncio.DatagramProtocol):
    """Answers over UDP, never to be kept: every answer has a time to live of 0."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, end = _read_name(data)
        (kind,) = struct.unpack_from("!H", data, end)
        records = self._records(name, kind)
        flags = 0x8580 if records or name in NAMES or name in ALIASES else 0x8583
        head = data[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
        self._transport.sendto(head + data[12 : end + 4] + b"".join(records), addr)

    def _records(self, name: str, kind: int) -> list[bytes]:
        found: list[bytes] = []
        owner = name
        if name in ALIASES:
            owner = ALIASES[name]
            found.append(_record(name, _CNAME, _packed(owner)))
        if kind in (_A, _AAAA):
            wanted = 4 if kind == _A else 6
            for text in self._answers.of(name, asker=str(kind)):
                address = ipaddress.ip_address(text)
                if address.version == wanted:
                    found.append(_record(owner, kind, address.packed))
        return found


def _read_name(data: bytes) -> tuple[str, int]:
    labels = []
    at = 12
    while size := data[at]:
        labels.append(data[at + 1 : at + 1 + size].decode("ascii").lower())
        at += size + 1
    return ".".join(labels), at + 1


def _packed(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _record(name: str, kind: int, value: bytes) -> bytes:
    return _packed(name) + struct.pack("!HHIH", kind, _IN, 0, len(value)) + value
