"""One pass over an installation: from what Config and shards say to objects, and back to conditions.

A pass does everything, and is asked for again whenever something changes. What is as it should be costs no
request. Whatever one object or one shard does to a pass is that object's matter: all others are served, and
it is told in the conditions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

import structlog

from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden, KubeError
from kai.kube.resources import (
    CONFIGS,
    DEPLOYMENTS,
    LEASES,
    PVCS,
    SCHEDULING_SHARDS,
    SECRETS,
    Resource,
)
from kai_operator import conditions
from kai_operator.accounts import with_accounts
from kai_operator.conditions import Note, Standing
from kai_operator.conversion import stop_conversion
from kai_operator.former_endpoints import former_endpoints, remove_source
from kai_operator.kinds import ENDPOINT_SLICES, Manifest, Ref, kind_of, ref_of
from kai_operator.leaders import leader_slices, left_behind
from kai_operator.memory import recalled, remembered
from kai_operator.ownership import owner_reference
from kai_operator.pods import why_unavailable
from kai_operator.product import ConfigSpec, Found, Product
from kai_operator.prometheus import PrometheusMonitor
from kai_operator.retirement import kept
from kai_operator.specs import Reading, Specs
from kai_operator.status import Status
from kai_operator.vault import Contents, Vault
from kai_operator.watching import World
from kai_operator.writer import TROUBLE, NotOurs, Writer

CONFIG_NAME: Final = "kai-config"
#: Requests under way at the same time.
_AT_ONCE: Final = 8
#: Objects of others are not watched; they may go, or be given to us.
_LOOK_AGAIN_SECONDS: Final = 60.0
#: Pods that do not become ready are not watched either.
_LOOK_AT_PODS_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Share:
    """The part of an installation that one owner has: a Config or a shard."""

    resource: Resource
    manifest: Manifest
    #: What it had when this pass began. What comes later was not thought of, and is a matter of the next.
    had: frozenset[Ref]
    problems: Sequence[str] = ()
    #: None: what it is to have is not known, so nothing of it is touched.
    wanted: list[Manifest] | None = None
    #: Objects that are neither made nor changed nor deleted.
    spared: frozenset[Ref] = frozenset()
    live: list[Manifest] = field(default_factory=list)
    troubles: dict[Ref, str] = field(default_factory=dict)
    #: Why nothing of it can run.
    stopped: str = ""
    #: What users should know though all is well.
    notes: Sequence[Note] = ()
    transient: bool = False
    #: Whether pods are not ready.
    waits: bool = False

    @property
    def uid(self) -> str:
        """Of the owner."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def owner(self) -> dict[str, Any]:
        """What its objects refer to."""
        return owner_reference(self.resource, self.manifest["metadata"]["name"], self.uid)


class Reconciler:
    """Passes of one term. Their clock is that of certificates."""

    def __init__(
        self,
        client: KubeClient,
        world: World,
        product: Product,
        *,
        namespace: str,
        writer: Writer,
        vault: Vault,
        status: Status,
        prometheus: PrometheusMonitor,
        resync: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._world = world
        self._product = product
        self._specs = Specs(product, lambda manifest: recalled(manifest, world.cache, namespace=namespace))
        self._namespace = namespace
        self._writer = writer
        self._vault = vault
        self._status = status
        self._prometheus = prometheus
        self._resync = resync
        self._clock = clock
        self._backoff = Backoff(initial=1.0, maximum=30.0)

    async def reconcile(self, key: str) -> float | None:
        """One pass; seconds until the next at the latest, None if nothing is to be done before a change."""
        config = self._world.configs.get(CONFIG_NAME)
        if self._world.surroundings.converts_queues:
            await stop_conversion(self._client)
        if config is None or config["metadata"].get("deletionTimestamp"):
            self._prometheus.follow(None)
            return await self._stop_schedulers()
        now = self._clock()
        shares = [await self._begin(share, now) for share in self._shares(config)]
        reading = self._specs.read(shares[0].manifest, [share.manifest for share in shares[1:]])
        for share in shares:
            share.problems = reading.problems.get(share.uid, ())
            if share.uid in reading.lost:
                share.stopped = "another shard serves all that this one does and did; nothing of it may run"
        if reading.config is None:
            self._prometheus.follow(None)
            await self._end(shares, (), now)
            return None
        found, due = await self._decide(shares, reading, now)
        await self._settle(shares)
        self._vault.forget(shares[0].live)
        await self._remove(shares)
        await self._remove_former_endpoints(shares)
        await self._forget_schedulers(shares, reading)
        missing = self._product.missing(reading.config, found)
        await self._end(shares, missing, now)
        return self._next_look(shares, due - now)

    async def _stop_schedulers(self) -> float | None:
        """Without a Config there is no installation: what schedulers act by, their account first, is gone."""
        shares = self._shard_shares()
        for share in shares:
            share.wanted = []
            share.stopped = f"there is no {CONFIGS.kind} {CONFIG_NAME}; nothing of this shard can run"
        await self._remove(shares)
        await self._end(shares, (), self._clock())
        return self._backoff.next() if any(share.transient for share in shares) else None

    # --- what is there, and what is to be --------------------------------------------------------
    def _shares(self, config: Manifest) -> list[_Share]:
        """Config's first, then those of all shards by name."""
        return [self._share(CONFIGS, config), *self._shard_shares()]

    def _shard_shares(self) -> list[_Share]:
        return [
            self._share(SCHEDULING_SHARDS, shard)
            for _, shard in sorted(self._world.shards.items())
            if not shard["metadata"].get("deletionTimestamp")
        ]

    def _share(self, resource: Resource, manifest: Manifest) -> _Share:
        owned = self._world.cache.owned_by(manifest["metadata"]["uid"])
        return _Share(resource, manifest, frozenset(map(ref_of, owned)))

    async def _begin(self, share: _Share, now: datetime) -> _Share:
        share.manifest = await self._status.begin(share.resource, share.manifest, now=now)
        return share

    async def _decide(self, shares: list[_Share], reading: Reading, now: datetime) -> tuple[Found, datetime]:
        """Fill in what each owner is to have; what the cluster is like, and when to look at it again."""
        config, product = reading.config, self._product
        specs = [reading.shards[share.uid] for share in shares[1:] if share.uid in reading.shards]
        needs = product.needs(config)
        self._prometheus.follow(needs.prometheus)
        shares[0].spared = frozenset(
            Ref(SECRETS.kind, needs.namespace, name) for name in needs.filled_by_others
        )
        contents = await self._vault.contents(needs, shares[0].owner, now=now)
        shares[0].troubles |= contents.troubles
        shares[0].spared |= contents.spared
        shares[0].transient |= not contents.complete
        found = self._found(contents, reading, shares[0].uid)
        for share in shares:
            try:
                share.wanted = self._wanted(share, config, specs, reading, found)
                share.notes = self._remarks(share, config, reading)
                if not contents.complete and share.wanted is not None:
                    other = self._wanted(share, config, specs, reading, self._supposed(found, contents))
                    self._spare(share, other or [])
            except Exception as error:  # noqa: BLE001 (one shard must not stop the others)
                _log.exception("cannot tell what is to be", owner=share.manifest["metadata"]["name"])
                about = Ref(share.resource.kind, "", share.manifest["metadata"]["name"])
                share.troubles[about] = f"{about}: {type(error).__name__}: {error}; see the operator's log"
        if shares[0].wanted is not None:
            shares[0].wanted += contents.secrets
        for share in shares:
            if share.wanted is not None and (good := self._specs.in_force(share.uid)) is not None:
                share.wanted.append(remembered(good, namespace=self._namespace))
        return found, min(contents.due, self._keep_retired(shares[0], now) or contents.due)

    def _keep_retired(self, share: _Share, now: datetime) -> datetime | None:
        """Have what was switched off a short time ago stay; when that is over, if anything is."""
        if share.wanted is None:
            return None
        retired = kept(self._world.cache.owned_by(share.uid), share.wanted, now=now)
        share.wanted += retired.objects
        share.notes = [Note(text=text, reason="Kept") for text in retired.notes]
        return retired.due

    def _wanted(
        self, share: _Share, config: ConfigSpec, specs: list[Any], reading: Reading, found: Found
    ) -> list[Manifest] | None:
        there = self._world.cache.get
        if share.resource is CONFIGS:
            return with_accounts(self._product.of_config(config, specs, found), there)
        spec = reading.shards.get(share.uid)
        if spec is None:
            return [] if share.uid in reading.lost else None
        objects = with_accounts(self._product.of_shard(config, spec, found), there)
        lease = self._world.leases.get(self._product.lease_of(config, spec))
        return [*objects, *leader_slices(objects, lease, self._world.pods)]

    def _remarks(self, share: _Share, config: ConfigSpec, reading: Reading) -> list[Note]:
        spec = reading.shards.get(share.uid)
        told = self._product.remarks(config, spec) if spec is not None else ()
        return [Note(text=text, reason="Remark", warns=True) for text in told]

    def _spare(self, share: _Share, other: list[Manifest]) -> None:
        """Leave alone what would look otherwise if what cannot be read were another; the rest is decided."""
        others = {ref_of(manifest): manifest for manifest in other}
        wanted = share.wanted or []
        share.wanted = [manifest for manifest in wanted if others.get(ref_of(manifest)) == manifest]
        share.spared |= {ref_of(manifest) for manifest in (*wanted, *other)} - set(map(ref_of, share.wanted))

    def _supposed(self, found: Found, contents: Contents) -> Found:
        """The same, if something else stood in Secrets that cannot be read."""
        return replace(
            found,
            trust={**found.trust, **dict.fromkeys(contents.unknown_trust, "unknown")},
            checksums={**found.checksums, **dict.fromkeys(contents.unknown_checksums, "unknown")},
        )

    def _claims(self, owner: str) -> frozenset[str]:
        owned = self._world.cache.owned_by(owner)
        return frozenset(each["metadata"]["name"] for each in owned if each["kind"] == PVCS.kind)

    def _found(self, contents: Contents, reading: Reading, owner: str) -> Found:
        around = self._world.surroundings
        return Found(
            served=around.served,
            openshift=around.openshift,
            cluster_policies=list(around.cluster_policies.values()),
            fake_gpus=around.fake_gpus,
            claims_in_doubt=self._claims(owner) if reading.unread else frozenset(),
            api_server_ports=around.api_server_ports,
            trust=contents.trust,
            checksums=contents.checksums,
        )

    # --- bringing it about -----------------------------------------------------------------------
    async def _settle(self, shares: list[_Share]) -> None:
        """Rank by rank, so that accounts are there before their pods; what fails keeps nothing else back."""
        work = [(share, manifest) for share in shares for manifest in share.wanted or ()]
        work.sort(key=lambda one: kind_of(one[1]).rank)
        at_once = asyncio.Semaphore(_AT_ONCE)
        for _, batch in groupby(work, key=lambda one: kind_of(one[1]).rank):
            async with asyncio.TaskGroup() as group:
                for share, manifest in batch:
                    group.create_task(self._settle_one(share, manifest, at_once))

    async def _settle_one(self, share: _Share, manifest: Manifest, at_once: asyncio.Semaphore) -> None:
        ref = ref_of(manifest)
        async with at_once:
            try:
                share.live.append(await self._writer.settle(manifest, share.owner))
            except TROUBLE as error:
                share.troubles[ref] = f"{ref}: {error}" if isinstance(error, KubeError) else str(error)
                share.transient |= not isinstance(error, NotOurs)
                _log.warning("object is not as it should be", object=str(ref), reason=str(error))
            except Exception as error:  # noqa: BLE001 (one object must not stop the others)
                share.troubles[ref] = f"{ref}: {type(error).__name__}: {error}; see the operator's log"
                share.transient = True
                _log.exception("object is not as it should be", object=str(ref))

    async def _remove(self, shares: list[_Share]) -> None:
        """Delete what owners had and are not to have any more."""
        for share in shares:
            if share.wanted is None:
                continue
            stay = {ref_of(manifest) for manifest in share.wanted} | share.troubles.keys() | share.spared
            for live in self._world.cache.owned_by(share.uid):
                if ref_of(live) in share.had - stay:
                    await self._remove_one(share, live)

    async def _remove_one(self, share: _Share, live: Manifest) -> None:
        ref = ref_of(live)
        try:
            await self._writer.remove(live)
        except KubeError as error:
            if isinstance(error, Forbidden) and ref.namespace not in ("", self._namespace):
                # Rights in other namespaces go with the values that had them used.
                text = (
                    f"{ref} is not wanted any more, and stays, since the operator may not delete it: "
                    "delete it when no pod there needs it"
                )
                share.notes = [*share.notes, Note(text=text, reason="Left")]
                return
            share.troubles[ref] = f"{ref} is to go: {error}"
            share.transient = True
            _log.warning("object not deleted", object=str(ref), reason=str(error))

    async def _remove_former_endpoints(self, shares: list[_Share]) -> None:
        """Once a Service has no selector any more, have it lead nowhere but where we say."""
        for share in shares:
            for found in former_endpoints(share.live, list(self._world.slices.values())):
                about = Ref(ENDPOINT_SLICES.kind, found.metadata.namespace, found.metadata.name)
                try:
                    await remove_source(self._client, found)
                except KubeError as error:
                    share.troubles[about] = f"{about} is to go: {error}"
                    share.transient = True
                    _log.warning("former endpoints not deleted", object=str(about), reason=str(error))
                else:
                    _log.info("former endpoints deleted", object=str(about))

    async def _forget_schedulers(self, shares: list[_Share], reading: Reading) -> None:
        """Delete the Leases of those whose shard is gone, unless it is not known what some shard has."""
        specs = [reading.shards.get(share.uid) for share in shares[1:]]
        if None in specs:
            return
        config, product = reading.config, self._product
        wanted = {product.lease_of(config, spec) for spec in specs}
        leases, name = self._world.leases, product.scheduler_name(config)
        for lease in left_behind(list(leases.values()), scheduler_name=name, wanted=wanted):
            meta = lease.metadata
            _log.info("lease of a scheduler that is gone", lease=meta.name)
            try:
                await self._client.delete(
                    LEASES, meta.name, namespace=meta.namespace, resource_version=meta.resource_version
                )
            except KubeError as error:
                _log.info("lease not deleted", lease=meta.name, reason=str(error))

    # --- telling it ------------------------------------------------------------------------------
    async def _end(self, shares: list[_Share], missing: Sequence[str], now: datetime) -> None:
        for share in shares:
            of_config = share.resource is CONFIGS
            away = conditions.unavailable(share.live)
            standing = Standing(
                problems=share.problems,
                unknown=share.wanted is None,
                stopped=share.stopped,
                troubles=dict(sorted(share.troubles.items())),
                notes=share.notes,
                unavailable=[await self._explained(ref, share, away[ref]) for ref in sorted(away)],
                missing=missing if of_config else (),
                watches_prometheus=of_config and self._prometheus.follows,
                prometheus=self._prometheus.problem,
            )
            await self._status.end(share.resource, share.manifest, standing, now=now)

    async def _explained(self, ref: Ref, share: _Share, text: str) -> str:
        """With what keeps its pods, if it is a Deployment and that is known."""
        share.waits = True
        live = next(each for each in share.live if ref_of(each) == ref)
        reason = await why_unavailable(self._client, live) if ref.kind == DEPLOYMENTS.kind else ""
        return f"{text} ({reason})" if reason else text

    def _next_look(self, shares: list[_Share], due: timedelta) -> float:
        later = min(max(due.total_seconds(), 1.0), self._resync)
        if any(share.transient for share in shares):
            return min(later, self._backoff.next())
        self._backoff.reset()
        if any(share.waits for share in shares):
            return min(later, _LOOK_AT_PODS_SECONDS)
        foreign = any(share.troubles for share in shares)
        return min(later, _LOOK_AGAIN_SECONDS) if foreign else later
