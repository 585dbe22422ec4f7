"""What is sent, checked, and what came back."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from windlass.egress.url import Target, parse_url
from windlass.errors import BadOption, EgressDenied

Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]

METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\t\x20-\x7e]{0,8192}")
# The client's own: where a message ends, and who reads it, is not for callers to say.
_OURS = frozenset((
    "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive",
    "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
))  # fmt: skip
# All that another origin is given. Any other header may be a credential, whatever its name.
_HARMLESS = frozenset(("accept", "accept-language", "content-type", "user-agent"))
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request, without the place that it goes to."""

    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def lines(self, target: Target) -> list[tuple[bytes, bytes]]:
        """All headers for a target, as they are sent."""
        ours = [("Host", target.host_header), ("Accept-Encoding", "gzip")]
        if self.body or self.method in ("PATCH", "POST", "PUT"):
            ours.append(("Content-Length", str(len(self.body))))
        if not any(name.lower() == "user-agent" for name, _ in self.headers):
            ours.append(("User-Agent", "Windlass"))
        return [(name.encode(), value.encode()) for name, value in (*ours, *self.headers)]

    def redirected(self, status: int, here: Target, there: Target) -> "Message":
        """The message for the next hop: less of it, if that is another origin."""
        message = self
        if status == 303 or (status in (301, 302) and self.method == "POST"):
            kept = tuple(pair for pair in self.headers if pair[0].lower() != "content-type")
            method = "HEAD" if self.method == "HEAD" else "GET"
            message = replace(self, method=method, body=b"", headers=kept)
        if here.origin == there.origin:
            return message
        plain = tuple(pair for pair in message.headers if pair[0].lower() in _HARMLESS)
        return replace(message, headers=plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. Names of headers are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str
    """Where it came from, after redirects."""
    truncated: bool = False
    """Whether `body` is only the beginning; see `Limits.truncate`."""

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        wanted = name.lower()
        return next((value for found, value in self.headers if found == wanted), None)


def make_message(method: str, headers: Headers, body: bytes) -> Message:
    """Check what is to be sent. Raises BadOption."""
    if method not in METHODS:
        raise BadOption("method", f"it must be one of {', '.join(sorted(METHODS))}")
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    for name, value in pairs:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            # The value is not shown: it may be a credential.
            raise BadOption("headers", f"{name[:100]!r} is not a header that HTTP can carry")
        if name.lower() in _OURS:
            raise BadOption("headers", f"{name} is set by Windlass: leave it out")
    return Message(method=method, headers=pairs, body=bytes(body))


def next_target(here: Target, location: str) -> Target:
    """Where a redirect leads. Raises EgressDenied."""
    place = location.partition("#")[0]  # a fragment is not sent, and harmless in a redirect
    if _SCHEME.match(place):
        there = parse_url(place)
    elif place.startswith("//"):
        there = parse_url(f"{here.scheme}:{place}")
    else:
        base = here.url.removesuffix(here.path)
        path = here.path.partition("?")[0]
        if place.startswith("?"):
            place = path + place
        elif not place.startswith("/"):
            place = path.rpartition("/")[0] + "/" + place
        there = parse_url(base + place)
    if here.scheme == "https" and there.scheme == "http":
        raise EgressDenied("redirect", "it redirects from https to http")
    return there
