"""Certificates of our own: an authority, what it signs, and their renewal without a gap.

Serving certificates live a year and are renewed when a third of that is left; authorities live ten. A new
authority is trusted beside the old one, which goes on to vouch for what it signed: by the time that this is
renewed everybody knows both.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CERTIFICATE_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
AUTHORITY_FILE: Final = "ca.crt"
AUTHORITY_KEY_FILE: Final = "ca.key"

_SERVING_LIFETIME: Final = timedelta(days=365)
_AUTHORITY_LIFETIME: Final = timedelta(days=3650)
#: Certificates count from a little earlier, for clocks that are behind ours.
_CLOCK_SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Served:
    """What a server presents, and the authorities by which its clients check it, as PEM."""

    pair: KeyPair
    trusted: bytes


def new_authority(name: str, *, now: datetime, lifetime: timedelta = _AUTHORITY_LIFETIME) -> KeyPair:
    """A self-signed authority that can sign certificates of servers and clients, but no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    certificate = (
        _unsigned(subject, subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pem(certificate, key)


class CertificateUsage(Enum):
    """What a certificate is good for."""

    SERVER = ExtendedKeyUsageOID.SERVER_AUTH
    CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH


def issue(
    authority: KeyPair,
    host_names: Sequence[str],
    *,
    now: datetime,
    lifetime: timedelta = _SERVING_LIFETIME,
    usage: CertificateUsage = CertificateUsage.SERVER,
    usages: Sequence[CertificateUsage] = (),
) -> KeyPair:
    """A certificate for these DNS names and IP addresses, good for one usage, or for several ``usages``."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host_names[0][:64])])
    certificate = (
        _unsigned(subject, issuer.subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([one.value for one in usages or (usage,)]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(n) for n in host_names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return _pem(certificate, key)


def needs_renewal(certificate: bytes, *, now: datetime) -> bool:
    """Whether less than a third of the certificate's life is left."""
    begin, end = validity(certificate)
    return now > end - (end - begin) / 3


def validity(certificate: bytes) -> tuple[datetime, datetime]:
    """From when until when the certificate is good."""
    parsed = x509.load_pem_x509_certificate(certificate)
    return parsed.not_valid_before_utc, parsed.not_valid_after_utc


def fits(pair: KeyPair) -> bool:
    """Whether the key is that of the certificate.

    Raises:
        ValueError: one of the two cannot be read.
        TypeError: the key wants a pass phrase.
    """
    key = serialization.load_pem_private_key(pair.key, password=None)
    return key.public_key() == x509.load_pem_x509_certificate(pair.certificate).public_key()


def covers(certificate: bytes, host_names: Iterable[str]) -> bool:
    """Whether the certificate is good for all of these names."""
    parsed = x509.load_pem_x509_certificate(certificate)
    alternatives = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {_general_name(name) for name in host_names} <= set(alternatives)


def bundle(authorities: Iterable[bytes], *, now: datetime) -> bytes:
    """The authorities that have not expired, each once, in the order given."""
    lasting: dict[bytes, None] = {}
    for pem in authorities:
        for certificate in x509.load_pem_x509_certificates(pem) if pem.strip() else ():
            if now < certificate.not_valid_after_utc:
                lasting[certificate.public_bytes(serialization.Encoding.PEM)] = None
    return b"".join(lasting)


def split(authorities: bytes) -> list[bytes]:
    """The certificates of a bundle one by one."""
    return [
        certificate.public_bytes(serialization.Encoding.PEM)
        for certificate in (x509.load_pem_x509_certificates(authorities) if authorities.strip() else ())
    ]


def ensure(directory: Path, host_names: Sequence[str], *, now: datetime | None = None) -> Served:
    """The directory's serving certificate, made or renewed if need be.

    Calling it again changes nothing until renewal is due or a name is missing. Files are replaced one by
    one, each at once; a reader that finds a key which does not fit its certificate should look again.
    """
    now = now or datetime.now(UTC)
    directory.mkdir(parents=True, exist_ok=True)
    authority, trusted = _ensure_authority(directory, host_names[0], now)
    pair = _read_pair(directory, CERTIFICATE_FILE, KEY_FILE)
    renew = (
        pair is None
        or needs_renewal(pair.certificate, now=now)
        or not covers(pair.certificate, host_names)
        or not signed_by_one_of(pair.certificate, trusted)
    )
    if pair is None or renew:
        pair = issue(authority, host_names, now=now)
        _write(directory / KEY_FILE, pair.key, secret=True)
        _write(directory / CERTIFICATE_FILE, pair.certificate)
    return Served(pair, trusted)


def _ensure_authority(directory: Path, name: str, now: datetime) -> tuple[KeyPair, bytes]:
    """The authority that signs, and the bundle of those to trust, of which it is the first."""
    known = _read_pair(directory, AUTHORITY_FILE, AUTHORITY_KEY_FILE)
    if known is not None and not needs_renewal(known.certificate, now=now):
        return known, bundle([known.certificate], now=now)
    authority = new_authority(f"{name} authority", now=now)
    trusted = bundle([authority.certificate, known.certificate if known else b""], now=now)
    _write(directory / AUTHORITY_KEY_FILE, authority.key, secret=True)
    _write(directory / AUTHORITY_FILE, trusted)
    return authority, trusted


def signed_by_one_of(certificate: bytes, trusted: bytes) -> bool:
    """Whether one of the authorities in a bundle has signed the certificate."""
    if not trusted.strip():
        return False
    signed = x509.load_pem_x509_certificate(certificate)
    for authority in x509.load_pem_x509_certificates(trusted):
        try:
            signed.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            continue
        return True
    return False


def _read_pair(directory: Path, certificate: str, key: str) -> KeyPair | None:
    try:
        return KeyPair((directory / certificate).read_bytes(), (directory / key).read_bytes())
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes, *, secret: bool = False) -> None:
    """Replaces the file as a whole; a secret one is at no time readable by others."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600 if secret else 0o644)
    fresh.write_bytes(content)
    fresh.replace(path)


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
