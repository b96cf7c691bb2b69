"""Secrets of an installation: certificates and the password of Redis, as manifests."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Final

from cryptography import x509

from kai.kube.resources import SECRETS
from kai.runtime.certificates import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, KeyPair
from kai_operator.kinds import Manifest
from kai_operator.rotation import ISSUED, NEXT_SINCE, REPLACED, Held

_NEXT_CERTIFICATE: Final = "next.crt"
_NEXT_KEY: Final = "next.key"
_PASSWORD_BYTES: Final = 24
#: Digits of Unix seconds; with one more they are of no calendar.
_LONGEST_TIME: Final = 11
_LABELS: Final = {"app.kubernetes.io/part-of": "kai-scheduler"}


def held_in(secret: Manifest | None) -> Held | None:
    """What a Secret holds; None if there is none, or none of it can be used."""
    if secret is None:
        return None
    data = decoded(secret)
    pair = _pair(data, CERTIFICATE_FILE, KEY_FILE)
    if pair is None:
        return None
    annotations = secret["metadata"].get("annotations") or {}
    return Held(
        trusted=_readable(data.get(AUTHORITY_FILE, b"")),
        pair=pair,
        issued=_seconds(annotations, ISSUED),
        following=_pair(data, _NEXT_CERTIFICATE, _NEXT_KEY),
        following_since=_seconds(annotations, NEXT_SINCE),
        replaced=_seconds(annotations, REPLACED),
    )


def certificate_secret(name: str, namespace: str, held: Held) -> Manifest:
    """The Secret that holds this."""
    data = {
        AUTHORITY_FILE: held.trusted,
        CERTIFICATE_FILE: held.pair.certificate,
        KEY_FILE: held.pair.key,
    }
    annotations = {ISSUED: str(held.issued)}
    if held.following is not None:
        data |= {_NEXT_CERTIFICATE: held.following.certificate, _NEXT_KEY: held.following.key}
        annotations[NEXT_SINCE] = str(held.following_since)
    if held.replaced:
        annotations[REPLACED] = str(held.replaced)
    return _secret(name, namespace, data, kind="kubernetes.io/tls", annotations=annotations)


def password_in(secret: Manifest | None) -> bytes:
    """The password that a Secret holds; empty if there is none."""
    return decoded(secret).get("password", b"") if secret is not None else b""


def new_password() -> bytes:
    """A password that nobody can guess."""
    return secrets.token_urlsafe(_PASSWORD_BYTES).encode()


def password_secret(name: str, namespace: str, password: bytes, *, url: str) -> Manifest:
    """The Secret with Redis's password, and where that is."""
    return _secret(name, namespace, {"password": password, "url": url.encode()})


def decoded(secret: Manifest) -> dict[str, bytes]:
    """The data of a Secret; what is not base64 is left out."""
    found = {}
    for key, text in (secret.get("data") or {}).items():
        try:
            found[key] = base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
    return found


def _secret(
    name: str,
    namespace: str,
    data: Mapping[str, bytes],
    *,
    kind: str = "Opaque",
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": dict(_LABELS)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": metadata,
        "type": kind,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _pair(data: Mapping[str, bytes], certificate: str, key: str) -> KeyPair | None:
    if certificate not in data or key not in data:
        return None
    return KeyPair(data[certificate], data[key])


def _readable(authorities: bytes) -> bytes:
    """The bundle, or nothing where somebody has put something else."""
    try:
        x509.load_pem_x509_certificates(authorities)
    except ValueError:
        return b""
    return authorities


def _seconds(annotations: Mapping[str, str], key: str) -> int:
    """A time that was written down; that of long ago if somebody has put something else there."""
    text = annotations.get(key, "")
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_TIME else 0
