"""Signing secrets: made, checked, and used as a key."""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from windlass.errors import BadSecret
from windlass.sources import Sources

PREFIX: Final = "whsec_"
_LEAST, _MOST = 24, 64  # bytes, as Standard Webhooks has it
_MADE = 32

Secrets: TypeAlias = str | Sequence[str]
"""One secret, or several while they are replaced."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that was checked; it does not show itself."""

    text: str = field(repr=False)
    key: bytes = field(repr=False)

    def standard(self, signed: bytes) -> str:
        """The signature of Standard Webhooks."""
        return "v1," + b64encode(hmac.digest(self.key, signed, hashlib.sha256)).decode()

    def plain(self, signed: bytes) -> str:
        """The plain signature: the key is the secret's text."""
        digest = hmac.digest(self.text.encode(), signed, hashlib.sha256)
        return "sha256=" + digest.hex()


def new_secret(sources: Sources | None = None) -> str:
    """Make a secret: 256 random bits.

    >>> new_secret().startswith("whsec_")
    True
    """
    made = (sources or Sources.system()).random.randbytes(_MADE)
    return PREFIX + b64encode(made).decode()


def read_secrets(secrets: Secrets) -> list[Secret]:
    """Check secrets. Raises BadSecret, without showing them."""
    texts = [secrets] if isinstance(secrets, str) else list(secrets)
    if not texts:
        raise BadSecret("there is none: give at least one")
    return [_read(text) for text in texts]


def _read(text: str) -> Secret:
    if not text.startswith(PREFIX):
        raise BadSecret(f"it must begin with {PREFIX}; windlass.webhooks.new_secret() makes one")
    encoded = text.removeprefix(PREFIX)
    try:
        key = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadSecret(f"what follows {PREFIX} is not base64") from None
    if not _LEAST <= len(key) <= _MOST:
        raise BadSecret(f"it has {len(key)} bytes, and must have from {_LEAST} to {_MOST}")
    return Secret(text, key)
