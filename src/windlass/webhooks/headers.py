"""The headers of a signed webhook, read as strictly as they are written."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from windlass.errors import BadWebhookHeader

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
STANDARD: Final = "webhook-signature"
PLAIN: Final = "X-Windlass-Signature"

Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
"""Names in any case, as frameworks give them."""

_ID = re.compile(r"[A-Za-z0-9_:-]{1,255}")
_TIMESTAMP = re.compile(r"[1-9][0-9]{0,10}")
_MOST = 4096  # characters of signatures


def signed_text(id: str, timestamp: str, body: bytes) -> bytes:
    """What is signed."""
    return f"{id}.{timestamp}.".encode() + body


def check_id(id: str) -> str:
    """Check an id. Raises BadWebhookHeader."""
    if not _ID.fullmatch(id):
        raise BadWebhookHeader(ID, "is not 1 to 255 letters, digits, '_', '-' or ':'")
    return id


class Received:
    """The headers that came, each at most once."""

    def __init__(self, headers: Headers) -> None:
        self._found: dict[str, str] = {}
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        wanted = {name.lower(): name for name in (ID, TIMESTAMP, STANDARD, PLAIN)}
        for given, value in pairs:
            name = wanted.get(given.lower())
            if name in self._found:
                raise BadWebhookHeader(name, "is given twice")
            if name is not None:
                self._found[name] = value

    def id(self) -> str:
        """The id of the webhook."""
        return check_id(self._get(ID))

    def timestamp(self) -> str:
        """The time as it was signed."""
        text = self._get(TIMESTAMP)
        if not _TIMESTAMP.fullmatch(text):
            raise BadWebhookHeader(TIMESTAMP, "is not whole seconds since 1970")
        return text

    def signatures(self, name: str) -> list[str]:
        """The signatures in a header, one for each secret of the sender."""
        text = self._get(name)
        if len(text) > _MOST:
            raise BadWebhookHeader(name, f"has more than {_MOST:,} characters")
        return text.split(" ")

    def _get(self, name: str) -> str:
        value = self._found.get(name)
        if not value:
            raise BadWebhookHeader(name, "is missing")
        return value
