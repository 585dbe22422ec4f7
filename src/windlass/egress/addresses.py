"""From a host to the addresses that may be connected to.

A name is resolved once for each connection, and every answer must pass: one private address among
public ones refuses the whole answer, in either family. What comes back is what is connected to, so
that a second, different answer of a hostile name server is never asked for.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, ip_address
from typing import Final, TypeAlias

from windlass.egress.policy import EgressPolicy, not_public
from windlass.egress.url import Address, Target
from windlass.errors import EgressDenied
from windlass.offloop import off_loop

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a name, as text; none, or an OSError, if there are none."""

_log = logging.getLogger(__name__)
_PORT_OF_NOTHING: Final = 9
_MOST: Final = 64
"""More addresses than this are no answer of a well-meaning name server."""


class NoAnswer(Exception):
    """Why a call came to nothing: for the log, not for the caller."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver, for both families. It blocks, so it has a thread of its own."""

    def ask() -> list[str]:
        # As bytes: text would be encoded by an older IDNA.
        found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(place[0]) for *_, place in found))

    return await off_loop(ask, "windlass-resolver")


class Addresses:
    """The addresses of hosts, each checked."""

    def __init__(self, policy: EgressPolicy, resolver: Resolver = resolve_by_system) -> None:
        self._policy = policy
        self._resolver = resolver

    async def of(self, target: Target) -> list[Address]:
        """The addresses to connect to. Raises EgressDenied, or NoAnswer if there are none."""
        found = [target.address] if target.address is not None else await self._resolve(target)
        for address in found:
            try:
                self._check(address)
            except EgressDenied:
                # The caller is not told which address it was: that would map a private network.
                _log.warning(
                    "A call to a refused address was denied",
                    extra={"host": target.host, "port": target.port, "address": str(address)},
                )
                raise
        return found

    async def _resolve(self, target: Target) -> list[Address]:
        try:
            texts = await self._resolver(target.host, target.port)
            found = [ip_address(text) for text in texts]
        except (OSError, ValueError) as error:
            raise NoAnswer(f"its name has no address: {error}") from error
        if not 1 <= len(found) <= _MOST:
            raise NoAnswer(f"its name has {len(found)} addresses")
        return found

    def _check(self, address: Address) -> None:
        self._policy.check_address(address)
        free = self._policy.development or self._policy.allows(address)
        if not free and _is_own(address):
            raise not_public()


def _is_own(address: Address) -> bool:
    """Whether an address is this machine's: its services may trust whoever comes from there.

    To connect a datagram socket sends nothing: the kernel chooses a route and the address to speak
    from, which is that of the other side only if that is here.
    """
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((str(address), _PORT_OF_NOTHING))
            return ip_address(sock.getsockname()[0]) == address
    except OSError:  # no route, or no such family here: then it is somewhere else
        return False
