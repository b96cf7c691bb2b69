"""Flags of our processes, as far as objects may add some."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kai.model import flag_rules, flag_values
from kai.operands.spec.components import POD_GROUPER_GRPC_PORT as _GRPC
from kai.operands.spec.known_flags import FLAGS
from kai.operands.spec.problems import Place

#: What is told to a process by what surrounds it, and would break that if it were something else.
_FIXED: Final = frozenset(
    {
        "namespace",
        "config",
        "kubeconfig",
        "context",
        "tls-ca",
        "tls-cert",
        "tls-key",
        "cert-dir",
        "advertise-host",
        "grants",
        "node-name",
        "scaling-pod-app-label",
        "sysfs-root",
    }
)
_PROBES: Final = ("health-probe-bind-address", "health-listen")
_METRICS: Final = ("metrics-bind-address", "metrics-listen-address", "metrics-listen", "listen-address")
_WEBHOOKS: Final = ("webhook-addr", "webhook-listen")
_REDIS: Final = ("redis-url", "redis-ca", "redis-server-name", "redis-password-file")


#: How switches are set and taken back.
_ON: Final = ("true", "t", "yes", "y", "on", "1")
_OFF: Final = ("false", "f", "no", "n", "off", "0")
#: What is more than a flag: several processes must see it alike, or it is of objects beside its process, as
#: ports are -> the field for it.
_BY_FIELD: Final = {
    "scheduler-name": "spec.global.schedulerName",
    "queue-label-key": "spec.global.queueLabelKey",
    "nodepool-label-key": "spec.global.nodePoolLabelKey",
    "metrics-namespace": "spec.queueController.metricsNamespace",
    "resource-reservation-namespace": "spec.binder.resourceReservation.namespace",
    "resource-reservation-service-account": "spec.binder.resourceReservation.serviceAccountName",
    "resource-reservation-app-label": "spec.binder.resourceReservation.appLabel",
    "scale-adjust-namespace": "spec.nodeScaleAdjuster.args.nodeScaleNamespace",
    "scaling-pod-service-account": "spec.nodeScaleAdjuster.args.nodeScaleServiceAccount",
    "default-priorities-configmap-name": "spec.podGrouper.args.defaultPrioritiesConfigMapName",
    "default-priorities-configmap-namespace": "spec.podGrouper.args.defaultPrioritiesConfigMapNamespace",
    "hami-core-enabled": "spec.binder.plugins.hamicore.enabled",
    "history-url": "spec.insight.externalSecret",
    "history-url-file": "spec.insight.externalSecret",
    "retention": "spec.insight.retention",
    "http-listen": "spec.insight.httpPort",
    "enable-webhook": "spec.queueController.webhooks.enableValidation",
    "refuse-queue-deletion": "spec.queueController.webhooks.refuseDeletion",
    "enable-podgroup-webhook": "spec.podGroupController.webhooks.enableValidation",
    "podresources-socket": "spec.numaPlacementExporter.podResourcesSocket",
    "pod-resources-socket": "spec.numaPlacementExporter.podResourcesSocket",
    **dict.fromkeys(_REDIS, "spec.redis.externalSecret"),
}
#: The same of ports that not all components have a field for; without one they are fixed.
_PORTS: Final[Mapping[str, Mapping[str, str]]] = {
    "admission": {
        **dict.fromkeys(_WEBHOOKS, "spec.admission.webhook.targetPort"),
        **dict.fromkeys(_PROBES, "spec.admission.webhook.probePort"),
        **dict.fromkeys(_METRICS, "spec.admission.webhook.metricsPort"),
    },
    "binder": {
        **dict.fromkeys(_PROBES, "spec.binder.probePort"),
        **dict.fromkeys(_METRICS, "spec.binder.metricsPort"),
    },
    "insight": {"grpc-listen": "spec.insight.grpcPort"},
    "podGroupController": dict.fromkeys(
        _WEBHOOKS, "spec.podGroupController.controllerService.webhook.targetPort"
    ),
    "queueController": {
        **dict.fromkeys(_WEBHOOKS, "spec.queueController.controllerService.webhook.targetPort"),
        **dict.fromkeys(_METRICS, "spec.queueController.controllerService.metrics.targetPort"),
    },
    "scheduler": {
        **dict.fromkeys((*_PROBES, *_METRICS), "spec.scheduler.schedulerService.targetPort"),
        "grpc-listen": "spec.scheduler.schedulerService.grpcPort",
    },
}
#: Longer than a process finishes its work: afterwards it ends what is left.
_AFTER_DRAINING: Final = 10
_LEAST_GRACE: Final = 30


def settable(component: str) -> tuple[str, ...]:
    """The flags of a component that objects may add."""
    return tuple(name for name in FLAGS[component] if may_be_added(component, name))


def may_be_added(component: str, flag: str) -> bool:
    """Whether it is left to whoever installs."""
    return not _field_of(component, flag) and not _is_fixed(flag)


def _field_of(component: str, flag: str) -> str:
    """The field of a Config by which it is said; empty for none."""
    return _PORTS.get(component, {}).get(flag) or _BY_FIELD.get(flag, "")


def _is_fixed(flag: str) -> bool:
    """Whether the installation says it, where there is no field for it."""
    return flag in _FIXED or flag in _PROBES or flag in _METRICS


def grace_seconds(given: Mapping[str, str]) -> int:
    """How long a pod may take to end, whose process has these flags."""
    text = given.get("drain-timeout")
    drain = flag_rules.DRAIN_TIMEOUT if text is None else float(flag_values.read("duration ge=0", text))
    return max(_LEAST_GRACE, math.ceil(drain) + _AFTER_DRAINING)


def switched(given: Mapping[str, str], flag: str) -> bool | None:
    """Whether a switch is set or taken back; None if it is not given, or as neither."""
    said = given.get(flag, "").lower()
    return True if said in _ON else False if said in _OFF else None


def check_flags(component: str, given: Mapping[str, str], at: Place) -> None:
    """Say which flags a component does not have, which are not to be given, and which it could not read."""
    for name, text in given.items():
        if field := _field_of(component, name):
            at.below(name).complain(f"is more than a flag; set {field} of the Config")
        elif _is_fixed(name):
            at.below(name).complain("is given by the installation itself; remove it")
        elif name not in FLAGS[component]:
            at.unknown(name, settable(component), what="flag")
        elif kind := FLAGS[component][name]:
            _check_value(kind, text, at.below(name))


def check_together(component: str, given: Mapping[str, str], at: Place, *, beside: Mapping[str, str]) -> None:
    """Say which flags a component could not use together, and with what it is given ``beside`` them."""
    values = _Values(component, {**beside, **given})
    for flags, rule in _RULES:
        last = next((flag for flag in flags if flag in given), None)
        if last is None or last not in FLAGS[component] or not may_be_added(component, last):
            continue
        try:
            rule(values)
        except _Unreadable:
            continue  # which has been said
        except ValueError as error:
            at.below(last).complain(f"is {given[last]!r}: {error}")


def _check_value(kind: str, text: str, at: Place) -> None:
    try:
        flag_values.read(kind, text)
    except ValueError as error:
        at.complain(f"is {text!r}: {error}")


class _Unreadable(Exception):
    """A value cannot be read, so that nothing can be said of it and others."""


@dataclass(frozen=True, slots=True)
class _Values:
    """What a component reads of flags."""

    component: str
    given: Mapping[str, str]

    def of(self, flag: str, default: Any) -> Any:
        """The value of a flag."""
        if flag not in self.given:
            return default
        try:
            return flag_values.read(FLAGS[self.component][flag], self.given[flag])
        except ValueError:
            raise _Unreadable from None

    @property
    def tls(self) -> bool:
        """Whether it has certificates."""
        return "tls-ca" in self.given


def _leases(values: _Values) -> None:
    flag_rules.leases_outlast_their_renewal(
        lease=values.of("lease-duration", flag_rules.LEASE_DURATION),
        deadline=values.of("lease-renew-deadline", flag_rules.LEASE_RENEW_DEADLINE),
        retry=values.of("lease-retry-period", flag_rules.LEASE_RETRY_PERIOD),
    )


def _reservation_resources(values: _Values) -> None:
    flag_rules.resources_are_amounts(values.of("resource-reservation-pod-resources", {}))


def _burst(values: _Values) -> None:
    flag_rules.a_burst_is_of_something(burst=values.of("burst", 0), qps=values.of("qps", 0.0))


def _previews(values: _Values) -> None:
    if values.of("previews", False):
        flag_rules.previews_stay_here(values.of("grpc-listen", ""), tls=values.tls)


def _where_schedulers_connect(values: _Values) -> None:
    """On loopback or nowhere it tells none, and they find groups by themselves."""
    listen = str(values.of("grpc-listen", ""))
    if listen and flag_rules.reaches_others(listen) and listen.rpartition(":")[2] != str(_GRPC):
        raise ValueError(
            f"schedulers may connect to port {_GRPC} alone; write :{_GRPC}, or 127.0.0.1 before another port"
        )


#: Flags, and what they must be together.
_RULES: Final[tuple[tuple[tuple[str, ...], Callable[[_Values], None]], ...]] = (
    (("lease-duration", "lease-renew-deadline", "lease-retry-period"), _leases),
    (("burst", "qps"), _burst),
    (("resource-reservation-pod-resources",), _reservation_resources),
    (("previews", "grpc-listen"), _previews),
    (("grpc-listen",), _where_schedulers_connect),
)
