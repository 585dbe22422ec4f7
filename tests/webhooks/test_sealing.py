"""Secrets at rest: sealed, bound to their place, and opened through a change of keys."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from windlass.errors import BadOption, CannotUnseal
from windlass.sealing import Keyring, is_sealed, new_key
from windlass.sources import Sources

OLD, NEW = (new_key(Sources.manual(seed=seed)) for seed in (1, 2))
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ABOUT = "default/endpoint/7"


def test_sealed_text_opens_and_shows_nothing() -> None:
    keys = Keyring([OLD])
    sealed = keys.seal(SECRET, about=ABOUT)
    assert keys.open(sealed, about=ABOUT) == SECRET
    assert is_sealed(sealed)
    assert not is_sealed(SECRET)
    assert SECRET[6:] not in sealed
    assert keys.seal(SECRET, about=ABOUT) != sealed  # a fresh nonce each time


def test_format_is_the_documented_one() -> None:
    sealed = Keyring([OLD]).seal(SECRET, about=ABOUT)
    mark, version, name, data = sealed.split(".")
    raw = base64.urlsafe_b64decode(data)
    bound = f"{mark}.{version}.{name}\0{ABOUT}".encode()
    opened = AESGCM(base64.b64decode(OLD)).decrypt(raw[:12], raw[12:], bound)
    assert opened.decode() == SECRET


def test_whoever_changes_or_moves_a_sealed_text_cannot_open_it() -> None:
    keys = Keyring([OLD])
    sealed = keys.seal(SECRET, about=ABOUT)
    head, data = sealed.rsplit(".", 1)
    raw = bytearray(base64.urlsafe_b64decode(data))
    for place in (0, 12, len(raw) - 1):
        changed = raw.copy()
        changed[place] ^= 1
        text = f"{head}.{base64.urlsafe_b64encode(changed).decode()}"
        with pytest.raises(CannotUnseal, match="changed"):
            keys.open(text, about=ABOUT)
    with pytest.raises(CannotUnseal, match="belongs to something else"):
        keys.open(sealed, about="default/endpoint/8")


@pytest.mark.parametrize(
    "text", ["", SECRET, "sealed.v1.", "sealed.v1.00000000.AAAA", "sealed.v2.x.y"]
)
def test_what_was_never_sealed_is_not_opened(text: str) -> None:
    with pytest.raises(CannotUnseal, match="never sealed"):
        Keyring([OLD]).open(text, about=ABOUT)


def test_keys_are_replaced_without_a_gap() -> None:
    before = Keyring([OLD]).seal(SECRET, about=ABOUT)
    both = Keyring([NEW, OLD])
    assert both.open(before, about=ABOUT) == SECRET
    assert not both.current(before)
    after = both.seal(both.open(before, about=ABOUT), about=ABOUT)
    assert both.current(after)
    assert Keyring([NEW]).open(after, about=ABOUT) == SECRET
    with pytest.raises(CannotUnseal, match="add that key"):
        Keyring([NEW]).open(before, about=ABOUT)


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    sealed = Keyring([OLD]).seal(SECRET, about=ABOUT)
    file = tmp_path / "keys"
    file.write_text(f"{NEW}\n{OLD}\n")
    from_file = Keyring.load(f"file:{file}")
    from_variable = Keyring.load("env:KEYS", {"KEYS": f" {NEW}, {OLD}"})
    for keys in (from_file, from_variable):
        assert keys.open(sealed, about=ABOUT) == SECRET
        assert not keys.current(sealed)


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("env:KEYS", ""),
        ("env:KEYS", "short"),
        ("env:KEYS", OLD[:-4]),
        ("env:KEYS", f"{OLD} not-base64!"),
        ("env:OTHER", OLD),
        ("file:/does/not/exist", ""),
        (OLD, ""),
        ("env:", ""),
    ],
)
def test_bad_key_is_refused_and_never_shown(reference: str, value: str) -> None:
    with pytest.raises(BadOption) as caught:
        Keyring.load(reference, {"KEYS": value})
    assert OLD[:20] not in str(caught.value)
    assert OLD[:20] not in repr(caught.value)
