"""Certificates of an authority of the tests' own, good and bad."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.egress.site import PUBLIC, PUBLIC_6

NOW = datetime.now(UTC)  # noqa: TID251 - certificates are judged by the real clock
YEAR = timedelta(days=365)
GOOD = ["public.example", "other.example", "xn--bcher-kva.example"]


def make_certificates(folder: Path) -> None:
    """Write `ca.pem`, and a file with certificate and key for each site."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Authority of the tests")
    authority = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - YEAR, NOW + YEAR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(authority.public_bytes(Encoding.PEM))
    _write(folder, "good", key, name, [*GOOD, PUBLIC_6], NOW + YEAR)
    _write(folder, "expired", key, name, GOOD, NOW - timedelta(days=1))
    _write(folder, "wrong-name", key, name, ["somebody-else.example"], NOW + YEAR)
    _write(folder, "name-with-nul", key, name, ["public.example\0.evil.example"], NOW + YEAR)
    _write(folder, "no-address", key, name, [PUBLIC], NOW + YEAR, as_names=True)
    _write(folder, "self-signed", None, _name("public.example"), GOOD, NOW + YEAR)


def _write(
    folder: Path,
    file: str,
    authority: ec.EllipticCurvePrivateKey | None,
    issuer: x509.Name,
    names: list[str],
    until: datetime,
    as_names: bool = False,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority or key
    builder = x509.CertificateBuilder(
        issuer, _name("public.example"), key.public_key(), x509.random_serial_number()
    )
    signed = (
        builder.not_valid_before(NOW - YEAR)
        .not_valid_after(until)
        .add_extension(
            x509.SubjectAlternativeName([_san(name, as_names) for name in names]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / f"{file}.pem").write_bytes(signed.public_bytes(Encoding.PEM) + private)


def _san(name: str, as_name: bool) -> x509.GeneralName:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return x509.DNSName(name)
    return x509.DNSName(name) if as_name else x509.IPAddress(address)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
