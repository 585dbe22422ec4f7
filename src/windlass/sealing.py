"""Secrets at rest: sealed with a key that is not kept beside them.

A sealed text is `sealed.v1.<key>.<data>`: the first 8 hexadecimal digits of the key's digest, and
nonce, ciphertext and tag of AES-256-GCM in base64. It is bound to what it is about, so that a row
copied over another one does not open. The only importer of cryptography.

Keys are given by reference, `env:NAME` or `file:/path`, and are base64 of 32 bytes, with spaces,
line breaks or commas between several. The first seals; all of them open. To replace a key, put the
new one first, restart, seal again what is not `current`, then drop the old one. If a process dies
in between, everything opens with one key or the other.
"""

import binascii
import hashlib
import os
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from windlass.errors import BadOption, CannotUnseal, UsageError
from windlass.sources import Sources

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEY: Final = 32
_NONCE: Final = 12
_MARK: Final = "sealed.v1."
_SEALED = re.compile(r"sealed\.v1\.([0-9a-f]{8})\.([A-Za-z0-9_-]+={0,2})")
_SEPARATORS = re.compile(r"[\s,]+")


class _Key:
    """One key, and the name by which sealed texts know it."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.name = hashlib.sha256(b"windlass key name\0" + raw).hexdigest()[:8]

    @cached_property
    def cipher(self) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._raw)


class Keyring:
    """Keys that seal and open.

    >>> keys = Keyring([new_key()])
    >>> keys.open(keys.seal("whsec_…", about="endpoint 7"), about="endpoint 7")
    'whsec_…'
    """

    def __init__(self, keys: Sequence[str], source: str = "argument") -> None:
        if find_spec("cryptography") is None:
            raise UsageError("Sealing secrets needs a library: pip install 'windlass[seal]'.")
        if not keys:
            raise BadOption("keys", "there is none: windlass.sealing.new_key() makes one", source)
        self._keys = [_read_key(text, source) for text in keys]

    @classmethod
    def load(cls, reference: str, environ: Mapping[str, str] | None = None) -> Self:
        """The keys that a reference leads to. Raises BadOption, which never shows them."""
        kind, _, place = reference.partition(":")
        if kind == "env" and place:
            text = (os.environ if environ is None else environ).get(place, "")
            source = f"environment variable {place}"
        elif kind == "file" and place:
            text, source = _read_file(Path(place)), f"file {place}"
        else:
            # Not shown: somebody may have put the key itself here.
            raise BadOption("keys", "a reference is env:NAME or file:/path")
        return cls([part for part in _SEPARATORS.split(text) if part], source)

    def seal(self, text: str, *, about: str, sources: Sources | None = None) -> str:
        """Seal a text with the first key. It opens only for the same `about`."""
        key = self._keys[0]
        nonce = (sources or Sources.system()).random.randbytes(_NONCE)
        data = nonce + key.cipher.encrypt(nonce, text.encode(), _bound(key, about))
        return f"{_MARK}{key.name}.{urlsafe_b64encode(data).decode()}"

    def open(self, sealed: str, *, about: str) -> str:
        """Open a sealed text. Raises CannotUnseal."""
        from cryptography.exceptions import InvalidTag

        name, data = _parse(sealed)
        key = next((key for key in self._keys if key.name == name), None)
        if key is None:
            raise CannotUnseal(f"no key here is the one that sealed it, {name}; add that key")
        try:
            opened = key.cipher.decrypt(data[:_NONCE], data[_NONCE:], _bound(key, about))
        except InvalidTag:
            raise CannotUnseal("it was changed, or belongs to something else") from None
        return opened.decode()

    def current(self, sealed: str) -> bool:
        """Whether a text is sealed with the first key. Raises CannotUnseal."""
        return _parse(sealed)[0] == self._keys[0].name


def new_key(sources: Sources | None = None) -> str:
    """Make a key: 256 random bits, in base64."""
    return b64encode((sources or Sources.system()).random.randbytes(_KEY)).decode()


def is_sealed(text: str) -> bool:
    """Whether a text is sealed, and not a secret in the clear."""
    return text.startswith(_MARK)


def _parse(sealed: str) -> tuple[str, bytes]:
    found = _SEALED.fullmatch(sealed)
    try:
        data = urlsafe_b64decode(found[2]) if found else b""
    except binascii.Error:
        data = b""
    if found is None or len(data) <= _NONCE:
        raise CannotUnseal("it is damaged, or was never sealed")
    return found[1], data


def _bound(key: _Key, about: str) -> bytes:
    return f"{_MARK}{key.name}\0{about}".encode()


def _read_key(text: str, source: str) -> _Key:
    try:
        raw = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _KEY:
        raise BadOption("keys", f"a key is base64 of {_KEY} bytes", source)
    return _Key(raw)


def _read_file(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        why = type(error).__name__
        raise BadOption("keys", f"it cannot be read: {why}", f"file {path}") from None
