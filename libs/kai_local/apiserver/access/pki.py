"""Certificates of a cluster: one authority, the server, the administrator."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


def _name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    start = datetime.now(UTC) - timedelta(minutes=5)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


class Authority:
    """Signs certificates."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        key = serialization.load_pem_private_key(pair.key, password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey), "the kind that we make"
        self._key = key
        self._subject = x509.load_pem_x509_certificate(pair.certificate).subject
        self._identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())

    @property
    def certificate(self) -> bytes:
        """What others need to trust it."""
        return self.pair.certificate

    @classmethod
    def new(cls, name: str = "kai-local-ca") -> Self:
        """One with a key of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(_pem(certificate, key))

    def server(self, names: Iterable[str]) -> Pair:
        """A server certificate for these host names and addresses."""
        names = list(dict.fromkeys(names))
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        return self._issue(_name(names[0]), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: Iterable[str] = ()) -> Pair:
        """A client certificate: the user is the common name, the groups are organizations."""
        return self._issue(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(self._identifier, critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return _pem(builder.sign(self._key, hashes.SHA256()), key)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
