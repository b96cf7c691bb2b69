"""What is answered where there is no answer."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Trouble(Enum):
    """A kind of problem: the word for programs, the HTTP status, and what it means."""

    BAD_PARAMETER = "badParameter", 400, "A parameter is not known or says something that cannot be."
    TOO_MANY_NAMESPACES = "tooManyNamespaces", 400, "The rows are of more namespaces than are looked at."
    UNAUTHENTICATED = "unauthenticated", 401, "There is no bearer token, or the API server does not know it."
    FORBIDDEN = "forbidden", 403, "The API server says that you may not see this."
    NOT_FOUND = "notFound", 404, "There is nothing at this path."
    METHOD_NOT_ALLOWED = "methodNotAllowed", 405, "This path is only read."
    INTERNAL = "internal", 500, "Something failed that should not; the log of insight says what."
    NO_STATE = "noState", 503, "Nothing is known of the cluster as it is now; the message says why."
    BUSY = "busy", 503, "Too many ask at once."
    STORE_AWAY = "storeAway", 503, "The store of the history does not answer."
    API_SERVER_AWAY = "apiServerAway", 503, "The API server does not say who you are or what you may see."
    TOO_SLOW = "tooSlow", 503, "The answer took too long."

    def __init__(self, code: str, status: int, meaning: str) -> None:
        self.code = code
        self.status = status
        self.meaning = meaning


#: What may be tried again tells when: seconds.
_AGAIN: Final = {"Retry-After": "1"}


class Problem(Exception):
    """Why there is no answer; the message says what to do, to whoever asked."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble

    @property
    def body(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode({"error": {"code": self.trouble.code, "message": str(self)}})

    @property
    def headers(self) -> dict[str, str]:
        """What its status asks for."""
        match self.trouble.status:
            case 401:
                return {"WWW-Authenticate": "Bearer"}
            case 405:
                return {"Allow": "GET"}
            case 503:
                return dict(_AGAIN)
            case _:
                return {}
