"""What may be called, and how much of an answer is read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address, ip_network
from typing import Final

from windlass.duration import Duration, parse_duration
from windlass.egress.deny import METADATA, Network, embedded, why_denied
from windlass.egress.url import Address, Target
from windlass.errors import BadOption, EgressDenied

# Never called, whatever the policy says: mail servers relay what looks like a request.
_MAIL = 25
# Above 1023 any port may have a web server. These have services that trust whoever reaches them.
SERVICE_PORTS: Final = frozenset((
    1080, 1433, 1521, 1883, 2049, 2181, 2375, 2376, 2377, 2379, 2380, 3128, 3260, 3306,
    3389, 4369, 4444, 5060, 5061, 5432, 5672, 5900, 5984, 5985, 5986, 6000, 6379, 6443,
    6667, 7000, 7001, 7199, 7946, 8086, 8500, 8600, 9042, 9092, 9160, 9200, 9300, 10250,
    10255, 11211, 15672, 16379, 25672, 26379, 27017, 27018, 27019, 28015, 50000, 50070, 61616,
))  # fmt: skip
_WEB_PORTS = frozenset((80, 443))
# Endings that only a private resolver answers for.
_PRIVATE_NAMES = (".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9.:-]+")


@dataclass(frozen=True, kw_only=True)  # not slotted: what is worked out once is kept on it
class EgressPolicy:
    """What may be called. Without arguments: hosts of the public internet, at ports of web servers.

    >>> EgressPolicy(allow_networks=["10.20.0.0/16"], only_hosts=["*.example.com"])
    EgressPolicy(only_hosts=('*.example.com',), allow_networks=('10.20.0.0/16',))
    """

    only_hosts: Iterable[str] = ()
    """If given, nothing else is called: exact names, or `*.example.com` for all below it."""
    allow_networks: Iterable[str] = ()
    """Networks that may be called although they are not public. A metadata service must be named
    by its very address."""
    deny_networks: Iterable[str] = ()
    """Networks that are not called although they are public."""
    ports: Iterable[int] | None = None
    """The ports that may be called. None: 80, 443, and from 1024 those without a known service."""
    development: bool = False
    """Loopback and private addresses, names and ports may be called, and errors say why."""

    def __post_init__(self) -> None:
        found = {
            "only_hosts": _hosts("only_hosts", self.only_hosts),
            "allow_networks": _networks("allow_networks", self.allow_networks),
            "deny_networks": _networks("deny_networks", self.deny_networks),
            "ports": _ports("ports", self.ports),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        names = ("only_hosts", "allow_networks", "deny_networks", "ports", "development")
        said = [f"{name}={value!r}" for name in names if (value := getattr(self, name))]
        return f"EgressPolicy({', '.join(said)})"

    def check_target(self, target: Target) -> None:
        """Check what a URL says by itself. Raises EgressDenied."""
        self._check_port(target.port)
        named = any(_fits(target.host, pattern) for pattern in self.only_hosts)
        if self.only_hosts and not named:
            raise EgressDenied("host", "its host is not in only_hosts")
        if target.address is not None:
            self.check_address(target.address)
        elif not named and not self.development and _is_private(target.host):
            raise EgressDenied(
                "host", "its host has a private name: add it to only_hosts if you trust it"
            )

    def check_address(self, address: Address) -> None:
        """Check an address before anything is sent to it. Raises EgressDenied."""
        if any(address in network for network in self._denied):
            raise EgressDenied("address", "its host is in deny_networks")
        if not self.allows(address):
            if why_denied(address) is not None and not self._open_for_development(address):
                raise not_public()
            return
        for inner in embedded(address):  # allowing a gateway allows nobody behind it
            self.check_address(inner)

    def allows(self, address: Address) -> bool:
        """Whether an address is allowed by its network, be it public or not."""
        exact = address in METADATA
        return any(
            address in network and not (exact and network.num_addresses > 1)
            for network in self._allowed
        )

    def _open_for_development(self, address: Address) -> bool:
        hidden = (address, *embedded(address))
        return self.development and not any(one in METADATA for one in hidden)

    def _check_port(self, port: int) -> None:
        if self.ports is not None:
            good = port in self.ports
        elif self.development:
            good = True
        else:
            good = port in _WEB_PORTS or (port >= 1024 and port not in SERVICE_PORTS)
        if not good or port == _MAIL:
            raise EgressDenied("port", "its port is not one of web servers")

    @cached_property
    def _allowed(self) -> tuple[Network, ...]:
        return tuple(ip_network(text) for text in self.allow_networks)

    @cached_property
    def _denied(self) -> tuple[Network, ...]:
        return tuple(ip_network(text) for text in self.deny_networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a call takes, and how much of its answer is read."""

    timeout: Duration = "15s"
    """For the whole call: names, connections, redirects, the last byte of the answer."""
    connect: Duration = "5s"
    """For one address of the host to answer the connection."""
    head: int = 32 * 1024
    """The most bytes of status line and headers, those of interim answers among them."""
    headers: int = 100
    """The most headers."""
    body: int = 1024 * 1024
    """The most bytes of the body, after it is decompressed."""
    ratio: int = 100
    """By how much a body of more than 64 KiB may grow as it is decompressed."""
    truncate: bool = False
    """Keep what fits of a body that is too large or too slow, instead of raising."""

    def __post_init__(self) -> None:
        for name in ("timeout", "connect"):
            seconds = parse_duration(getattr(self, name))
            if seconds <= 0:
                raise BadOption(name, "it must be longer than nothing")
            object.__setattr__(self, name, seconds)
        for name, least, most in (
            ("head", 256, 64 * 1024),
            ("headers", 1, 1000),
            ("body", 0, 1024**3),
            ("ratio", 1, 10_000),
        ):
            if not least <= getattr(self, name) <= most:
                raise BadOption(name, f"it must be from {least:,} to {most:,}")

    @property
    def seconds(self) -> float:
        """The time of the whole call."""
        return parse_duration(self.timeout)

    @property
    def connect_seconds(self) -> float:
        """The time of one connection."""
        return parse_duration(self.connect)


def not_public() -> EgressDenied:
    """The one answer for all addresses that are refused: which one it is, is for the log."""
    return EgressDenied(
        "address",
        "its host is not on the public internet: add its network to allow_networks if you trust it",
    )


def _is_private(host: str) -> bool:
    # A name without a dot is completed by the resolver, within the own network.
    return "." not in host or f".{host}".endswith(_PRIVATE_NAMES)


def _fits(host: str, pattern: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _hosts(name: str, value: Iterable[str]) -> tuple[str, ...]:
    patterns = tuple(text.lower().strip("[]") for text in _listed(name, value))
    for pattern in patterns:
        if not _HOST.fullmatch(pattern):
            why = f"{pattern!r} is not a host name such as example.com or *.example.com"
            raise BadOption(name, why)
    return tuple(_canonical(pattern) for pattern in patterns)


def _canonical(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def _networks(name: str, value: Iterable[str]) -> tuple[str, ...]:
    try:
        return tuple(str(ip_network(text)) for text in _listed(name, value))
    except ValueError as error:
        raise BadOption(name, f"{error}; write a network such as 10.20.0.0/16") from None


def _ports(name: str, value: Iterable[int] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    ports = tuple(value)
    if not ports or any(not 1 <= port <= 65535 or port == _MAIL for port in ports):
        raise BadOption(name, "it needs ports from 1 to 65535; mail servers (25) are never called")
    return ports


def _listed(name: str, value: Iterable[str]) -> tuple[str, ...]:
    # Text is a sequence of one-letter names.
    if isinstance(value, str):
        raise BadOption(name, f"it must be a list: [{value!r}]")
    return tuple(value)
