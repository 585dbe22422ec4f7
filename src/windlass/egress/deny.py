"""The addresses that nobody outside has, written down one by one.

`ipaddress.is_global` is not the rule: it calls multicast, IPv4-compatible and NAT64 addresses and
the metadata service of one cloud global, and its answers change between versions of Python. Of
IPv6, only 2000::/3 is in use on the internet at all: the table has the exceptions in it, the rest
is refused whole.
"""

from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from windlass.egress.url import Address

Network: TypeAlias = IPv4Network | IPv6Network

DENIED: Final[dict[str, str]] = {
    "0.0.0.0/8": "unspecified: this host",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by carriers (CGNAT)",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignments",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "AS112",
    "192.52.193.0/24": "AMT relays",
    "192.88.99.0/24": "6to4 relays",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "AS112",
    "198.18.0.0/15": "benchmarks",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved, and broadcast",
    "::/128": "unspecified: this host",
    "::1/128": "loopback",
    "::/96": "IPv4-compatible",
    "::ffff:0:0/96": "IPv4-mapped",
    "::ffff:0:0:0/96": "IPv4-translated",
    "64:ff9b::/96": "NAT64",
    "64:ff9b:1::/48": "NAT64 of the local network",
    "100::/64": "discarded",
    "100:0:0:1::/64": "dummy prefix",
    "2001::/32": "Teredo",
    "2001::/23": "protocol assignments",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "2620:4f:8000::/48": "AS112",
    "3ffe::/16": "6bone, given back",
    "3fff::/20": "documentation",
    "5f00::/16": "segment routing",
    "fc00::/7": "unique local",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}

# Services that give a machine's credentials to whoever asks from it. Some are at addresses that
# are public by their number.
METADATA: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # most clouds
        "169.254.169.253",
        "169.254.170.2",  # credentials of containers
        "169.254.170.23",
        "169.254.42.42",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
        "fd20:ce::254",
    )
)

_IN_USE = IPv6Network("2000::/3")
_ISATAP = frozenset((0x00005EFE, 0x02005EFE))
# The low 32 bits of these are an IPv4 address, to which a gateway may lead.
_EMBEDDING = tuple(
    IPv6Network(text)
    for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)
_SIX_TO_FOUR = IPv6Network("2002::/16")


def why_denied(address: Address) -> str | None:
    """What kind of address this is, if it is not one of the public internet.

    >>> why_denied(ip_address("100.64.0.1"))
    'shared by carriers (CGNAT)'
    >>> why_denied(ip_address("8.8.8.8")) is None
    True
    """
    if address in METADATA:
        return "a metadata service"
    for network, kind in _table():
        if address in network:
            return kind
    if isinstance(address, IPv6Address):
        if address not in _IN_USE or address.scope_id is not None:
            return "not a global unicast address"
        if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
            return "ISATAP"
    return None


def embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 address within an IPv6 address, to which it may lead in the end."""
    if isinstance(address, IPv4Address):
        return
    if any(address in network for network in _EMBEDDING):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    elif address in _SIX_TO_FOUR:
        yield IPv4Address(int(address) >> 80 & 0xFFFFFFFF)


@cache
def _table() -> tuple[tuple[Network, str], ...]:
    # The narrow before the wide: Teredo lies within the protocol assignments.
    made = [(ip_network(text), kind) for text, kind in DENIED.items()]
    return tuple(sorted(made, key=lambda row: -row[0].prefixlen))
