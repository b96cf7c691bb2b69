"""Every set of values renders to objects that Kubernetes takes."""

import base64
import importlib
import json
import re
from itertools import chain
from pathlib import Path
from unittest import mock

import pytest
import yaml
from cryptography import x509

from kai.config import ACTIONS, SchedulerConfig
from kai.config.plugin_table import DEFAULT_PLUGINS
from kai.model import names
from kai.model.documents import load_written
from kai.model.rules.priorities import CLASSES
from kai.operands import read_config, read_shard
from kai.operands.facts import PROMETHEUS
from kai.runtime import ServiceSettings, SettingsError
from kai.session.credentials import RedisCredentials

CHART = Path(__file__).resolve().parents[1] / "kai-scheduler"
KUBERNETES = "1.34"
EXISTING = {"existing": {"enabled": True, "caBundle": "Q0E="}}
DEPLOYMENTS = {
    "admission": "kai_admission",
    "binder": "kai_binder",
    "insight": "kai_insight",
    "kai-operator": "kai_operator",
    "kai-scheduler-default": "kai_scheduler",
    "node-scale-adjuster": "kai_node_scale_adjuster",
    "pod-grouper": "kai_pod_grouper",
    "podgroup-controller": "kai_podgroup_controller",
    "queue-controller": "kai_queue_controller",
}


#: Those that run unless a value says otherwise.
USUAL = DEPLOYMENTS.keys() - {"node-scale-adjuster", "insight"}
VALUES = load_written((Path(__file__).parent / "values.yaml").read_text())


@pytest.fixture(scope="module")
def rendered(helm):
    """Rendered objects by the name of their values; each set is rendered once.

    Making certificates takes most of the time, so most sets do without.
    """
    known: dict[str, list] = {}

    def render(name):
        if name not in known:
            values = VALUES[name] if name == "defaults" else {**VALUES[name], "certificates": EXISTING}
            known[name] = helm.render(values=values)
        return known[name]

    return render


def containers(objects):
    for name, deployment in objects.of("Deployment").items():
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            yield name, deployment["spec"]["template"]["spec"], container


# --- validity ----------------------------------------------------------------------------------
def test_the_chart_passes_lint(helm):
    result = helm.run("lint", "--strict", str(CHART))
    assert result.returncode == 0, result.stdout


def test_every_object_is_one_that_kubernetes_takes(rendered, jsonschema):
    validators = custom_resource_validators(jsonschema)
    # Imported here for the same reason as jsonschema, which it imports.
    validate = importlib.import_module("kubernetes_validate").validate
    seen = set()
    for name in VALUES:
        for rendered_object in rendered(name):
            if rendered_object["kind"] == "Secret":
                rendered_object = {**rendered_object, "data": {}}  # random, and base64 whatever it is
            text = json.dumps(rendered_object, sort_keys=True)
            if text not in seen:
                check(rendered_object, validators, validate)
                seen.add(text)


def check(rendered_object, validators, validate):
    key = rendered_object["apiVersion"], rendered_object["kind"]
    if key in validators:
        validators[key].validate(rendered_object)
    else:
        validate(rendered_object, KUBERNETES, strict=True)


def custom_resource_validators(jsonschema):
    """Made once: looking at the schema itself takes longer than looking at many objects."""
    found = {}
    for path in (CHART / "crds").glob("*.yaml"):
        spec = load_written(path.read_text())["spec"]
        for version in spec["versions"]:
            schema = closed(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            kind = jsonschema.validators.validator_for(schema)
            kind.check_schema(schema)
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = kind(schema)
    return found


def closed(schema):
    """The schema with unknown fields refused instead of pruned."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if isinstance(result.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    return result


@pytest.mark.parametrize("name", VALUES)
def test_no_two_objects_have_one_name(rendered, name):
    keys = []
    for rendered_object in rendered(name):
        metadata = rendered_object["metadata"]
        keys.append((rendered_object["kind"], metadata.get("namespace"), metadata["name"]))
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", VALUES)
def test_what_is_mounted_and_referred_to_exists(rendered, name):
    objects = rendered(name)
    provided = objects.of("Secret").keys() | objects.of("ConfigMap").keys()
    if name != "defaults":
        ours = ("kai-admission-webhook", "podgroup-webhook", "queue-webhook", "scheduler-grpc", "binder-grpc")
        ours += (
            "pod-grouper-grpc",
            "podgroup-controller-grpc",
            "queue-controller-grpc",
            "kai-redis",
            "insight-grpc",
        )
        provided |= {f"{secret}-tls-secret" for secret in ours}
    for value in ("redis", "insight"):
        provided |= {VALUES[name].get(value, {}).get("externalSecret", {}).get("name")}
    for deployment, pod, container in containers(objects):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            source = volume.get("secret", {}).get("secretName") or volume.get("configMap", {}).get("name")
            assert source is None or source in provided, deployment
        for variable in container.get("env", []):
            secret = variable.get("valueFrom", {}).get("secretKeyRef")
            assert secret is None or secret["name"] in provided, deployment
        if pod.get("serviceAccountName"):
            assert pod["serviceAccountName"] in objects.of("ServiceAccount")


@pytest.mark.parametrize("name", VALUES)
def test_services_lead_to_ports_that_containers_have(rendered, name):
    objects = rendered(name)
    workloads = {**objects.of("Deployment"), **objects.of("DaemonSet")}
    ports = {
        app: {port["name"] for port in workload["spec"]["template"]["spec"]["containers"][0]["ports"]}
        for app, workload in workloads.items()
    }
    for service in objects.of("Service").values():
        for port in service["spec"]["ports"]:
            selector = service["spec"].get("selector") or {"app": service["metadata"]["name"]}
            assert port["targetPort"] in ports[selector["app"]]
    for deployment, _, container in containers(objects):
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                check = container[probe].get("httpGet") or container[probe]["tcpSocket"]
                assert check["port"] in ports[deployment]


# --- security ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", VALUES)
def test_every_container_is_restricted(rendered, name):
    for deployment, pod, container in containers(rendered(name)):
        context, pod_context = container["securityContext"], pod["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, deployment
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert pod_context["runAsNonRoot"] is True
        assert pod_context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert ("runAsUser" in pod_context) == (name != "openshift")
        assert container["resources"]["requests"]
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", VALUES)
def test_only_pods_that_talk_to_the_api_server_have_a_token(rendered, name):
    for deployment, pod, _ in containers(rendered(name)):
        assert pod["automountServiceAccountToken"] is (deployment != "kai-redis")
        assert pod["enableServiceLinks"] is False


def test_a_users_security_context_comes_on_top(helm):
    contexts = {"podSecurityContext": {"runAsUser": 5}, "securityContext": {"privileged": False}}
    objects = helm.render(values={"global": contexts})
    pod = objects.one("Deployment", "binder")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == 5
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["privileged"] is False
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_admission_may_read_what_its_warnings_go_by_and_nothing_else(rendered):
    rules = rendered("defaults").one("ClusterRole", "kai-admission")["rules"]
    assert {name for rule in rules for name in rule["resources"]} == {
        "queues",
        "priorityclasses",
        "namespaces",
        "nodes",
        "deviceclasses",
    }
    assert {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list", "watch"}
    bound = rendered("defaults").one("ClusterRoleBinding", "kai-admission")["subjects"][0]["name"]
    bindings = rendered("defaults").of("RoleBinding").values()
    assert not [each for each in bindings if bound in {who["name"] for who in each["subjects"]}]


# --- flags -------------------------------------------------------------------------------------
def settings_of(module):
    """The settings class of a service, by which it reads its flags."""
    path = f"{module}.settings"
    (settings,) = (
        value
        for value in vars(importlib.import_module(path)).values()
        if isinstance(value, type) and issubclass(value, ServiceSettings) and value.__module__ == path
    )
    return settings


@pytest.mark.parametrize("name", VALUES)
def test_services_understand_the_flags_that_they_are_given(rendered, name):
    for deployment, _, container in containers(rendered(name)):
        if (
            deployment == "kai-redis"
            or importlib.util.find_spec(f"{DEPLOYMENTS[deployment]}.settings") is None
        ):
            continue
        module = DEPLOYMENTS[deployment]
        assert container["command"] == ["python", "-m", module]
        try:
            settings_of(module).parse(container["args"])
        except SettingsError as error:
            pytest.fail(f"{deployment}: {error}")


def test_the_wanted_runtime_classes_reach_their_services(rendered):
    objects = rendered("runtime classes")
    admission = settings_of("kai_admission").parse(objects.flags("admission"))
    assert admission.runtime_class == "custom"
    binder = settings_of("kai_binder").parse(objects.flags("binder"))
    assert binder.runtime_class_name == "nvidia"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"gpuPodRuntimeClassName": "older"}, "older"),
        ({"gpuPodRuntimeClassName": "older", "gpuFractionRuntimeClassName": None}, "older"),
        ({"gpuPodRuntimeClassName": "older", "gpuFractionRuntimeClassName": "newer"}, "newer"),
        ({"gpuPodRuntimeClassName": ""}, "nvidia"),
    ],
)
def test_the_older_name_of_the_runtime_class_counts_where_the_newer_says_nothing(helm, names, expected):
    flags = helm.render(values={"admission": names}).flags("admission")
    assert settings_of("kai_admission").parse(flags).runtime_class == expected


@pytest.mark.parametrize("value", [None, ""], ids=["null", "empty"])
def test_null_and_empty_both_mean_no_runtime_class(helm, value):
    flags = helm.render(values={"admission": {"gpuFractionRuntimeClassName": value}}).flags("admission")
    assert settings_of("kai_admission").parse(flags).runtime_class == ""


def test_gpu_sharing_is_off_unless_asked_for(rendered):
    parse = settings_of("kai_admission").parse
    assert not parse(rendered("defaults").flags("admission")).gpu_sharing_enabled
    asked = parse(rendered("gpu sharing").flags("admission"))
    assert asked.gpu_sharing_enabled
    assert asked.block_nvidia_visible_devices
    assert parse(rendered("memory limits by hami").flags("admission")).hami_core_enabled


@pytest.mark.parametrize(
    ("values", "strategy"),
    [
        ({}, {"type": "Recreate"}),
        ({"operator": {"replicaCount": 2}}, None),
        ({"global": {"leaderElection": True}}, None),
        (
            {"operator": {"replicaCount": 2}, "global": {"requireDefaultPodAntiAffinityTerm": True}},
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        ),
        ({"operator": {"replicaCount": 2, "affinity": {"podAntiAffinity": None}}}, None),
    ],
    ids=["one", "several", "one that is elected", "several that must be apart", "several anywhere"],
)
def test_two_operators_work_at_the_same_time_only_where_one_is_elected(helm, values, strategy):
    """Of two versions each would undo what the other one does."""
    operator = helm.chart(values=values).one("Deployment", "kai-operator")["spec"]
    (container,) = operator["template"]["spec"]["containers"]
    assert operator.get("strategy") == strategy
    assert ("--leader-elect" in container["args"]) is (strategy != {"type": "Recreate"})


def test_leaders_are_elected_where_there_are_several(rendered):
    objects = rendered("several replicas")
    assert "--leader-elect" in objects.flags("pod-grouper")
    assert "--leader-elect" not in objects.flags("queue-controller")
    assert objects.one("Deployment", "binder")["spec"]["replicas"] == 3
    assert objects.of("PodDisruptionBudget").keys() == USUAL - {"queue-controller", "kai-operator"}
    assert not rendered("defaults").of("PodDisruptionBudget")
    assert "binder" not in rendered("no disruption budgets").of("PodDisruptionBudget")


def test_numbers_are_written_as_they_were_given_however_large(helm):
    """helm reads those of a file as floats."""
    values = {
        "insight": {"enabled": True, "args": {"replay-bytes": 2147483648}},
        "nodescaleadjuster": {"gpuMemoryToFractionRatio": 0.00005},
        "operator": {"args": {"burst": 2000000, "qps": 0.5}},
        "scheduler": {
            "args": {"max-consolidation-preemptees": 1000000, "partition-label-value": 1234567},
            "kValue": 1500000,
        },
    }
    text = helm.text(values=values)
    assert re.findall(r"\d(?:\.\d+)?e[+-]\d+", text) == []
    rendered = helm.render(values=values)
    assert "--replay-bytes=2147483648" in rendered.flags("insight")
    assert {"--burst=2000000", "--qps=0.5"} <= {*rendered.flags("kai-operator")}
    spec = rendered.one("SchedulingShard", "default")["spec"]
    assert spec["args"] == {"max-consolidation-preemptees": "1000000"}
    assert (spec["partitionLabelValue"], spec["kValue"]) == ("1234567", 1500000)


@pytest.mark.parametrize(
    ("said", "requests", "limits"),
    [
        ({}, {"cpu": "50m", "memory": "128Mi"}, {"memory": "384Mi"}),
        ({"requests": {"memory": "1Gi"}}, {"cpu": "50m", "memory": "1Gi"}, {"memory": "1Gi"}),
        ({"limits": {"memory": "100M"}}, {"cpu": "50m", "memory": "100M"}, {"memory": "100M"}),
        (
            {"limits": {"cpu": "20m", "memory": "1Gi"}},
            {"cpu": "20m", "memory": "128Mi"},
            {"cpu": "20m", "memory": "1Gi"},
        ),
        (
            {"requests": {"memory": "512Mi"}, "limits": {"memory": "384Mi"}},
            {"cpu": "50m", "memory": "512Mi"},
            {"memory": "512Mi"},
        ),
    ],
)
def test_default_amounts_of_the_operator_give_way_to_what_is_said_of_the_other(helm, said, requests, limits):
    operator = helm.chart(values={"operator": {"resources": said}}).one("Deployment", "kai-operator")
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    found = container["resources"]
    assert (found["requests"], found["limits"]) == (requests, limits)


AMOUNTS = {"requests": {"cpu": 0.5, "memory": 1000000000}, "limits": {"cpu": 2}}


def test_amounts_may_be_numbers_whole_or_not(helm, jsonschema):
    """A Config takes whole numbers and texts."""
    written = {"requests": {"cpu": "0.5", "memory": "1000000000"}, "limits": {"cpu": "2"}}
    parts = ("admission", "binder", "insight", "numaPlacementExporter", "redis", "operator")
    bounds = {"containerName": "*", "minAllowed": {"cpu": 0.5}, "maxAllowed": {"cpu": 2}}
    policy = {"containerPolicies": [bounds]}
    values = {part: {"resources": AMOUNTS} for part in parts}
    values["binder"] |= {"resourceReservationPodResources": AMOUNTS, "vpa": {"resourcePolicy": policy}}
    values |= {"global": {"vpa": {"resourcePolicy": policy}}, "crdupgrader": {"resources": AMOUNTS}}
    values["insight"] |= {"enabled": True, "persistence": {"size": 20000000000}}
    values["redis"] |= {"persistence": {"enabled": True, "size": 2000000000}}
    objects = helm.chart(values=values)
    config = objects.one("Config", "kai-config")
    custom_resource_validators(jsonschema)["kai.scheduler/v1", "Config"].validate(config)
    spec = config["spec"]
    assert [spec[part]["service"]["resources"] for part in parts[:4]] == [written] * 4
    assert spec["redis"]["resources"] == spec["binder"]["resourceReservation"]["podResources"] == written
    sizes = [spec[part]["persistence"]["size"] for part in ("insight", "redis")]
    assert sizes == ["20000000000", "2000000000"]
    for vpa in (spec["binder"]["vpa"], spec["global"]["vpa"]):
        (allowed,) = vpa["resourcePolicy"]["containerPolicies"]
        assert (allowed["minAllowed"], allowed["maxAllowed"]["cpu"]) == ({"cpu": "0.5"}, "2")
    for kind, name in (("Deployment", "kai-operator"), ("Job", "kai-crd-upgrader")):
        (container,) = objects.one(kind, name)["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["requests"] == written["requests"]


def test_a_duration_of_no_time_may_be_the_number_0(helm, jsonschema):
    searches = {"maxJobSearchDuration": 0, "maxActionSearchDuration": {"default": 0, "reclaim": "5s"}}
    scheduler = {
        "scenarioSearchBudgets": searches,
        "minRuntime": {"preemptMinRuntime": 0},
        "usageDBConfig": {"usageParams": {"halfLifePeriod": 0, "windowSize": "2d"}},
    }
    exporter = {"enabled": True, "driftResyncInterval": 0}
    objects = helm.chart(values={"scheduler": scheduler, "numaPlacementExporter": exporter})
    validators = custom_resource_validators(jsonschema)
    config, shard = objects.one("Config", "kai-config"), objects.one("SchedulingShard", "default")
    validators["kai.scheduler/v1", "SchedulingShard"].validate(shard)
    validators["kai.scheduler/v1", "Config"].validate(config)
    installed = read_config(config)
    assert installed.numa_placement_exporter.drift_resync_interval == "0"
    read = SchedulerConfig.parse(yaml.safe_dump(dict(read_shard(shard, installed).file)))
    assert (read.budgets.job, read.budgets.action["default"]) == (0.0, 0.0)
    assert read.usage_db is not None
    assert read.usage_db.params.half_life is None


def test_a_pool_may_be_called_by_a_number(helm):
    values = {"scheduler": {"args": {"partition-label-value": 0}}}
    assert helm.chart(values=values).one("SchedulingShard", "default")["spec"]["partitionLabelValue"] == "0"


def test_a_users_flags_come_last(rendered):
    assert rendered("json logs and more flags").flags("binder")[-1] == "--log-level=debug"


# --- scheduler configuration -------------------------------------------------------------------
def scheduler_config(objects):
    return load_written(objects.one("ConfigMap", "kai-scheduler-default")["data"]["config.yaml"])


def plugins(objects):
    (tier,) = scheduler_config(objects)["tiers"]
    return {plugin["name"]: plugin.get("arguments") for plugin in tier["plugins"]}


def test_the_default_configuration_packs(rendered):
    config = scheduler_config(rendered("defaults"))
    assert config["actions"] == ", ".join(ACTIONS)
    assert tuple(plugins(rendered("defaults"))) == DEFAULT_PLUGINS
    assert plugins(rendered("defaults"))["nodeplacement"] == {"gpu": "binpack", "cpu": "binpack"}


def test_changes_to_plugins_and_actions_are_merged_one_by_one(rendered):
    objects = rendered("spread")
    config = scheduler_config(objects)
    untouched = [each for each in ACTIONS if each not in {"allocate", "consolidation", "preempt"}]
    assert config["actions"] == ", ".join([*untouched, "allocate"])
    assert config["scenarioSearchBudgets"] == {"maxJobSearchDuration": "1m"}
    found = plugins(objects)
    assert "gpuspread" in found
    assert not {"gpupack", "gpusharingorder", "elastic"} & found.keys()
    assert found["nodeplacement"] == {"gpu": "spread", "cpu": "spread"}
    assert found["proportion"] == {"kValue": "2.0"}
    assert list(found)[-2:] == ["predicates", "numa"]


def test_headroom_packs_devices_but_does_not_insist_on_shared_ones(rendered):
    objects = rendered("headroom")
    assert scheduler_config(objects)["actions"] == scheduler_config(rendered("defaults"))["actions"]
    found = plugins(objects)
    assert "gpupack" in found
    assert not {"gpuspread", "gpusharingorder"} & found.keys()
    assert found["nodeplacement"] == {"gpu": "headroom", "cpu": "headroom"}


@pytest.mark.parametrize("name", ["defaults", "spread", "headroom"])
def test_the_scheduler_understands_its_configuration(rendered, name):
    from kai.engine import SchedulerConfig

    text = rendered(name).one("ConfigMap", "kai-scheduler-default")["data"]["config.yaml"]
    assert SchedulerConfig.parse(text)


def test_a_changed_configuration_restarts_the_scheduler(rendered):
    def checksum(name):
        template = rendered(name).one("Deployment", "kai-scheduler-default")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum("defaults") != checksum("spread")
    assert checksum("defaults") == checksum("openshift")


# --- placement ---------------------------------------------------------------------------------
def affinity_of(objects, deployment):
    return objects.one("Deployment", deployment)["spec"]["template"]["spec"]["affinity"]


def test_replicas_prefer_different_nodes(rendered):
    affinity = affinity_of(rendered("defaults"), "binder")
    (preferred,) = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["weight"] == 100
    assert preferred["podAffinityTerm"]["labelSelector"]["matchLabels"] == {"app": "binder"}
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in affinity["podAntiAffinity"]


def test_replicas_need_different_nodes_on_demand(rendered):
    affinity = rendered("several replicas").one("Deployment", "binder")["spec"]["template"]["spec"][
        "affinity"
    ]
    assert affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]


def test_global_placement_reaches_every_pod(rendered):
    for _, pod, _ in containers(rendered("placed")):
        assert pod["nodeSelector"] == {"pool": "system"}
        assert pod["tolerations"][0]["key"] == "system"
        assert "nodeAffinity" in pod["affinity"]
        assert pod["priorityClassName"] == "system-cluster-critical"


def test_a_components_own_affinity_wins_section_by_section(helm):
    own = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    values = VALUES["placed"] | {"binder": {"affinity": {"podAntiAffinity": own}}}
    affinity = affinity_of(helm.render(values=values), "binder")
    assert affinity["podAntiAffinity"] == own
    assert "nodeAffinity" in affinity


# --- images ------------------------------------------------------------------------------------
def test_images_follow_the_registry_and_the_most_specific_tag(rendered):
    images = {name: (c["image"], c["imagePullPolicy"]) for name, _, c in containers(rendered("own images"))}
    assert images["binder"] == ("images.example.com/ml/kai-scheduler:1.2.3", "Always")
    assert images["kai-scheduler-default"] == ("images.example.com/ml/kai-scheduler:1.2.4", "Never")
    reservation = [f for f in rendered("own images").flags("binder") if "reservation-pod-image" in f]
    assert sorted(reservation) == [
        "--resource-reservation-pod-image-pull-policy=Always",
        "--resource-reservation-pod-image=images.example.com/ml/kai-scheduler:1.2.3",
    ]
    for _, pod, _ in containers(rendered("own images")):
        assert pod["imagePullSecrets"] == [{"name": "pull"}]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ("IfNotPresent", "IfNotPresent")),
        ({"global": {"imagePullPolicy": "Always"}}, ("Always", "Always")),
        (
            {
                "binder": {"resourceReservationImage": {"pullPolicy": "Never"}},
                "nodescaleadjuster": {"scalingPodImage": {"pullPolicy": "Always"}},
            },
            ("Never", "Always"),
        ),
    ],
    ids=["defaults", "of all images", "their own"],
)
def test_pull_policies_reach_the_pods_that_components_make(helm, values, expected):
    every = {**values, "global": {**values.get("global", {}), "clusterAutoscaling": True}}
    objects = helm.render(values=every)
    binder = settings_of("kai_binder").parse(objects.flags("binder"))
    adjuster = settings_of("kai_node_scale_adjuster").parse(objects.flags("node-scale-adjuster"))
    assert (
        binder.resource_reservation_pod_image_pull_policy,
        adjuster.scaling_pod_image_pull_policy,
    ) == expected


def test_without_a_tag_the_version_of_the_chart_counts(rendered):
    version = load_written((CHART / "Chart.yaml").read_text())["appVersion"]
    assert all(c["image"].endswith(f":{version}") for _, _, c in containers(rendered("defaults")))


@pytest.mark.parametrize("images", [{}, {"tag": "1.2.3"}], ids=["chart's version", "tag"])
def test_in_fips_mode_tags_of_all_images_say_so(helm, images):
    objects = helm.render(values={"global": {"fipsMode": "on", **images}})
    used = {container["image"] for _, _, container in containers(objects)}
    given = [flag for flag in objects.flags("binder") if flag.startswith("--resource-reservation-pod-image=")]
    assert len(given) == 1
    assert [image for image in (*used, *given) if not image.endswith("-fips")] == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"tag": f"sha256:{'ab' * 32}"}, f"@sha256:{'ab' * 32}"),
        ({"tag": f"1.2.3@sha256:{'ab' * 32}"}, f":1.2.3@sha256:{'ab' * 32}"),
        # Which image a digest names nobody can change.
        ({"tag": f"1.2.3@sha256:{'ab' * 32}", "fipsMode": "on"}, f":1.2.3@sha256:{'ab' * 32}"),
        ({"tag": f"sha256:{'ab' * 32}", "fipsMode": "on"}, f"@sha256:{'ab' * 32}"),
    ],
)
def test_a_tag_may_be_or_have_a_digest(helm, values, expected):
    objects = helm.render(values={"global": values, "certificates": EXISTING})
    used = {container["image"] for _, _, container in containers(objects)}
    jobs = {
        container["image"]
        for job in objects.of("Job").values()
        for container in job["spec"]["template"]["spec"]["containers"]
    }
    assert len(jobs) == 1
    assert used | jobs == {f"registry/local/kai-scheduler{expected}"}
    given = objects.flags("binder")
    assert f"--resource-reservation-pod-image=registry/local/kai-scheduler{expected}" in given


# --- redis -------------------------------------------------------------------------------------
def redis_variables(objects):
    found = {}
    for name, _, container in containers(objects):
        for variable in container.get("env", []):
            if variable["name"] == "KAI_REDIS_URL":
                found[name] = variable["valueFrom"]["secretKeyRef"]
    return found


REDIS_USERS = {"kai-scheduler-default", "queue-controller"}


def external(objects):
    """Name of the secret that is made of the URL of another Redis."""
    (name,) = [each for each in objects.of("Secret") if each.startswith("kai-redis-external")]
    return name


def secret_of(objects, name="kai-redis"):
    data = objects.one("Secret", name)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def redis_settings(objects, deployment, secret="kai-redis"):
    """What a component makes of its flags and of the URL in the secret."""
    with mock.patch.dict("os.environ", {"KAI_REDIS_URL": secret_of(objects, secret)["url"]}):
        return settings_of(DEPLOYMENTS[deployment]).parse(objects.flags(deployment))


def redis_pod(objects):
    return objects.one("Deployment", "kai-redis")["spec"]["template"]


def test_a_redis_with_a_password_and_tls_comes_with_the_chart(rendered):
    objects = rendered("defaults")
    secret = secret_of(objects)
    assert secret["url"] == "rediss://kai-redis.kai-scheduler.svc:6379/0"
    assert len(secret["password"]) >= 32
    assert redis_variables(objects).keys() == REDIS_USERS
    for deployment in REDIS_USERS:
        found = redis_settings(objects, deployment).redis_credentials
        assert found == RedisCredentials(
            ca="/etc/kai/redis-authority/ca.crt",
            server_name="kai-redis",
            password_file="/etc/kai/redis/password",
        )
    # What says how to reach it is mounted where the flags say, and to nobody else.
    mounted = {
        name for name, pod, _ in containers(objects) if "kai-redis" in [v["name"] for v in pod["volumes"]]
    }
    assert mounted == REDIS_USERS | {"kai-redis"}
    for name, pod, _ in containers(objects):
        for volume in pod["volumes"]:
            secret = volume.get("secret", {})
            if secret.get("secretName") == "kai-redis-tls-secret" and name != "kai-redis":
                assert secret["items"] == [{"key": "ca.crt", "path": "ca.crt"}], name


def test_the_password_of_redis_is_in_its_secret_and_nowhere_else(rendered):
    objects = rendered("defaults")
    password = secret_of(objects)["password"]
    others = [o for o in objects if (o["kind"], o["metadata"]["name"]) != ("Secret", "kai-redis")]
    assert password not in str(others)


def test_redis_starts_anew_with_a_new_password(helm):
    values = {"certificates": EXISTING}
    first, again, second = (helm.render(values=values, redis_password_digest=text) for text in "aab")
    assert redis_pod(first) == redis_pod(again)
    assert redis_pod(first)["metadata"]["annotations"] != redis_pod(second)["metadata"]["annotations"]


def test_clients_trust_redis_by_the_authority_that_signed_its_certificate(helm, tmp_path):
    objects = helm.render()
    data = objects.one("Secret", "kai-redis-tls-secret")["data"]
    signed = x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"]))
    authority = x509.load_pem_x509_certificate(base64.b64decode(data["ca.crt"]))
    signed.verify_directly_issued_by(authority)
    names_of_it = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kai-redis" in names_of_it.get_values_for_type(x509.DNSName)


def test_without_tls_between_processes_redis_is_plain_but_keeps_its_password(rendered):
    objects = rendered("plain text between processes")
    assert secret_of(objects)["url"] == "redis://kai-redis.kai-scheduler.svc:6379/0"
    assert redis_settings(objects, "queue-controller").redis_credentials == RedisCredentials(
        password_file="/etc/kai/redis/password"
    )
    (container,) = redis_pod(objects)["spec"]["containers"]
    assert not [flag for flag in container["args"] if "tls" in flag]


def test_another_redis_can_be_used(rendered):
    objects = rendered("external redis")
    assert "kai-redis" not in objects.of("Deployment")
    assert secret_of(objects, external(objects)) == {"url": "redis://cache.example.com:6379/1"}
    settings = redis_settings(objects, "queue-controller", external(objects))
    assert settings.redis_credentials == RedisCredentials()
    assert redis_variables(objects).keys() == REDIS_USERS
    by_secret = rendered("external redis by secret")
    assert "kai-redis" not in by_secret.of("Deployment")
    assert redis_variables(by_secret)["queue-controller"] == {"name": "my-redis", "key": "url"}


@pytest.mark.parametrize(
    "change",
    [
        {"externalUrl": "rediss://u:p@elsewhere.example.com/1"},
        {"externalUrl": "rediss://u:new@cache.example.com/1"},
        {"externalCa": "-----BEGIN CERTIFICATE-----\nnew"},
    ],
    ids=["host", "password", "authority"],
)
def test_pods_are_replaced_when_another_redis_is_named(helm, change):
    """They read its URL as they start."""
    before = {"externalUrl": "rediss://u:p@cache.example.com/1", "externalCa": "-----BEGIN CERTIFICATE-----"}
    every = [{"redis": each, "certificates": EXISTING} for each in (before, before | change)]
    first, second = (helm.render(values=values) for values in every)
    for deployment in REDIS_USERS:
        one, other = (each.one("Deployment", deployment)["spec"]["template"] for each in (first, second))
        assert one != other
    for objects in (first, second):
        assert redis_variables(objects)["queue-controller"] == {"name": external(objects), "key": "url"}


def test_another_redis_may_have_an_authority_of_its_own(helm):
    values = {"externalUrl": "rediss://u:p@cache.example.com/1", "externalCa": "-----BEGIN CERTIFICATE-----"}
    objects = helm.render(values={"redis": values, "certificates": EXISTING})
    assert secret_of(objects, external(objects))["ca.crt"] == values["externalCa"]
    settings = redis_settings(objects, "kai-scheduler-default", external(objects))
    assert settings.redis_ca == "/etc/kai/redis/ca.crt"
    values = {"externalSecret": {"name": "my-redis", "caKey": "authority"}}
    by_secret = helm.render(values={"redis": values, "certificates": EXISTING})
    assert "--redis-ca=/etc/kai/redis/authority" in by_secret.flags("kai-scheduler-default")
    pod = by_secret.one("Deployment", "kai-scheduler-default")["spec"]["template"]["spec"]
    assert "my-redis" in [volume.get("secret", {}).get("secretName") for volume in pod["volumes"]]


def test_no_redis_is_possible(rendered):
    objects = rendered("no redis")
    assert not redis_variables(objects)
    assert "kai-redis" not in objects.of("Secret")


# --- queues, classes, namespaces ---------------------------------------------------------------
def test_default_queues_are_made_before_the_webhook_and_are_kept(rendered):
    queues = rendered("defaults").of("Queue")
    assert queues["default-queue"]["spec"]["parentQueue"] == "default-parent-queue"
    for queue in queues.values():
        assert queue["spec"]["resources"]["gpu"] == {"quota": 0, "limit": -1, "overQuotaWeight": 1}
        assert queue["metadata"]["annotations"]["helm.sh/hook"] == "pre-install"
        assert queue["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    weights = {name: int(q["metadata"]["annotations"]["helm.sh/hook-weight"]) for name, q in queues.items()}
    assert weights["default-parent-queue"] < weights["default-queue"]


def test_queues_and_classes_can_be_left_to_others(rendered):
    objects = rendered("queues and classes by others")
    assert not objects.of("Queue")
    assert not objects.of("PriorityClass")


def test_priority_classes_have_the_values_that_users_know(rendered):
    classes = {name: c["value"] for name, c in rendered("defaults").of("PriorityClass").items()}
    assert classes == {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


def test_roles_and_policies_name_the_classes_that_the_operator_makes(rendered):
    objects = rendered("defaults")
    [writes] = [
        rule["resourceNames"]
        for rule in objects.one("ClusterRole", "kai-operator")["rules"]
        if "priorityclasses" in rule["resources"] and "delete" in rule["verbs"]
    ]
    assert writes == list(CLASSES)
    policy = objects.one("ValidatingAdmissionPolicy", "kai-accounts-priorityclasses-create")
    [rule] = policy["spec"]["validations"]
    assert re.findall(r"'([a-z-]+)'", rule["expression"]) == list(CLASSES)


def test_openshift_gets_constraints_that_all_our_accounts_may_use_and_no_other_cluster_does(helm):
    served = ("--api-versions", "security.openshift.io/v1")
    values = {"global": {"clusterAutoscaling": True}, "certificates": EXISTING}
    kind = "SecurityContextConstraints"
    assert not helm.render(*served, values=values).of(kind)
    assert not helm.render(values={**values, "openshift": True}).of(kind)
    objects = helm.render(*served, values={**values, "openshift": True})
    constraints = objects.one(kind, "kai-system")
    for deployment, pod, container in containers(objects):
        assert "runAsUser" not in pod["securityContext"], deployment
        asked = container["securityContext"]
        assert asked["capabilities"]["drop"] == constraints["requiredDropCapabilities"], deployment
        assert asked["allowPrivilegeEscalation"] is constraints["allowPrivilegeEscalation"] is False
        assert {*chain(*pod.get("volumes", ()))} - {"name"} <= {*constraints["volumes"]}, deployment
    [rule] = objects.one("ClusterRole", "kai-system-scc")["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["kai-system"], ["use"])
    given = {
        each["metadata"]["namespace"]: each["subjects"][0]["name"]
        for each in objects
        if each["kind"] == "RoleBinding" and each["roleRef"]["name"] == "kai-system-scc"
    }
    homes = {each["metadata"]["namespace"] for each in objects if each["kind"] == "ServiceAccount"}
    assert given == {home: f"system:serviceaccounts:{home}" for home in homes}


def test_openshift_lets_those_who_have_a_volume_write_to_it(helm):
    """A pod gets the group of its constraints; one that asks for another than they allow does not start."""
    served = ("--api-versions", "security.openshift.io/v1")
    values = {
        "openshift": True,
        "redis": {"persistence": {"enabled": True}},
        "insight": {"enabled": True},
        "prometheus": {"enabled": True},
    }
    objects = helm.render(*served, values=values, served=frozenset({PROMETHEUS}))
    assert objects.of("Prometheus")
    constraints = objects.one("SecurityContextConstraints", "kai-system")
    given, *asked_for = constraints["fsGroup"]["ranges"]
    assert constraints["fsGroup"]["type"] == "MustRunAs"
    assert given == {"min": 10000, "max": constraints["runAsUser"]["uid"]}
    assert any(each["min"] <= 77 <= each["max"] for each in asked_for)
    running = [each for each in objects if each["kind"] in ("Deployment", "Prometheus")]
    assert "fsGroup" not in yaml.safe_dump(running)


def test_the_reservation_namespace_is_kept_and_can_be_left_to_others(rendered):
    namespace = rendered("reservation elsewhere").one("Namespace", "gpu-holders")
    assert namespace["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    others = rendered("reservation made by others")
    assert not others.of("Namespace")
    assert names.RESERVATION_SERVICE_ACCOUNT not in others.of("ServiceAccount")


# --- bad values --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"gloabl": {}}, "gloabl is not allowed"),
        ({"global": {"gpuSharing": "yes"}}, "global.gpuSharing"),
        ({"scheduler": {"placementStrategy": "pack"}}, "scheduler.placementStrategy"),
        ({"binder": {"replicas": -1}}, "binder.replicas"),
        ({"redis": {"externalUrl": "cache:6379"}}, "redis.externalUrl"),
        ({"redis": {"externalCa": "/etc/ca.crt"}}, "redis.externalCa"),
        ({"global": {"imagePullSecrets": ["pull"]}}, "global.imagePullSecrets.0"),
        ({"certificates": {"existing": {"enabled": True}}}, "certificates.existing.caBundle is needed"),
        ({"global": {"clusterAutoscaling": "yes"}}, "global.clusterAutoscaling"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(helm, values, said):
    result = helm.template(values=values)
    assert result.returncode != 0
    assert said in result.stderr


def test_the_values_file_is_what_its_schema_says(jsonschema):
    values = load_written((CHART / "values.yaml").read_text())
    jsonschema.validate(values, json.loads((CHART / "values.schema.json").read_text()))


def test_an_old_kubernetes_is_refused(helm):
    result = helm.run("template", "kai", str(CHART), "--kube-version", "1.25.0")
    assert "incompatible with Kubernetes" in result.stderr


@pytest.mark.parametrize(
    ("key", "label"), [("example.com/pool", "example.com/pool"), ("", names.NODE_POOL_LABEL)]
)
def test_all_who_read_or_write_the_shard_of_an_object_are_told_its_label(helm, key, label):
    objects = helm.render(values={"certificates": EXISTING, "global": {"nodePoolLabelKey": key}})
    told = {
        name
        for name, _, container in containers(objects)
        if f"--nodepool-label-key={label}" in container.get("args", ())
    }
    assert told == USUAL - {"kai-operator"}
