"""``usageDBConfig`` of a SchedulingShard: where past usage of queues is read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kai.config import ConfigError, UsageClient, usage_database
from kai.config.prometheus_params import USUAL_PREFIX, allocation_metrics
from kai.operands.spec.fields import Fields, part, value
from kai.operands.spec.kinds import TEXT, TEXTS, one_of, text, time
from kai.operands.spec.problems import Place

if TYPE_CHECKING:
    from kai.operands.spec.config import ConfigSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageParamsSpec(Fields):
    """Which usage counts, and how much."""

    half_life_period: str = value(
        time(days=True), "", meaning="Past usage counts half after this time; no decay if not set or 0."
    )
    window_size: str = value(
        time(days=True), "", meaning="How far back usage counts, e.g. 1w or 7d; 1w if not set."
    )
    window_type: str = value(
        one_of(("sliding", "tumbling", "cron")), "", meaning="sliding (if not set), tumbling or cron."
    )
    tumbling_window_start_time: str = value(
        text("a time such as 2026-01-01T00:00:00Z", pattern=r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}.*"),
        "",
        meaning="When a tumbling window began.",
    )
    cron_string: str = value(TEXT, "", meaning="When windows of the type cron begin, as in a CronJob.")
    fetch_interval: str = value(time(days=True), "", meaning="Time between two queries.")
    staleness_period: str = value(time(days=True), "", meaning="For how long an answer counts.")
    wait_timeout: str = value(time(days=True), "", meaning="How long to wait for the first answer.")
    extra_params: Mapping[str, str] = value(TEXTS, {}, meaning="Names of metrics, and further settings.")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSpec(Fields):
    """Where past usage of queues is read from."""

    client_type: str = value(one_of(("prometheus", "redis")), "", meaning="prometheus, or redis.")
    connection_string: str = value(TEXT, "", meaning="URL of the server.")
    connection_string_env_var: str = value(TEXT, "", meaning="Variable of the scheduler that has the URL.")
    usage_params: UsageParamsSpec = part(UsageParamsSpec, meaning="Which usage counts, and how much.")

    def manifest(self) -> dict[str, Any]:
        """What was said, as the scheduler reads it."""
        params = _said(self.usage_params)
        return {**_said(self, but="usageParams"), **({"usageParams": params} if params else {})}


def connection(usage: UsageSpec | None, config: ConfigSpec, at: Place) -> UsageSpec | None:
    """The same with the address of its Prometheus, ours or that of the Config, unless it names one.

    And with the names of the metrics of queues there, unless it names these.
    """
    if usage is None:
        return None
    usage = _by_prefix(usage, config.queue_controller.metrics_namespace)
    prometheus = config.prometheus
    try:
        found = usage_database.connected(
            usage.manifest(),
            managed=usage_database.managed_prometheus(config.namespace) if prometheus.ours else "",
            external=prometheus.external_prometheus_url,
        )
    except usage_database.NoPrometheus:
        at.below("connectionString").complain(
            "is missing, and the Config has no Prometheus; "
            "give one, or set spec.prometheus.enabled of the Config"
        )
        return usage
    except ConfigError:  # told where the whole file of the scheduler is checked
        return usage
    return replace(usage, connection_string=found.get("connectionString", ""))


def _by_prefix(usage: UsageSpec, prefix: str) -> UsageSpec:
    """The same, asking for the metrics of queues as our queue-controller tells them."""
    if usage.client_type != UsageClient.PROMETHEUS or prefix == USUAL_PREFIX:
        return usage
    params = usage.usage_params
    named = {**allocation_metrics(prefix), **params.extra_params}
    return replace(usage, usage_params=replace(params, extra_params=named))


def _said(fields: Fields, *, but: str = "") -> dict[str, Any]:
    said = {each.spelling: getattr(fields, name) for name, each in fields.declared().items()}
    return {
        key: dict(each) if isinstance(each, Mapping) else each
        for key, each in said.items()
        if each and key != but
    }
