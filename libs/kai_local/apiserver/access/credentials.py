"""By what a cluster and its clients know each other again after a restart."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from kai_local.apiserver.access import files
from kai_local.apiserver.access.authn import ADMIN
from kai_local.apiserver.access.pki import Authority, Pair


@dataclass(frozen=True, slots=True)
class Credentials:
    """The authority, the administrator's certificate, and the key that signs tokens."""

    authority: Pair
    admin: Pair
    token_key: bytes

    @classmethod
    def new(cls) -> Self:
        """Those of a new cluster."""
        authority = Authority.new()
        return cls(authority.pair, authority.client(ADMIN.name, [ADMIN.groups[0]]), secrets.token_bytes(32))

    @classmethod
    def of(cls, path: Path) -> Self:
        """Those in a file, which is made if there is none.

        Raises:
            OSError: it cannot be read or written.
            ValueError: it is damaged.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            made = cls.new()
            files.write_private(path, msgspec.json.encode(made))
            return made
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path} is damaged ({error}); remove its folder to begin anew") from error
