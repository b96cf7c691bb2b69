"""What a Config or a shard may say to a process, that process can read: else it would never start."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from kai.operands import Facts, InvalidSpec, operands_of_config, operands_of_shard, read_config, read_shard
from kai.operands.facts import OPTIONAL_KINDS
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.fields import schema_of
from kai.operands.spec.flags import settable
from kai.operands.spec.known_flags import FLAGS
from kai.operands.spec.shard import ShardSpec
from kai.runtime import ServiceSettings, SettingsError

MODULES = {
    "admission": "kai_admission",
    "binder": "kai_binder",
    "insight": "kai_insight",
    "nodeScaleAdjuster": "kai_node_scale_adjuster",
    "numaPlacementExporter": "kai_numa_placement_exporter",
    "operator": "kai_operator",
    "podGroupController": "kai_podgroup_controller",
    "podGrouper": "kai_pod_grouper",
    "queueController": "kai_queue_controller",
    "scheduler": "kai_scheduler",
}
#: In a Config there is no operator: it makes what this says.
IN_A_CONFIG = sorted(MODULES.keys() - {"operator"})
FACTS = Facts(served=frozenset(OPTIONAL_KINDS), api_server_ports=(6443,))
EVERYTHING = {
    each: {"service": {"enabled": True}} for each in ("insight", "nodeScaleAdjuster", "numaPlacementExporter")
}
#: What the installation says beside whatever is added, as far as that bears on it.
GIVEN = {"podGrouper": ("--grpc-listen=:9093",)}
#: Flags of which an installation takes less than a process does.
NARROWER = ("grpc-listen", "partition-label-value")
#: Given instead of all that the installation would say of it, by whoever wants that.
INSTEAD = ("plugins", "scheduler-conf")
#: Written by the installation, and counted on by nothing that does not follow what is given instead.
OF_A_PROCESS_ALONE = {
    "block-nvidia-visible-devices", "burst", "drift-resync-interval", "generic-karta-fallback",
    "gpu-fraction-runtime-class-name", "gpu-memory-to-fraction-ratio", "gpu-sharing-enabled",
    "knative-gang-schedule", "leader-elect", "log-json", "max-concurrent-reconciles",
    "namespace-label-selector", "persist-last-start", "pod-label-selector", "poll-interval", "qps",
    "queue-label-to-default-metric-value", "queue-label-to-metric-label",
    "resource-reservation-allocation-timeout", "resource-reservation-pod-image",
    "resource-reservation-pod-image-pull-policy", "runtime-class-name", "scaling-pod-image",
    "scaling-pod-image-pull-policy", "usage-retention",
}  # fmt: skip
#: Each is right somewhere, and wrong somewhere else.
ODD = [
    "", "abc", "a b", "a=b", "a,b==", "a=b-c", "a=b,c=d", "0", "-1", "1", "0.5", "7", "99999", "1e3",
    "inf", "nan", "1e12", "true", "TRUE", "off", "maybe", "loud", "info,kai.kube=debug", "kai.nowhere=debug",
    "9", "1s", "1d", "1m30", ":8080", "127.0.0.1:9", "[::1]:9", ":x", "{}", "{", '{"a": 1}', "json",
    "panic", "Always", "redis://h:1/0", "kai:a_b", "1_000", " 5 ", "٣",
]  # fmt: skip


@cache
def settings_of(module: str) -> type[ServiceSettings]:
    found = vars(importlib.import_module(f"{module}.settings")).values()
    (kind,) = (
        each
        for each in found
        if isinstance(each, type)
        and issubclass(each, ServiceSettings)
        and each.__module__ == f"{module}.settings"
    )
    return kind


@cache
def reads(module: str, *arguments: str) -> bool:
    try:
        settings = settings_of(module).parse([*arguments])
        if module == "kai_binder":
            settings.check()
    except SettingsError:
        return False
    return True


def a_config(spec: Mapping[str, Any]):
    return read_config({"metadata": {"name": "kai-config"}, "spec": spec})


def a_shard(spec: Mapping[str, Any], config):
    return read_shard({"metadata": {"name": "default"}, "spec": spec}, config)


def taken(component: str, flag: str, text: str) -> bool:
    """Whether the object that says so can be used."""
    try:
        if component == "scheduler":
            a_shard({"args": {flag: text}}, a_config({"redis": {"enabled": False}}))
        else:
            said = {component: {"service": {"extraArgs": {flag: text}}}}
            a_config({**said, "global": {"tls": {"enabled": False}}, "redis": {"enabled": False}})
    except InvalidSpec:
        return False
    return True


@pytest.mark.parametrize("component", IN_A_CONFIG)
def test_a_value_of_a_flag_is_refused_where_its_process_would_refuse_it(component):
    different = [
        (flag, text)
        for flag in settable(component)
        if flag not in NARROWER
        for text in ODD
        if taken(component, flag, text)
        != reads(MODULES[component], *GIVEN.get(component, ()), f"--{flag}={text}")
    ]
    assert different == []


def test_all_components_that_take_flags_are_looked_at():
    assert MODULES.keys() == FLAGS.keys()


# --- fields ------------------------------------------------------------------------------------
def leaves(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of fields that are texts, but for those that are no argument of anything: pods have them."""
    for key, each in schema.get("properties", {}).items():
        if key.lower().endswith("securitycontext"):
            continue
        if each.get("type") == "string":
            yield *path, key
        yield from leaves(each, (*path, key))


def with_leaf(spec: Mapping[str, Any], path: tuple[str, ...], text: str) -> dict[str, Any]:
    key, *below = path
    inner = with_leaf(spec.get(key) or {}, tuple(below), text) if below else text
    return {**spec, key: inner}


def arguments(objects) -> Iterator[tuple[str, list[str]]]:
    """Modules of processes with their arguments."""
    for each in objects:
        if each["kind"] in ("Deployment", "DaemonSet"):
            for container in each["spec"]["template"]["spec"]["containers"]:
                if container.get("command", [])[:2] == ["python", "-m"]:
                    yield container["command"][2], container.get("args", [])


def unreadable(config: Mapping[str, Any], shard: Mapping[str, Any]) -> list[str]:
    """Modules that could not read their arguments; none if the objects cannot be used."""
    try:
        spec = a_config(config)
        default = a_shard(shard, spec)
    except InvalidSpec:
        return []
    objects = [*operands_of_config(spec, FACTS, [default]), *operands_of_shard(spec, default, FACTS)]
    return [
        module
        for module, said in arguments(objects)
        if module in MODULES.values()
        and not reads(module, *(each for each in said if not each.startswith("--scheduler-conf=")))
    ]


def test_what_fields_of_a_config_may_say_all_processes_can_read():
    found = {
        (".".join(path), text): wrong
        for path in leaves(schema_of(ConfigSpec))
        for text in ODD
        if (wrong := unreadable(with_leaf(EVERYTHING, path, text), {}))
    }
    assert found == {}


def test_what_fields_of_a_shard_may_say_its_scheduler_can_read():
    found = {
        (".".join(path), text): wrong
        for path in leaves(schema_of(ShardSpec))
        for text in ODD
        if (wrong := unreadable(EVERYTHING, with_leaf({}, path, text)))
    }
    assert found == {}


# --- what others count on ----------------------------------------------------------------------
BUSY = {
    **EVERYTHING,
    "global": {"replicaCount": 2, "podLabelSelector": {"a": "b"}, "namespaceLabelSelector": {"a": "b"}},
    "scheduler": {"service": {"k8sClientConfig": {"qps": 5, "burst": 5}}},
    "podGrouper": {
        "args": {"defaultPrioritiesConfigMapName": "x", "defaultPrioritiesConfigMapNamespace": "y"},
        "maxConcurrentReconciles": 3,
    },
    "queueController": {"queueLabelToMetricLabel": "a=b", "queueLabelToDefaultMetricValue": "b=c"},
    "binder": {"maxConcurrentReconciles": 3, "cdiEnabled": True},
}
REMEMBERING = {
    "usageDBConfig": {"clientType": "redis", "usageParams": {"windowSize": "30d"}},
    "minRuntime": {"preemptMinRuntime": "1h"},
    "plugins": {"numa": {"enabled": True}},
}


def test_a_flag_that_other_objects_count_on_is_not_to_be_given():
    spec = a_config(BUSY)
    shard = a_shard(REMEMBERING, spec)
    objects = [*operands_of_config(spec, FACTS, [shard]), *operands_of_shard(spec, shard, FACTS)]
    components = {module: component for component, module in MODULES.items()}
    given = {
        (components[module], each.removeprefix("--").partition("=")[0])
        for module, said in arguments(objects)
        if module in components
        for each in said
    }
    assert {component for component, _ in given} == set(IN_A_CONFIG)
    left = {flag for component, flag in given if flag in settable(component)}
    assert left - {*NARROWER, *INSTEAD} == OF_A_PROCESS_ALONE


# --- what is told ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("component", "flag", "text", "said"),
    [
        ("binder", "log-level", "loud", "is 'loud': allowed are debug, info, warning, error"),
        ("binder", "max-concurrent-reconciles", "many", "is 'many': it must be a whole number"),
        ("binder", "max-concurrent-reconciles", "0", "is '0': it must be greater than or equal to 1"),
        ("binder", "tell-bound", "maybe", "is 'maybe': it must be true or false"),
        ("binder", "qps", "inf", "is 'inf': it must be a finite number"),
        ("binder", "drain-timeout", "nan", "is 'nan': 'nan' is not a duration"),
        ("binder", "burst", "5", "is '5': --burst has no meaning without --qps"),
        ("binder", "plugins", "{", "is '{': must be a JSON object"),
        ("queueController", "redis-url", "redis://theirs:6379/0", "set spec.redis.externalSecret of"),
        ("podGrouper", "grpc-listen", ":9", "schedulers may connect to port 9093 alone"),
        ("podGrouper", "lease-duration", "1s", "--lease-renew-deadline, and that below --lease-duration"),
    ],
)
def test_a_value_that_cannot_be_read_is_told_by_its_field(component, flag, text, said):
    with pytest.raises(InvalidSpec) as caught:
        a_config({component: {"service": {"extraArgs": {flag: text}}}})
    (problem,) = caught.value.problems
    assert problem.field == f"spec.{component}.service.extraArgs.{flag}"
    assert said in problem.text


@pytest.mark.parametrize(
    ("given", "field"),
    [({"previews": "true"}, "previews"), ({"previews": "true", "grpc-listen": ":9093"}, "previews")],
)
def test_previews_are_served_to_others_only_where_processes_have_certificates(given, field):
    said = {"podGrouper": {"service": {"extraArgs": given}}}
    assert a_config(said).pod_grouper.service.extra_args == given
    with pytest.raises(InvalidSpec) as caught:
        a_config({**said, "global": {"tls": {"enabled": False}}})
    (problem,) = caught.value.problems
    assert problem.field == f"spec.podGrouper.service.extraArgs.{field}"
    assert "previews are served to other machines with TLS only" in problem.text
    here = {"previews": "true", "grpc-listen": "127.0.0.1:9"}
    said = {"podGrouper": {"service": {"extraArgs": here}}, "global": {"tls": {"enabled": False}}}
    assert a_config(said).pod_grouper.service.extra_args == here


def test_the_pod_grouper_may_tell_nobody():
    for listen in ("", "127.0.0.1:9090"):
        given = {"podGrouper": {"service": {"extraArgs": {"grpc-listen": listen}}}}
        assert a_config(given).pod_grouper.service.extra_args == {"grpc-listen": listen}


def test_a_config_does_not_say_which_shard_all_schedulers_are():
    with pytest.raises(InvalidSpec, match=r"partition-label-value says what a shard is"):
        a_config({"scheduler": {"service": {"extraArgs": {"partition-label-value": "a"}}}})


@pytest.mark.parametrize(
    ("component", "flag", "field"),
    [
        ("admission", "webhook-addr", "spec.admission.webhook.targetPort"),
        ("admission", "listen-address", "spec.admission.webhook.metricsPort"),
        ("binder", "health-listen", "spec.binder.probePort"),
        ("insight", "http-listen", "spec.insight.httpPort"),
        (
            "podGroupController",
            "enable-podgroup-webhook",
            "spec.podGroupController.webhooks.enableValidation",
        ),
        ("queueController", "enable-webhook", "spec.queueController.webhooks.enableValidation"),
        (
            "queueController",
            "metrics-bind-address",
            "spec.queueController.controllerService.metrics.targetPort",
        ),
        ("scheduler", "grpc-listen", "spec.scheduler.schedulerService.grpcPort"),
        ("scheduler", "redis-url", "spec.redis.externalSecret"),
        ("podGrouper", "health-listen", ""),
        ("nodeScaleAdjuster", "metrics-bind-address", ""),
    ],
)
def test_who_gives_a_flag_that_is_more_is_told_the_field_for_it(component, flag, field):
    with pytest.raises(InvalidSpec) as caught:
        a_config({component: {"service": {"extraArgs": {flag: ":1"}}}})
    (problem,) = caught.value.problems
    said = f"set {field} of the Config" if field else "is given by the installation itself; remove it"
    assert said in problem.text


def test_what_a_shard_says_is_looked_at_beside_what_the_config_says():
    paced = a_config({"scheduler": {"service": {"k8sClientConfig": {"qps": 20}}}})
    assert a_shard({"args": {"burst": "50"}}, paced).spec.args == {"burst": "50"}
    with pytest.raises(InvalidSpec, match=r"spec\.args\.burst is '50': --burst has no meaning without --qps"):
        a_shard({"args": {"burst": "50"}}, a_config({}))


@pytest.mark.parametrize(
    ("field", "text"),
    [("metricsNamespace", "a b"), ("queueLabelToMetricLabel", "a"), ("queueLabelToMetricLabel", "a,b==")],
)
def test_what_metrics_cannot_be_called_is_refused_by_field(field, text):
    with pytest.raises(InvalidSpec) as caught:
        a_config({"queueController": {field: text}})
    assert [each.field for each in caught.value.problems] == [f"spec.queueController.{field}"]
