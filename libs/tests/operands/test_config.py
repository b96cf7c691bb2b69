"""What a Config says, what holds where it says nothing, and what is told of a slip."""

import json

import pytest

from kai.operands import InvalidSpec, certificates_of, filled_by_others, read_config

#: Of resources: more is asked for than may be had.
HAMI_CORE = {"gpuSharingMode": "HamiCore"}
AT_ODDS = {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}
RESERVATION = "resource-reservation-pod-resources"


def a_config(**spec):
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "Config",
        "metadata": {"name": "kai-config"},
        "spec": spec,
    }


#: Of insight, which does not unless it is said.
RUNS = {"service": {"enabled": True}}


def problems(**spec):
    """What is told of a Config, by field."""
    with pytest.raises(InvalidSpec) as caught:
        read_config(a_config(**spec))
    return {problem.field: problem.text for problem in caught.value.problems}


# --- defaults ----------------------------------------------------------------------------------
def test_a_config_that_says_nothing_is_an_installation_with_the_usual_names():
    spec = read_config({"metadata": {"name": "kai-config"}})
    assert spec.namespace == "kai-scheduler"
    assert spec.everywhere.queue_label_key == "kai.scheduler/queue"
    assert spec.binder.resource_reservation.namespace == "kai-resource-reservation"
    assert spec.admission.runtime_class == "nvidia"
    assert (spec.gpu_sharing, spec.hami_core) == (False, False)
    assert not spec.node_scale_adjuster.service.enabled
    assert spec.numa_placement_exporter.service.enabled is None


def test_null_is_as_good_as_nothing():
    assert read_config(a_config(binder=None, admission={"replicas": None})) == read_config(a_config())


def test_what_is_given_of_a_component_leaves_the_rest_of_it_as_it_was():
    spec = read_config(a_config(binder={"service": {"resources": {"requests": {"memory": "1Gi"}}}}))
    assert spec.binder.service.resources.requests == {"cpu": "50m", "memory": "1Gi"}
    assert spec.binder.service.enabled


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"requests": {"memory": "300Mi"}}, ("300Mi", "400Mi")),
        ({"requests": {"memory": "1Gi"}}, ("1Gi", "1Gi")),
        ({"limits": {"memory": "100Mi"}}, ("100Mi", "100Mi")),
        ({"requests": {"memory": "0.5Gi"}, "limits": {"memory": "512Mi"}}, ("0.5Gi", "512Mi")),
    ],
)
def test_a_default_amount_gives_way_to_what_is_said_of_the_other(said, expected):
    resources = read_config(a_config(binder={"service": {"resources": said}})).binder.service.resources
    assert (resources.requests["memory"], resources.limits["memory"]) == expected


def test_a_limit_below_the_default_request_lowers_that_and_no_other():
    resources = {"resources": {"limits": {"cpu": "200m"}}}
    spec = read_config(a_config(scheduler={"service": resources}))
    assert spec.scheduler.service.resources.manifest() == {
        "requests": {"cpu": "200m", "memory": "512Mi"},
        "limits": {"cpu": "200m", "memory": "2Gi"},
    }
    redis = read_config(a_config(redis={"resources": {"limits": {"memory": "64Mi"}}})).redis
    assert redis.resources.requests == {"cpu": "20m", "memory": "64Mi"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, ("256mb", "448Mi")),
        ({"maxMemory": "128mb"}, ("128mb", "448Mi")),
        ({"maxMemory": "2gb"}, ("2gb", "3584Mi")),
        ({"maxMemory": "1GB", "resources": {"limits": {"cpu": "1"}}}, ("1GB", "1792Mi")),
        ({"maxMemory": "1g", "resources": {"requests": {"memory": "3Gi"}}}, ("1g", "3Gi")),
        ({"maxMemory": "1gb", "resources": {"limits": {"memory": "1100Mi"}}}, ("1gb", "1100Mi")),
        ({"maxMemory": "1gb", "resources": {"limits": {}}}, ("1gb", None)),
        ({"maxMemory": "256mb", "resources": {"limits": {"memory": "175Mi"}}}, (str(100 * 2**20), "175Mi")),
        ({"maxMemory": "1gb", "resources": {"limits": {"memory": "0"}}}, ("1gb", "0")),
        ({"resources": {"limits": {"memory": "350Mi"}}}, ("256mb", "350Mi")),
        ({"resources": {"limits": {"memory": "175Mi"}}}, (str(100 * 2**20), "175Mi")),
    ],
)
def test_redis_has_room_for_what_it_holds(said, expected):
    redis = read_config(a_config(redis=said)).redis
    assert (redis.max_memory, redis.resources.limits.get("memory")) == expected


def test_an_empty_mapping_of_amounts_is_none_of_them():
    spec = read_config(a_config(scheduler={"service": {"resources": {"limits": {}}}}))
    assert spec.scheduler.service.resources.manifest() == {"requests": {"cpu": "250m", "memory": "512Mi"}}


@pytest.mark.parametrize(
    ("admission", "expected"),
    [
        ({}, "nvidia"),
        ({"gpuFractionRuntimeClassName": ""}, ""),
        ({"gpuPodRuntimeClassName": "older"}, "older"),
        ({"gpuFractionRuntimeClassName": "newer", "gpuPodRuntimeClassName": "older"}, "newer"),
    ],
)
def test_the_newer_name_of_a_runtime_class_wins_over_the_older(admission, expected):
    assert read_config(a_config(admission=admission)).admission.runtime_class == expected


@pytest.mark.parametrize(
    ("everywhere", "admission", "binder", "expected"),
    [
        ({}, {"gpuSharing": True}, {}, (True, False)),
        ({"gpuSharingMode": "NonMemoryEnforced"}, {}, {}, (True, False)),
        ({"gpuSharingMode": "HamiCore"}, {}, {}, (True, True)),
        ({"gpuSharingMode": "Disabled"}, {}, {}, (False, False)),
        ({"gpuSharingMode": "NonMemoryEnforced"}, {"gpuSharing": False}, {}, (False, False)),
        ({"gpuSharingMode": "HamiCore"}, {}, {"plugins": {"hamicore": {"enabled": False}}}, (True, False)),
        ({}, {}, {"plugins": {"hamicore": {"enabled": True}}}, (False, True)),
    ],
)
def test_a_preset_of_gpu_sharing_holds_where_nothing_is_said_of_its_parts(
    everywhere, admission, binder, expected
):
    spec = read_config(a_config(**{"global": everywhere}, admission=admission, binder=binder))
    assert (spec.gpu_sharing, spec.hami_core) == expected


def test_the_older_name_of_a_pull_secret_is_one_of_the_list():
    everywhere = {"imagesPullSecret": "b", "additionalImagePullSecrets": ["a", "b"]}
    assert read_config(a_config(**{"global": everywhere})).everywhere.pull_secrets == ("a", "b")


def test_authorities_of_others_may_be_several_with_long_keys():
    bundle = "Q0E0" * 2**18
    existing = read_config(a_config(certificates={"existing": {"enabled": True, "caBundle": bundle}}))
    assert existing.certificates.existing.ca_bundle == bundle
    told = problems(certificates={"existing": {"caBundle": f"{bundle}Q0E0"}})
    assert "at most 1 MiB" in told["spec.certificates.existing.caBundle"]


# --- slips -------------------------------------------------------------------------------------
def test_all_that_is_wrong_is_told_at_once_each_with_its_field():
    told = problems(
        binder={"replcas": 2, "metricsPort": 70000},
        admission={"gpuSharing": "yes"},
        prometheus={"retentionPeriod": "two weeks"},
    )
    assert set(told) == {
        "spec.binder.replcas",
        "spec.binder.metricsPort",
        "spec.admission.gpuSharing",
        "spec.prometheus.retentionPeriod",
    }
    assert "did you mean 'replicas'?" in told["spec.binder.replcas"]
    assert told["spec.binder.metricsPort"] == "is 70000; it must be a whole number from 1 to 65535"
    assert told["spec.admission.gpuSharing"] == "is 'yes'; it must be true or false"
    assert "such as 30s, 1h30m, 2d or 1w" in told["spec.prometheus.retentionPeriod"]


@pytest.mark.parametrize(
    ("spec", "field", "part"),
    [
        ({"scheduler": {"GOGC": 400}}, "spec.scheduler.GOGC", "remove it"),
        ({"global": {"fipsOnly": True}}, "spec.global.fipsOnly", "images whose OpenSSL"),
        ({"global": {"gpuSharingMode": "NvFractions"}}, "spec.global.gpuSharingMode", "choose NonMem"),
        (
            {"numaPlacementExporter": {"service": {"podDisruptionBudget": {"enabled": True}}}},
            "spec.numaPlacementExporter.service.podDisruptionBudget",
            "it has a pod on each node",
        ),
        (
            {"binder": {"service": {"resources": {"claims": [{"name": "x"}]}}}},
            "spec.binder.service.resources.claims",
            "remove it",
        ),
        (
            {"scheduler": {"service": {"resources": AT_ODDS}}},
            "spec.scheduler.service.resources.requests.cpu",
            "is 2; it must not be above limits.cpu, 1500m",
        ),
        (
            {"binder": {"resourceReservation": {"podResources": AT_ODDS}}},
            "spec.binder.resourceReservation.podResources.requests.cpu",
            "is 2; it must not be above limits.cpu, 1500m",
        ),
        (
            {"binder": {"service": {"extraArgs": {RESERVATION: json.dumps(AT_ODDS)}}}},
            f"spec.binder.service.extraArgs.{RESERVATION}",
            "requests.cpu, 2, is above limits.cpu, 1500m",
        ),
        (
            {"binder": {"plugins": {"gpu-sharing": {"enabled": False}}}},
            "spec.binder.plugins.gpu-sharing",
            "did you mean 'gpusharing'?",
        ),
        (
            {"binder": {"plugins": {"gpusharing": {"arguments": {"cdi": "true"}}}}},
            "spec.binder.plugins.gpusharing.arguments.cdi",
            "known: cdiEnabled",
        ),
        (
            {"binder": {"plugins": {"volumebinding": {"arguments": {"bindTimeoutSeconds": "1m"}}}}},
            "spec.binder.plugins.volumebinding.arguments.bindTimeoutSeconds",
            "a whole number of seconds above 0",
        ),
        (
            {"binder": {"plugins": {"volumebinding": {"arguments": {"bindTimeoutSeconds": 120}}}}},
            "spec.binder.plugins.volumebinding.arguments.bindTimeoutSeconds",
            "is 120; it must be a text",
        ),
        (
            {"binder": {"plugins": {"volumebinding": {"arguments": {"bindTimeoutSeconds": "9" * 5000}}}}},
            "spec.binder.plugins.volumebinding.arguments.bindTimeoutSeconds",
            "a whole number of seconds above 0",
        ),
        (
            {
                "binder": {
                    "service": {
                        "extraArgs": {"plugins": '{"gpusharing": {"arguments": {"cdiEnabled": true}}}'}
                    }
                }
            },
            "spec.binder.service.extraArgs.plugins.gpusharing.arguments.cdiEnabled",
            "is True; it must be a text",
        ),
        (
            {"admission": {"service": {"extraArgs": {"zap-log-level": ["debug"]}}}},
            "spec.admission.service.extraArgs.zap-log-level",
            "it must be a text",
        ),
        (
            {"binder": {"plugins": {"hamicore": {"enabled": True, "priority": 500}}}},
            "spec.binder.plugins.hamicore.priority",
            "below that of gpusharing, 100",
        ),
        (
            {"binder": {"plugins": {"hamicore": {"enabled": True}, "gpusharing": {"enabled": False}}}},
            "spec.binder.plugins.hamicore",
            "needs gpusharing",
        ),
        (
            {"global": HAMI_CORE, "binder": {"plugins": {"gpusharing": {"priority": 10}}}},
            "spec.binder.plugins.hamicore.priority",
            "is 50; it must be below that of gpusharing, 10",
        ),
        (
            {"global": HAMI_CORE, "binder": {"plugins": {"hamicore": {"priority": 100}}}},
            "spec.binder.plugins.hamicore.priority",
            "is 100; it must be below that of gpusharing, 100",
        ),
        (
            {"global": HAMI_CORE, "binder": {"plugins": {"gpusharing": {"enabled": False}}}},
            "spec.binder.plugins.hamicore",
            "needs gpusharing",
        ),
        (
            {"binder": {"service": {"extraArgs": {"max-concurent-reconciles": "4"}}}},
            "spec.binder.service.extraArgs.max-concurent-reconciles",
            "did you mean 'max-concurrent-reconciles'?",
        ),
        (
            {"binder": {"service": {"extraArgs": {"tls-ca": "/x"}}}},
            "spec.binder.service.extraArgs.tls-ca",
            "given by the installation itself",
        ),
        (
            {"podGrouper": {"args": {"defaultPrioritiesConfigMapName": "x"}}},
            "spec.podGrouper.args.defaultPrioritiesConfigMapNamespace",
            "is missing",
        ),
        (
            {"podGrouper": {"k8sClientConfig": {"burst": 5}}},
            "spec.podGrouper.k8sClientConfig.burst",
            "set qps as well",
        ),
        (
            {"global": {"affinity": {"podAntiAfinity": {}}}},
            "spec.global.affinity.podAntiAfinity",
            "did you mean 'podAntiAffinity'?",
        ),
        (
            {"global": {"tolerations": [{"key": "gpu", "efect": "NoSchedule"}]}},
            "spec.global.tolerations[0].efect",
            "did you mean 'effect'?",
        ),
        (
            {"certificates": {"lifetime": "1h", "renewBefore": "2h"}},
            "spec.certificates.renewBefore",
            "it must be below lifetime, 1h",
        ),
        (
            {"certificates": {"existing": {"enabled": True}}},
            "spec.certificates.existing.caBundle",
            "trusts no webhook",
        ),
        (
            {"prometheus": {"serviceMonitor": {"interval": "5s"}}},
            "spec.prometheus.serviceMonitor.scrapeTimeout",
            "must not be above interval, 5s",
        ),
        *(
            (
                {"prometheus": {"enabled": True, "externalPrometheusUrl": url}},
                "spec.prometheus.externalPrometheusUrl",
                f"is {url!r}; write http://host:9090",
            )
            for url in ("http://[::1", "http://prometheus:port", "ftp://prometheus", "http://")
        ),
        ({"prometheus": {"storageSize": "0"}}, "spec.prometheus.storageSize", "such as 50Gi"),
        (
            {"numaPlacementExporter": {"podResourcesSocket": "/run/kubelet.sock"}},
            "spec.numaPlacementExporter.podResourcesSocket",
            "must be in podResourcesHostPath",
        ),
        ({"redis": {"persistence": {"enabled": True, "size": "0"}}}, "spec.redis.persistence.size", "as 1Gi"),
        ({"namespace": "Kai"}, "spec.namespace", "lower-case letters"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_told_with_what_to_write(spec, field, part):
    told = problems(**spec)
    assert list(told) == [field]
    assert part in told[field]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"scheduler": {"schedulerService": {"port": 9090, "targetPort": 9090}}},
            {"port": "grpcPort", "targetPort": "grpcPort"},
        ),
        ({"scheduler": {"schedulerService": {"port": 80, "targetPort": 9090}}}, {"targetPort": "grpcPort"}),
        ({"admission": {"webhook": {"targetPort": 8081}}}, {"targetPort": "probePort"}),
        ({"admission": {"webhook": {"metricsPort": 9443}}}, {"targetPort": "metricsPort"}),
        ({"admission": {"webhook": {"port": 8080}}}, {"port": "the port of its metrics"}),
        (
            {"podGroupController": {"controllerService": {"webhook": {"targetPort": 8081}}}},
            {"targetPort": "the port of its probes"},
        ),
        (
            {"podGroupController": {"controllerService": {"webhook": {"port": 8080}}}},
            {"port": "the port of its metrics"},
        ),
        (
            {"queueController": {"controllerService": {"metrics": {"port": 443, "targetPort": 9443}}}},
            {"port": "metrics.port", "targetPort": "metrics.targetPort"},
        ),
        (
            {"queueController": {"controllerService": {"webhook": {"targetPort": 8081}}}},
            {"targetPort": "the port of its probes"},
        ),
        ({"insight": {**RUNS, "grpcPort": 9092}}, {"grpcPort": "httpPort"}),
        ({"insight": {**RUNS, "grpcPort": 8081, "httpPort": 0}}, {"grpcPort": "the port of its probes"}),
        ({"insight": {**RUNS, "httpPort": 8080}}, {"httpPort": "the port of its metrics"}),
    ],
)
def test_a_port_is_of_one_thing(spec, told):
    found = {field.rpartition(".")[2]: text for field, text in problems(**spec).items()}
    assert found.keys() == told.keys()
    for field, other in told.items():
        assert f"as {other} is" in found[field]


def test_ports_of_what_does_not_run_may_be_the_same():
    assert read_config(a_config(insight={"httpPort": 8080})).insight.http_port == 8080


def test_metrics_and_probes_may_share_a_port():
    ports = {"probePort": 8080, "metricsPort": 8080}
    spec = read_config(a_config(binder=ports, admission={"webhook": ports}))
    assert spec.binder.probe_port == spec.binder.metrics_port == spec.admission.webhook.probe_port


def test_names_of_webhooks_may_be_said_as_they_are():
    checks = {"webhookConfigurationNamePrefix": "kai-queue-validation-"}
    assert read_config(a_config(queueController={"webhooks": checks})) == read_config(a_config())


@pytest.mark.parametrize("spec", ["yes", 3, ["a"]])
def test_a_spec_that_is_no_mapping_is_told(spec):
    with pytest.raises(InvalidSpec, match=r"Config kai-config: spec is .*; it must be a mapping of fields"):
        read_config({"metadata": {"name": "kai-config"}, "spec": spec})


def test_certificates_of_others_are_used_under_the_names_of_ours():
    ours = read_config({"spec": {}})
    theirs = read_config({"spec": {"certificates": {"existing": {"enabled": True, "caBundle": "Q0E="}}}})
    assert certificates_of(theirs) == {}
    assert filled_by_others(theirs) == {name for hosts in certificates_of(ours).values() for name in hosts}
    assert filled_by_others(ours) == set()
