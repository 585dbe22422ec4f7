"""URLs, read strictly: one meaning, or none.

Parsers disagree about odd URLs, and what a checker and a client understand differently is a hole.
So this parser accepts the plain form alone and guesses nothing: what a lenient one would strip,
decode, fold or complete is refused. Everything after it works with the `Target`, never with the
text again.
"""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias

from windlass.errors import EgressDenied

Address: TypeAlias = IPv4Address | IPv6Address

MAX_LENGTH: Final = 2048
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]+))?")
_PLAIN = re.compile(r"([^:\[\]]+)(?::([0-9]+))?")
_QUAD = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
# A last label like this makes resolvers read the whole name as an IPv4 address, in one of many
# notations: 127.1, 0x7f000001, 017700000001.
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*")
_ENCODED_CONTROL = re.compile(r"%(?:[01][0-9A-Fa-f]|7[Ff])")
# IDNA reads all three as full stops.
_FOREIGN_DOTS = frozenset("\u3002\uff0e\uff61")
_ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a URL leads. `host` is in ASCII and lower case; IPv6 addresses have no brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """The path with its query, as it is sent."""
    address: Address | None = None
    """Given if the host is an address and not a name."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """Two targets of one origin may share credentials, and a connection."""
        return self.scheme, self.host, self.port

    @property
    def host_header(self) -> str:
        """The value of the header Host."""
        shown = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return shown if self.port == DEFAULT_PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def url(self) -> str:
        """The target as a URL."""
        return f"{self.scheme}://{self.host_header}{self.path}"


def parse_url(url: str) -> Target:
    """Read an http or https URL. Raises EgressDenied.

    >>> parse_url("https://Example.com:8443/hooks?a=1").host_header
    'example.com:8443'
    """
    if not 1 <= len(url) <= MAX_LENGTH:
        raise _refused("url", f"a URL has from 1 to {MAX_LENGTH:,} characters")
    if any(char <= " " or char in "\\\x7f" for char in url):
        raise _refused("url", "it holds a space, a backslash or a control character")
    found = _URL.fullmatch(url)
    if found is None:
        raise _refused("url", "it must begin with http:// or https://, and a host")
    scheme, authority, path = found.groups()
    scheme = scheme.lower()
    if scheme not in DEFAULT_PORTS:
        raise _refused("scheme", "only http and https are called")
    host, address, port = _authority(authority)
    _check_path(path)
    return Target(
        scheme=scheme,
        host=host,
        port=DEFAULT_PORTS[scheme] if port is None else port,
        path=path or "/",
        address=address,
    )


def _authority(text: str) -> tuple[str, Address | None, int | None]:
    if "@" in text:
        raise _refused("userinfo", "it holds a user or password: send credentials in a header")
    if "?" in text or "#" in text:
        raise _refused("url", "its path must begin with a slash")
    if text.startswith("["):
        found = _BRACKETED.fullmatch(text)
        if found is None:
            raise _refused("host", "its IPv6 address is malformed")
        address: Address = _ipv6(found[1])
        return str(address), address, _port(found[2])
    found = _PLAIN.fullmatch(text)
    if found is None:
        raise _refused("host", "its host or port is malformed")
    host, literal = _host(found[1])
    return host, literal, _port(found[2])


def _ipv6(text: str) -> IPv6Address:
    try:
        return IPv6Address(text)
    except ValueError:
        raise _refused("host", "its IPv6 address is malformed") from None


def _host(text: str) -> tuple[str, IPv4Address | None]:
    name = (text if text.isascii() else _idna(text)).translate(_ASCII_LOWER)
    labels = name.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        if not _QUAD.fullmatch(name):
            raise _refused("host", "its IPv4 address is not four plain decimal numbers")
        try:
            return name, IPv4Address(name)
        except ValueError:
            raise _refused("host", "its IPv4 address is malformed") from None
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused("host", "its host is not a valid name")
    return name, None


def _idna(text: str) -> str:
    """A name in the letters of its language, as DNS has it. Nothing is folded into ASCII."""
    if _FOREIGN_DOTS.intersection(text):
        raise _refused("host", "its host is not a valid name")
    if find_spec("idna") is None:
        raise _refused("host", "its name needs the form xn--…, or pip install 'windlass[http]'")
    import idna

    try:
        # Without the mappings of UTS 46, which turn ⓛ into l, and digits of all kinds into digits.
        return idna.encode(text).decode("ascii")
    except idna.IDNAError:
        raise _refused("host", "its host is not a valid name; write it in lower case") from None


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if len(text) > 5 or text.startswith("0") or int(text) > 65535:
        raise _refused("port", "its port is not a number from 1 to 65535")
    return int(text)


def _check_path(path: str) -> None:
    if "#" in path:
        raise _refused("url", "it has a fragment, which is never sent: leave it out")
    if not _PATH.fullmatch(path):
        raise _refused("url", "its path or query has characters that must be percent-encoded")
    if _ENCODED_CONTROL.search(path):
        raise _refused("url", "its path or query has encoded control characters")


def _refused(reason: str, why: str) -> EgressDenied:
    return EgressDenied(reason, why)
