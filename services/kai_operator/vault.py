"""The Secrets of an installation: which ones there have to be, with which content now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kai.kube.errors import KubeError
from kai.kube.resources import SECRETS
from kai_operator import rotation
from kai_operator.cache import Cache
from kai_operator.kinds import Manifest, Ref
from kai_operator.ownership import Ownership, ownership, whose
from kai_operator.product import Needs
from kai_operator.rotation import Issued, Terms
from kai_operator.secret_data import (
    certificate_secret,
    decoded,
    held_in,
    new_password,
    password_in,
    password_secret,
)
from kai_operator.writer import Writer


@dataclass(slots=True)
class Contents:
    """What the Secrets are to hold, what to trust by purpose, and when to look again.

    Where a Secret cannot be read nothing is decided on it and those beside it: they are ``spared``, and it is
    ``unknown`` what their purpose trusts, or what the checksum of a password is.
    """

    due: datetime
    secrets: list[Manifest] = field(default_factory=list)
    trust: dict[str, str] = field(default_factory=dict)
    troubles: dict[Ref, str] = field(default_factory=dict)
    spared: set[Ref] = field(default_factory=set)
    unknown_trust: set[str] = field(default_factory=set)
    unknown_checksums: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether all Secrets could be read."""
        return not self.spared

    @property
    def checksums(self) -> dict[str, str]:
        """By name of the Secret what changes with its content, for Secrets that are read once."""
        return {
            secret["metadata"]["name"]: hashlib.sha256(decoded(secret)["password"]).hexdigest()
            for secret in self.secrets
            if "password" in secret["data"]
        }


class Vault:
    """Decides on Secrets for one process. What could not be written yet it offers again.

    Else each pass would have others, and what depends on them would be written again and again.
    """

    def __init__(self, cache: Cache, writer: Writer, *, settling: timedelta) -> None:
        self._cache = cache
        self._writer = writer
        self._settling = settling
        #: By Secret; of certificates and of passwords.
        self._issued: dict[str, Issued] = {}
        self._passwords: dict[str, bytes] = {}

    async def contents(self, needs: Needs, owner: dict[str, Any], *, now: datetime) -> Contents:
        """The Secrets as they should be now. Those of somebody else are left out, and told."""
        terms = Terms(
            lifetime=needs.lifetime,
            renew_before=needs.renew_before,
            authority_lifetime=needs.authority_lifetime,
            settling=self._settling,
        )
        contents, issued = Contents(due=now + needs.lifetime), dict[str, Issued]()
        for purpose, hosts in needs.certificates.items():
            found = await self._look(list(hosts), needs.namespace, owner, contents)
            if found is None:
                contents.unknown_trust.add(purpose)
                issued |= {name: self._issued[name] for name in hosts if name in self._issued}
                continue
            held = {name: held_in(secret) for name, secret in found.items()}
            ours = {name: host for name, host in hosts.items() if name in found}
            turn = rotation.turn(purpose, ours, held, terms=terms, now=now, unwritten=self._issued)
            self._take(turn, purpose, needs, contents)
            issued |= turn.issued
        self._issued = issued
        await self._take_passwords(needs, owner, contents)
        return contents

    def forget(self, written: Iterable[Manifest]) -> None:
        """These are in the cluster. Should they go, somebody wants others."""
        for manifest in written:
            if manifest["kind"] == SECRETS.kind:
                self._issued.pop(manifest["metadata"]["name"], None)
                self._passwords.pop(manifest["metadata"]["name"], None)

    def _take(self, turn: rotation.Turn, purpose: str, needs: Needs, contents: Contents) -> None:
        contents.due = min(contents.due, turn.due)
        contents.trust[purpose] = turn.trusted.decode()
        contents.secrets += [
            certificate_secret(name, needs.namespace, held) for name, held in turn.held.items()
        ]

    async def _take_passwords(self, needs: Needs, owner: dict[str, Any], contents: Contents) -> None:
        found = await self._look(list(needs.passwords), needs.namespace, owner, contents)
        if found is None:
            contents.unknown_checksums.update(needs.passwords)
            return
        unwritten, self._passwords = self._passwords, {}
        for name, secret in found.items():
            password = password_in(secret)
            if not password:
                password = self._passwords[name] = unwritten.get(name) or new_password()
            contents.secrets.append(
                password_secret(name, needs.namespace, password, url=needs.passwords[name])
            )

    async def _look(
        self, names: list[str], namespace: str, owner: dict[str, Any], contents: Contents
    ) -> dict[str, Manifest | None] | None:
        """The Secrets that are there, None where there is none; those of somebody else are missing.

        Nothing at all where one cannot be read.
        """
        found: dict[str, Manifest | None] = {}
        refs = [Ref(SECRETS.kind, namespace, name) for name in names]
        for ref in refs:
            try:
                live = self._cache.get(ref) or await self._writer.look(_named(ref))
            except KubeError as error:
                contents.troubles[ref] = (
                    f"{ref} cannot be read, so it stays as it is, and so does what depends on it: {error}"
                )
                contents.spared.update(refs)
                return None
            if live is not None and ownership(live, owner) is Ownership.FOREIGN:
                contents.troubles[ref] = (
                    f"{ref} belongs to {whose(live)}, and is left alone; remove or rename it"
                )
                continue
            found[ref.name] = live
        return found


def _named(ref: Ref) -> Manifest:
    return {
        "apiVersion": SECRETS.api_version,
        "kind": ref.kind,
        "metadata": {"name": ref.name, "namespace": ref.namespace},
    }
