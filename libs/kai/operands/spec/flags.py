"""Flags of our processes, as far as objects may add some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kai.model import flag_rules, flag_values
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
    }
)


#: How switches are set and taken back.
_ON: Final = ("true", "t", "yes", "y", "on", "1")
_OFF: Final = ("false", "f", "no", "n", "off", "0")
#: What is more than a flag: several processes must see it alike, or need what it names -> the field for it.
_BY_FIELD: Final = {
    "resource-reservation-namespace": "spec.binder.resourceReservation.namespace of the Config",
    "scale-adjust-namespace": "spec.nodeScaleAdjuster.args.nodeScaleNamespace of the Config",
    "history-url": "spec.insight.externalSecret of the Config",
    "history-url-file": "spec.insight.externalSecret of the Config",
}


def settable(component: str) -> tuple[str, ...]:
    """The flags of a component that objects may add."""
    return tuple(name for name in FLAGS[component] if may_be_added(name))


def may_be_added(flag: str) -> bool:
    """Whether it is left to whoever installs."""
    return flag not in _FIXED and flag not in _BY_FIELD


def switched(given: Mapping[str, str], flag: str) -> bool | None:
    """Whether a switch is set or taken back; None if it is not given, or as neither."""
    said = given.get(flag, "").lower()
    return True if said in _ON else False if said in _OFF else None


def check_flags(component: str, given: Mapping[str, str], at: Place) -> None:
    """Say which flags a component does not have, which are not to be given, and which it could not read."""
    for name, text in given.items():
        if name in _FIXED:
            at.below(name).complain("is given by the installation itself; remove it")
        elif name in _BY_FIELD:
            at.below(name).complain(f"is more than a flag; set {_BY_FIELD[name]}")
        elif name not in FLAGS[component]:
            at.unknown(name, settable(component), what="flag")
        elif kind := FLAGS[component][name]:
            _check_value(kind, text, at.below(name))


def check_together(component: str, given: Mapping[str, str], at: Place, *, beside: Mapping[str, str]) -> None:
    """Say which flags a component could not use together, and with what it is given ``beside`` them."""
    values = _Values(component, {**beside, **given})
    for flags, rule in _RULES:
        last = next((flag for flag in flags if flag in given), None)
        if last is None or last not in FLAGS[component]:
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


def _tokens(values: _Values) -> None:
    flag_rules.tokens_go_over_tls(values.of("http-listen", ""), tls=values.tls)


def _redis(values: _Values) -> None:
    flag_rules.redis_is_told_once(
        values.of("redis-url", ""),
        ca=values.of("redis-ca", ""),
        server_name=values.of("redis-server-name", ""),
        password_file=values.of("redis-password-file", ""),
    )


#: Flags, and what they must be together.
_RULES: Final[tuple[tuple[tuple[str, ...], Callable[[_Values], None]], ...]] = (
    (("lease-duration", "lease-renew-deadline", "lease-retry-period"), _leases),
    (("burst", "qps"), _burst),
    (("resource-reservation-pod-resources",), _reservation_resources),
    (("previews", "grpc-listen"), _previews),
    (("http-listen",), _tokens),
    (("redis-url", "redis-ca", "redis-server-name", "redis-password-file"), _redis),
)
