"""Who asks: client certificates and bearer tokens."""

import base64
import hashlib
import hmac
from typing import Final

import msgspec
from aiohttp import web

from kai_local.apiserver.calls.requests import User
from kai_local.apiserver.errors import unauthorized

ADMIN: Final = User("kubernetes-admin", ("system:masters", "system:authenticated"))
ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))
_PREFIX: Final = "kai-local."


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """The identity of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


class Authenticator:
    """Signs tokens that say whose they are, and reads the certificates that the authority signed."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.admin_token = self.issue(ADMIN)

    def issue(self, user: User) -> str:
        """The token of this user."""
        claims = base64.urlsafe_b64encode(msgspec.json.encode(user)).decode().rstrip("=")
        return f"{_PREFIX}{claims}.{self._signature(claims)}"

    def user_of_token(self, token: str) -> User | None:
        """Whose token it is, or None."""
        claims, _, signature = token.removeprefix(_PREFIX).partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(claims).encode()):
            return None
        return msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=User)

    def _signature(self, claims: str) -> str:
        return hmac.new(self._key, claims.encode(), hashlib.sha256).hexdigest()

    def user_of(self, http: web.BaseRequest) -> User:
        """The user behind a request, anonymous without credentials.

        Raises ApiFailure (401) for wrong ones.
        """
        header = http.headers.get("Authorization")
        if header:
            scheme, _, token = header.partition(" ")
            user = self.user_of_token(token.strip()) if scheme.lower() == "bearer" else None
            if user is None:
                raise unauthorized()
            return user
        transport = http.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        return _user_of_certificate(certificate["subject"]) if certificate else ANONYMOUS


def _user_of_certificate(subject: tuple[tuple[tuple[str, str], ...], ...]) -> User:
    parts = [pair for group in subject for pair in group]
    name = next((value for key, value in parts if key == "commonName"), "")
    groups = [value for key, value in parts if key == "organizationName"]
    return User(name, (*groups, "system:authenticated"))
