"""What a Config says of all components, and of one of them, is found in their Deployments and beside them."""

import pytest

from kai.operands import Facts, missing_kinds, operands_of_config, operands_of_shard, read_config, read_shard
from kai.operands.facts import AUTOSCALER, PROMETHEUS, SERVICE_MONITOR
from kai_podgroup_controller.settings import PodGroupControllerSettings

BOTH = {PROMETHEUS, SERVICE_MONITOR}
APART = "podAntiAffinity"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def operands(facts=Facts(), shard=None, **spec):  # noqa: B008 (frozen)
    """All objects of an installation with one shard, by kind and name."""
    config = read_config({"metadata": {"name": "kai-config"}, "spec": spec})
    one = read_shard({"metadata": {"name": "default"}, "spec": shard or {}}, config)
    made = [*operands_of_config(config, facts, [one]), *operands_of_shard(config, one, facts)]
    return {(each["kind"], each["metadata"]["name"]): each for each in made}


def deployment(name, *, facts=Facts(), shard=None, **spec):  # noqa: B008 (frozen)
    return operands(facts, shard, **spec)["Deployment", name]["spec"]


def pod(name, **spec):
    return deployment(name, **spec)["template"]["spec"]


def flags(name, **spec):
    (container,) = pod(name, **spec)["containers"]
    return container["args"]


def everywhere(**fields):
    return {"global": fields}


# --- all objects -------------------------------------------------------------------------------
def test_accounts_come_first_and_all_objects_say_whose_they_are():
    config = read_config({"metadata": {"name": "kai-config"}})
    made = operands_of_config(config, Facts(), [])
    kinds = [each["kind"] for each in made]
    accounts = kinds.count("ServiceAccount")
    assert set(kinds[:accounts]) == {"ServiceAccount"}
    assert "ServiceAccount" not in kinds[accounts:]
    for each in made:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "kai-operator"
        assert labels["app"]
        assert not {"ownerReferences", "resourceVersion", "uid"} & each["metadata"].keys()


def test_what_is_switched_off_is_not_there():
    off = {"service": {"enabled": False}}
    names = ("admission", "binder", "podGrouper", "podGroupController", "queueController", "scheduler")
    found = operands(**dict.fromkeys(names, off), redis={"enabled": False})
    assert not [key for key in found if key[0] in ("Deployment", "ServiceAccount", "Service")]
    assert not [key for key in found if "Webhook" in key[0]]
    assert [name for kind, name in found if kind == "NetworkPolicy"] == ["kai-resource-reservation"]


# --- placement ---------------------------------------------------------------------------------
NODES = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}
OWN_NODES = {"nodeAffinity": {PREFERRED: []}}
OWN_APART = {APART: {PREFERRED: []}}


@pytest.mark.parametrize(
    ("all_of_them", "own", "nodes", "spread"),
    [
        ({}, {}, None, True),
        (NODES, {}, NODES["nodeAffinity"], True),
        ({}, OWN_NODES, OWN_NODES["nodeAffinity"], True),
        (NODES, OWN_NODES, OWN_NODES["nodeAffinity"], True),
        (NODES, OWN_APART, NODES["nodeAffinity"], False),
        (OWN_APART, {}, None, False),
    ],
)
def test_sections_of_a_components_own_win_and_replicas_are_spread_where_nobody_says(
    all_of_them, own, nodes, spread
):
    affinity = pod("binder", **everywhere(affinity=all_of_them), binder={"service": {"affinity": own}})[
        "affinity"
    ]
    assert affinity.get("nodeAffinity") == nodes
    assert bool(affinity[APART][PREFERRED]) is spread


@pytest.mark.parametrize(("required", "replicas"), [(False, 2), (True, 2), (True, 1)])
def test_replicas_must_be_apart_where_that_is_required(required, replicas):
    """A single one has nobody to be apart from."""
    spec = everywhere(requireDefaultPodAntiAffinityTerm=required, replicaCount=replicas)
    affinity = pod("binder", **spec)["affinity"]
    assert (REQUIRED in affinity[APART]) is (required and replicas > 1)


@pytest.mark.parametrize(
    ("spec", "surge", "unavailable"),
    [
        ({}, 1, 0),
        (everywhere(requireDefaultPodAntiAffinityTerm=True, replicaCount=2), 0, 1),
        (everywhere(requireDefaultPodAntiAffinityTerm=True), 1, 0),
        (everywhere(affinity={APART: {REQUIRED: [{"topologyKey": "kubernetes.io/hostname"}]}}), 0, 1),
    ],
    ids=["anywhere", "apart", "a single one", "apart by a term of one's own"],
)
def test_an_update_needs_no_node_more_than_replicas_that_must_be_apart_have(spec, surge, unavailable):
    for name in ("admission", "binder", "kai-scheduler-default"):
        strategy = deployment(name, **spec)["strategy"]
        assert strategy["rollingUpdate"] == {"maxSurge": surge, "maxUnavailable": unavailable}


def test_what_holds_for_all_reaches_every_pod():
    found = operands(
        **everywhere(
            nodeSelector={"pool": "system"},
            tolerations=[{"key": "system", "operator": "Exists"}],
            priorityClassName="high",
            additionalImagePullSecrets=["a"],
            jsonLog=True,
        )
    )
    for (kind, name), each in found.items():
        if kind == "Deployment":
            spec = each["spec"]["template"]["spec"]
            assert spec["nodeSelector"] == {"pool": "system"}
            assert spec["tolerations"] == [{"key": "system", "operator": "Exists"}]
            assert (spec["priorityClassName"], spec["imagePullSecrets"]) == ("high", [{"name": "a"}])
            assert name == "kai-redis" or "--log-json=true" in spec["containers"][0]["args"]
        if kind == "ServiceAccount":
            assert each["imagePullSecrets"] == [{"name": "a"}]


# --- what pods may do --------------------------------------------------------------------------
def test_a_security_context_is_filled_up_at_all_depths():
    given = {"capabilities": {"add": ["SYS_NICE"]}, "readOnlyRootFilesystem": False}
    (container,) = pod("binder", **everywhere(securityContext=given))["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_NICE"]},
    }


@pytest.mark.parametrize(("said", "seen"), [(True, False), (False, True)])
def test_on_openshift_the_cluster_gives_out_user_ids(said, seen):
    usual = pod("binder")["securityContext"]
    there = pod("binder", facts=Facts(openshift=seen), **everywhere(openshift=said))["securityContext"]
    assert usual == {**there, "runAsUser": 10000, "runAsGroup": 10000}


# --- replicas ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("count", "own", "expected"), [(1, None, 1), (2, None, 2), (2, 1, 1), (1, 3, 3), (2, 0, 0)]
)
def test_replicas_are_a_components_own_or_those_of_all(count, own, expected):
    spec = {**everywhere(replicaCount=count), "podGrouper": {"replicas": own}}
    found = operands(**spec)
    assert found["Deployment", "pod-grouper"]["spec"]["replicas"] == expected
    several = expected > 1
    assert ("--leader-elect" in flags("pod-grouper", **spec)) is several
    assert (("PodDisruptionBudget", "pod-grouper") in found) is several


def test_a_budget_may_be_left_out_or_allow_more():
    budget = {"service": {"podDisruptionBudget": {"maxUnavailable": 2}}}
    off = {"service": {"podDisruptionBudget": {"enabled": False}}}
    found = operands(**everywhere(replicaCount=3), binder=budget, admission=off)
    assert found["PodDisruptionBudget", "binder"]["spec"]["maxUnavailable"] == 2
    assert ("PodDisruptionBudget", "admission") not in found


def test_of_several_schedulers_the_service_selects_none_by_itself():
    assert operands()["Service", "kai-scheduler-default"]["spec"]["selector"] == {
        "app": "kai-scheduler-default"
    }
    several = operands(scheduler={"replicas": 2})["Service", "kai-scheduler-default"]["spec"]
    assert "selector" not in several
    assert several["clusterIP"] == "None"


# --- what a component is told ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "spec", "told"),
    [
        ("binder", {"binder": {"maxConcurrentReconciles": 4}}, "--max-concurrent-reconciles=4"),
        ("binder", {"binder": {"resourceReservation": {"allocationTimeout": 7}}}, "allocation-timeout=7"),
        ("binder", {"binder": {"service": {"k8sClientConfig": {"qps": 20, "burst": 90}}}}, "--burst=90"),
        ("pod-grouper", {"podGrouper": {"k8sClientConfig": {"qps": 5}}}, "--qps=5"),
        ("pod-grouper", {"podGrouper": {"args": {"gangScheduleKnative": False}}}, "gang-schedule=false"),
        ("pod-grouper", everywhere(podLabelSelector={"b": "2", "a": "1"}), "--pod-label-selector=a=1,b=2"),
        ("queue-controller", {"queueController": {"metricsNamespace": "x"}}, "--metrics-namespace=x"),
        ("kai-scheduler-default", {"queueController": {"metricsNamespace": "x"}}, "--metrics-namespace=x"),
        ("queue-controller", {"queueController": {"queueLabelToMetricLabel": "a=b"}}, "metric-label=a=b"),
        ("admission", {"admission": {"gpuFractionRuntimeClassName": ""}}, "runtime-class-name="),
        ("admission", everywhere(gpuSharingMode="HamiCore"), "--hami-core-enabled=true"),
        ("admission", everywhere(schedulerName="ours"), "--scheduler-name=ours"),
        ("admission", everywhere(nodePoolLabelKey=""), "--nodepool-label-key="),
    ],
)  # fmt: skip
def test_fields_become_flags(name, spec, told):
    assert [flag for flag in flags(name, **spec) if flag.endswith(told)], flags(name, **spec)


@pytest.mark.parametrize(
    ("of_all", "of_shard", "seconds"),
    [(None, None, 30), ("5s", None, 30), ("5m", None, 310), ("5m", "1h", 3610), ("5m", "90", 100)],
)
def test_a_pod_is_left_the_time_in_which_its_process_finishes_its_work(of_all, of_shard, seconds):
    given = ({} if each is None else {"drain-timeout": each} for each in (of_all, of_shard))
    more, args = given
    found = operands(
        scheduler={"service": {"extraArgs": more}},
        binder={"service": {"extraArgs": more}},
        shard={"args": args},
    )
    pod = found["Deployment", "kai-scheduler-default"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == seconds


def test_more_flags_come_last_and_those_of_a_shard_after_those_of_all():
    more = {"scheduler": {"service": {"extraArgs": {"v": "4", "schedule-period": "2s"}}}}
    told = flags("kai-scheduler-default", shard={"args": {"schedule-period": "3s"}}, **more)
    assert told[-3:] == ["--schedule-period=2s", "--v=4", "--schedule-period=3s"]


@pytest.mark.parametrize(
    ("shard", "written"),
    [
        ({}, False),
        ({"minRuntime": {"reclaimMinRuntime": "5m"}}, True),
        ({"minRuntime": {"preemptMinRuntime": "5m"}}, True),
        ({"minRuntime": {"preemptMinRuntime": "0s"}}, False),
        ({"plugins": {"minruntime": {"arguments": {"defaultReclaimMinRuntime": "1h"}}}}, True),
        ({"plugins": {"minruntime": {"arguments": {"reclaimResolveMethod": "queue"}}}}, False),
        ({"minRuntime": {"reclaimMinRuntime": "5m"}, "plugins": {"minruntime": {"enabled": False}}}, False),
    ],
)
def test_when_jobs_started_is_written_down_where_a_shard_protects_them(shard, written):
    told = PodGroupControllerSettings.parse(flags("podgroup-controller", shard=shard))
    assert told.persist_last_start is written


@pytest.mark.parametrize(
    ("binder", "cdi", "expected"),
    [
        ({}, False, []),
        ({}, True, ['--plugins={"gpusharing":{"arguments":{"cdiEnabled":"true"}}}']),
        ({"cdiEnabled": False}, True, []),
        ({"cdiEnabled": True}, False, ['--plugins={"gpusharing":{"arguments":{"cdiEnabled":"true"}}}']),
        (
            {"plugins": {"gpusharing": {"arguments": {"cdiEnabled": "false"}}}},
            True,
            ['--plugins={"gpusharing":{"arguments":{"cdiEnabled":"false"}}}'],
        ),
    ],
)
def test_of_cdi_the_plugins_argument_says_most_then_the_config_then_the_cluster(binder, cdi, expected):
    told = flags("binder", facts=Facts(cdi=cdi), binder=binder)
    assert [flag for flag in told if flag.startswith("--plugins")] == expected


def test_images_are_placed_by_the_config_or_where_the_operators_own_is():
    facts = Facts(repository="images.example.com/ml", tag="1.2.3")
    own = {
        "binder": {
            "service": {"image": {"repository": "other", "name": "b", "tag": "9", "pullPolicy": "Never"}}
        }
    }
    images = {name: pod(name, facts=facts, **own)["containers"][0] for name in ("binder", "admission")}
    assert images["admission"]["image"] == "images.example.com/ml/kai-scheduler:1.2.3"
    assert (images["binder"]["image"], images["binder"]["imagePullPolicy"]) == ("other/b:9", "Never")


# --- optional kinds ----------------------------------------------------------------------------
def test_autoscalers_are_made_where_they_are_wanted_and_the_cluster_has_them():
    wanted = {
        **everywhere(vpa={"enabled": True, "updatePolicy": {"minReplicas": 2}}),
        "binder": {"vpa": {"enabled": False}},
    }
    there = Facts(served=frozenset({AUTOSCALER}))
    found = {name: each for (kind, name), each in operands(there, **wanted).items() if "Autoscaler" in kind}
    assert "binder" not in found
    assert found["admission"]["spec"] == {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "admission"},
        "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 2},
    }
    assert "kai-scheduler-default" in found
    assert not [key for key in operands(**wanted) if "Autoscaler" in key[0]]
    config = read_config({"metadata": {"name": "kai-config"}, "spec": wanted})
    assert missing_kinds(config, Facts()) == (AUTOSCALER,)
    assert missing_kinds(config, there) == ()


def test_a_prometheus_of_ours_is_made_where_there_is_its_operator():
    facts = Facts(served=frozenset({PROMETHEUS, SERVICE_MONITOR}))
    found = operands(facts, prometheus={"enabled": True, "retentionPeriod": "3w"})
    made = found["Prometheus", "prometheus"]["spec"]
    assert (made["retention"], made["scrapeInterval"], made["serviceAccountName"]) == (
        "3w",
        "1m",
        "prometheus",
    )
    claim = made["storage"]["volumeClaimTemplate"]["spec"]
    assert claim["resources"]["requests"]["storage"] == "50Gi"
    assert found["Service", "usage-prometheus"]["spec"]["ports"][0]["port"] == 9090
    label = made["serviceMonitorSelector"]["matchLabels"]
    monitor = found["ServiceMonitor", "queue-controller"]
    assert label.items() <= monitor["metadata"]["labels"].items()
    # Metrics that a scheduler asks for may be those of a rule.
    assert made["ruleSelector"] == made["serviceMonitorSelector"]
    assert made["ruleNamespaceSelector"] == {}


@pytest.mark.parametrize(
    ("prometheus", "served", "kinds"),
    [
        ({}, BOTH, set()),
        ({"enabled": True, "externalPrometheusUrl": "http://p"}, BOTH, {"ServiceMonitor"}),
        ({"enabled": True}, {SERVICE_MONITOR}, {"ServiceMonitor"}),
        ({"enabled": True}, set(), set()),
    ],
)  # fmt: skip
def test_without_its_kinds_or_with_one_of_yours_there_is_no_prometheus(prometheus, served, kinds):
    found = operands(Facts(served=frozenset(served)), prometheus=prometheus)
    assert {kind for kind, _ in found if kind in ("Prometheus", "ServiceMonitor")} == kinds


# --- redis -------------------------------------------------------------------------------------
def test_a_redis_that_keeps_what_it_holds_has_a_volume_that_it_may_write():
    found = operands(redis={"persistence": {"enabled": True, "size": "5Gi", "storageClassName": "fast"}})
    claim = found["PersistentVolumeClaim", "kai-redis"]["spec"]
    assert (claim["resources"], claim["storageClassName"]) == ({"requests": {"storage": "5Gi"}}, "fast")
    spec = found["Deployment", "kai-redis"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "data"]
    assert not mount.get("readOnly")
    assert f"--data={mount['mountPath']}" in container["args"]
    assert spec["securityContext"]["fsGroup"] == 10000
    assert ("PersistentVolumeClaim", "kai-redis") not in operands()


USAGE = {"usageDBConfig": {"clientType": "redis"}}


ELSEWHERE = {"usageDBConfig": {"connectionString": "redis://elsewhere:6379"}}
SCRAPED = {"usageDBConfig": {"clientType": "prometheus", "connectionString": "http://p:9090"}}
UNREAD = Facts(claims_in_doubt=frozenset({"kai-redis"}))
OFF = {"enabled": False}


@pytest.mark.parametrize(
    ("shard", "facts", "said", "kept"),
    [
        pytest.param(USAGE, Facts(), {}, True, id="usage"),
        pytest.param({"usageDBConfig": {}}, Facts(), {}, True, id="usage by default"),
        pytest.param(USAGE, Facts(), OFF, False, id="usage, off"),
        pytest.param({}, Facts(), {}, False, id="no usage"),
        pytest.param({}, UNREAD, {}, True, id="unread"),
        pytest.param({}, UNREAD, OFF, False, id="unread, off"),
        pytest.param(ELSEWHERE, Facts(), {}, False, id="elsewhere"),
        pytest.param(SCRAPED, Facts(), {}, False, id="prometheus"),
    ],
)
def test_a_redis_that_keeps_past_usage_keeps_it_over_restarts_unless_that_is_switched_off(
    shard, facts, said, kept
):
    config = read_config({"spec": {"redis": {"persistence": said}}})
    shards = [read_shard({"metadata": {"name": "default"}, "spec": shard}, config)]
    made = {(each["kind"], each["metadata"]["name"]) for each in operands_of_config(config, facts, shards)}
    assert (("PersistentVolumeClaim", "kai-redis") in made) is kept
