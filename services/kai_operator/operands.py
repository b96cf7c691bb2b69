"""The product as the operator sees it: :mod:`kai.operands`, and what specifications mean for the operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from kai import operands
from kai.model import duration
from kai.operands import ConfigSpec, Facts, Grants, InvalidSpec, Shard
from kai.wire.shards import shard_of
from kai_operator.kinds import Manifest
from kai_operator.product import Endpoint, Found, Needs, Unusable


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiProduct:
    """KAI, installed in one namespace: that of the operator, who has rights in no other.

    Images that a Config does not place are where the operator's own is.
    """

    namespace: str
    repository: str
    tag: str
    image_pull_secret: str = ""
    #: How long a changed Secret may need to reach everybody.
    settling: timedelta = timedelta(0)
    #: What there are roles for; None: nobody says so, and everything is tried.
    grants: Grants | None = None

    def read_config(self, manifest: Manifest) -> ConfigSpec:
        """What a Config says. Raises :class:`Unusable`."""
        try:
            config = operands.read_config(manifest)
        except InvalidSpec as error:
            raise Unusable([str(problem) for problem in error.problems]) from None
        self._check(config)
        return self._with_pull_secret(config)

    def read_shard(self, manifest: Manifest, config: ConfigSpec) -> Shard:
        """What a SchedulingShard says. Raises :class:`Unusable`."""
        try:
            shard = operands.read_shard(manifest, config)
        except InvalidSpec as error:
            raise Unusable([str(problem) for problem in error.problems]) from None
        if self.grants is not None and (beyond := operands.beyond_shard(shard, config, self.grants)):
            raise Unusable([str(problem) for problem in beyond])
        return shard

    def rivals(self, shards: Sequence[Shard], config: ConfigSpec) -> dict[str, str]:
        """Shards, by name, that want what another has, and why they do not get it."""
        return {name: str(problem) for name, problem in operands.rivals(shards, config).items()}

    def secrets(self) -> tuple[str, ...]:
        """All Secrets that there may be."""
        return operands.all_secrets()

    def needs(self, config: ConfigSpec) -> Needs:
        """What has to be there beside manifests."""
        terms = config.certificates
        url = config.prometheus.external_prometheus_url if config.prometheus.enabled else ""
        return Needs(
            namespace=config.namespace,
            certificates=operands.certificates_of(config),
            lifetime=_time(terms.lifetime),
            renew_before=_time(terms.renew_before),
            authority_lifetime=_time(terms.authority_lifetime),
            passwords={operands.PASSWORD_SECRET: _redis_url(config)} if config.redis.ours else {},
            filled_by_others=operands.filled_by_others(config),
            prometheus=_endpoint(config) if url else None,
        )

    def missing(self, config: ConfigSpec, found: Found) -> list[str]:
        """In words, what the cluster lacks of what Config asks for."""
        kinds = operands.missing_kinds(config, self._facts(found))
        return [
            f"{kind} is not served: install what brings it; until then it is done without" for kind in kinds
        ]

    def of_config(self, config: ConfigSpec, shards: Sequence[Shard], found: Found) -> list[Manifest]:
        """Everything but what belongs to one shard."""
        return operands.operands_of_config(config, self._facts(found), shards)

    def of_shard(self, config: ConfigSpec, shard: Shard, found: Found) -> list[Manifest]:
        """What belongs to one shard."""
        return operands.operands_of_shard(config, shard, self._facts(found))

    def remarks(self, config: ConfigSpec, shard: Shard) -> Sequence[str]:
        """In words, what one should know of a shard though nothing is wrong with it."""
        return operands.remarks(config, shard)

    def scheduler_name(self, config: ConfigSpec) -> str:
        """What the Leases of all schedulers begin with."""
        return config.everywhere.scheduler_name

    def lease_of(self, config: ConfigSpec, shard: Shard) -> str:
        """The Lease by which the scheduler of a shard leads."""
        return shard_of(config.everywhere.scheduler_name, shard.spec.partition_label_value).lease

    def _facts(self, found: Found) -> Facts:
        return Facts(
            served=found.served,
            cdi=operands.uses_cdi(found.cluster_policies),
            fake_gpus=found.fake_gpus,
            claims_in_doubt=found.claims_in_doubt,
            openshift=found.openshift,
            api_server_ports=found.api_server_ports,
            trust=found.trust,
            redis_password_digest=found.checksums.get(operands.PASSWORD_SECRET, ""),
            repository=self.repository,
            tag=self.tag,
        )

    def _own(self) -> Facts:
        return Facts(repository=self.repository, tag=self.tag)

    def _check(self, config: ConfigSpec) -> None:
        if config.namespace != self.namespace:
            problem = (
                f"spec.namespace is {config.namespace}; the operator works in its own namespace alone: "
                f"write {self.namespace}, or install the chart into {config.namespace}"
            )
            raise Unusable([problem])
        least = 2 * self.settling
        if operands.certificates_of(config) and _time(config.certificates.renew_before) < least:
            problem = (
                f"spec.certificates.renewBefore is {config.certificates.renew_before}; a renewal needs "
                f"{least.total_seconds():g}s to reach all processes, so it must be at least that"
            )
            raise Unusable([problem])
        if self.grants is not None and (beyond := operands.beyond(config, self.grants, self._own())):
            raise Unusable([str(problem) for problem in beyond])

    def _with_pull_secret(self, config: ConfigSpec) -> ConfigSpec:
        if not self.image_pull_secret:
            return config
        everywhere = config.everywhere
        secrets = (*everywhere.additional_image_pull_secrets, self.image_pull_secret)
        return replace(config, everywhere=replace(everywhere, additional_image_pull_secrets=secrets))


def _redis_url(config: ConfigSpec) -> str:
    scheme = "rediss" if config.everywhere.tls.enabled else "redis"
    return f"{scheme}://kai-redis.{config.namespace}.svc:{config.redis.port}/0"


def _endpoint(config: ConfigSpec) -> Endpoint:
    probe = config.prometheus.external_prometheus_health_probe
    return Endpoint(
        url=config.prometheus.external_prometheus_url,
        interval=probe.interval,
        timeout=probe.timeout,
        retries=probe.max_retries,
    )


def _time(text: str) -> timedelta:
    return timedelta(seconds=duration.parse(text, days=True))
