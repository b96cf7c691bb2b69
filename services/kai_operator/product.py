"""What the operator asks of who knows of what an installation consists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from kai_operator.kinds import Manifest

#: Specifications are opaque here: only the product looks into them.
ConfigSpec = Any
ShardSpec = Any


class Unusable(Exception):
    """A Config or a shard cannot be used; ``problems`` name its fields, what is wrong, and what to write."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A Prometheus of the user's own, and how to see whether it answers. Seconds."""

    url: str
    interval: float = 30.0
    timeout: float = 10.0
    retries: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What an installation needs that is no manifest yet.

    ``certificates``: purpose -> Secret -> the name in its certificate. ``passwords``: Secret -> the URL that
    stands beside the password in it. ``filled_by_others``: Secrets that are used, and left as they are.
    """

    namespace: str
    certificates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lifetime: timedelta = timedelta(days=365)
    renew_before: timedelta = timedelta(days=122)
    authority_lifetime: timedelta = timedelta(days=3650)
    passwords: Mapping[str, str] = field(default_factory=dict)
    filled_by_others: frozenset[str] = frozenset()
    prometheus: Endpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found in the cluster that manifests depend on.

    ``trust``: purpose -> PEM of the authorities; ``checksums``: Secret -> changes when its content does.
    ``claims_in_doubt``: PersistentVolumeClaims that are there, if it is not known what some shard is to be.
    """

    served: frozenset[str] = frozenset()
    openshift: bool = False
    cluster_policies: Sequence[Manifest] = ()
    fake_gpus: bool = False
    claims_in_doubt: frozenset[str] = frozenset()
    api_server_ports: tuple[int, ...] = ()
    trust: Mapping[str, str] = field(default_factory=dict)
    checksums: Mapping[str, str] = field(default_factory=dict)


class Product(Protocol):
    """Pure: the same answers to the same questions."""

    def read_config(self, manifest: Manifest) -> ConfigSpec:
        """What a Config says. Raises :class:`Unusable`."""

    def read_shard(self, manifest: Manifest, config: ConfigSpec) -> ShardSpec:
        """What a SchedulingShard says. Raises :class:`Unusable`."""

    def rivals(self, shards: Sequence[ShardSpec], config: ConfigSpec) -> Mapping[str, str]:
        """Shards, by name, that want what another has, and why they do not get it."""

    def secrets(self) -> Sequence[str]:
        """Names of all Secrets that ``needs`` of any Config may name. No others are read."""

    def needs(self, config: ConfigSpec) -> Needs:
        """What has to be there beside manifests."""

    def missing(self, config: ConfigSpec, found: Found) -> list[str]:
        """In words, what the cluster lacks of what Config asks for."""

    def of_config(self, config: ConfigSpec, shards: Sequence[ShardSpec], found: Found) -> list[Manifest]:
        """Everything but what belongs to one shard."""

    def of_shard(self, config: ConfigSpec, shard: ShardSpec, found: Found) -> list[Manifest]:
        """What belongs to one shard."""

    def remarks(self, config: ConfigSpec, shard: ShardSpec) -> Sequence[str]:
        """In words, what one should know of a shard though nothing is wrong with it."""

    def scheduler_name(self, config: ConfigSpec) -> str:
        """What the Leases of all schedulers begin with."""

    def lease_of(self, config: ConfigSpec, shard: ShardSpec) -> str:
        """The Lease by which the scheduler of a shard leads."""
