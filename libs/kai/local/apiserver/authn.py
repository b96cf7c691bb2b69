"""Who asks: client certificates and bearer tokens."""

import secrets
from typing import Final

from aiohttp import web

from kai.local.apiserver.errors import unauthorized
from kai.local.apiserver.requests import User

ADMIN: Final = User("kubernetes-admin", ("system:masters", "system:authenticated"))
ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """The identity of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


class Authenticator:
    """Knows the tokens that it gave out, and reads the certificates that the authority signed."""

    def __init__(self, admin_token: str | None = None) -> None:
        self.admin_token = admin_token or secrets.token_urlsafe(32)
        self._tokens: dict[str, User] = {self.admin_token: ADMIN}

    def issue(self, user: User) -> str:
        """A new token for this user."""
        token = f"kai-local.{secrets.token_urlsafe(24)}"
        self._tokens[token] = user
        return token

    def user_of_token(self, token: str) -> User | None:
        """Whose token it is, or None."""
        return self._tokens.get(token)

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
