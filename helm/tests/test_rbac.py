"""Roles grant what the services request, and nothing else.

What they request is read from their code: every call of the API client and every reflector, with the
resource constant that it names.
"""

import ast
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import kai_insight.service
import kai_node_scale_adjuster.service
import kai_operator.service
import kai_pod_grouper.service
import kai_podgroup_controller.service
import kai_queue_controller.service
from kai.grouping.offline import rights
from kai.kube import resources
from kai.kube.resources import Resource
from kai.model.documents import load_written
from kai.model.plurals import plural
from kai.operands import Grants, beyond, beyond_shard, read_config, read_grants, read_shard
from kai.operands.facts import OPTIONAL_KINDS
from kai_operator import kinds as operator_kinds
from kai_operator.former_endpoints import ENDPOINTS

SERVICES = Path(__file__).resolve().parents[2] / "services"
ACCOUNTS = {
    "kai_admission": "admission",
    "kai_binder": "binder",
    "kai_insight": "insight",
    "kai_node_scale_adjuster": "node-scale-adjuster",
    "kai_numa_placement_exporter": "numa-placement-exporter",
    "kai_operator": "kai-operator",
    "kai_pod_grouper": "pod-grouper",
    "kai_podgroup_controller": "podgroup-controller",
    "kai_queue_controller": "queue-controller",
    "kai_resource_reservation": "kai-resource-reservation",
    "kai_scheduler": "scheduler",
}
LISTS = {"list", "pages", "newest_version"}
METHODS = {"get", "create", "update", "patch", "delete", "create_subresource"} | LISTS
READS = {"get", "list", "watch"}
WITHOUT_CERTIFICATES = {"certificates": {"existing": {"enabled": True, "caBundle": "Q0E="}}}
KARTAS = Resource("run.ai", "v1alpha1", "kartas", "Karta")
#: Where the resource is found out at run time: module -> what it may be, by method.
FOUND_OUT = {
    "kai_binder/plugins/dynamicresources.py": {resources.RESOURCE_CLAIMS},
    "kai_insight/http/access.py": {resources.TOKEN_REVIEWS, resources.SUBJECT_ACCESS_REVIEWS},
    "kai_operator/former_endpoints.py": {ENDPOINTS, operator_kinds.ENDPOINT_SLICES},
    "kai_operator/status.py": {resources.CONFIGS, resources.SCHEDULING_SHARDS},
    "kai_operator/watching.py": {kind.resource for kind in operator_kinds.KINDS}
    | {operator_kinds.CLUSTER_POLICIES},
    "kai_operator/writer.py": {kind.resource for kind in operator_kinds.KINDS},
    "kai_pod_grouper/live/cluster.py": {KARTAS},
    "kai_pod_grouper/live/owner_cache.py": set(),  # the kinds of kai.grouping.offline.rights, tested below
}
#: Where these are switched on, there are two accounts more.
ALL_ACCOUNTS = {"global": {"clusterAutoscaling": True}, "insight": {"enabled": True}}
VALUES = {
    **ALL_ACCOUNTS,
    "podgrouper": {
        "defaultPrioritiesConfigMapName": "priorities",
        "defaultPrioritiesConfigMapNamespace": "kai-scheduler",
    },
}

SWITCHES = {
    "scheduler": {"args": {"eviction-api": True, "update-pod-eviction-condition": "true"}},
    "global": {"namespaceLabelSelector": {"team": "ml"}},
}


@dataclass(frozen=True, order=True)
class Request:
    """A verb on a resource or subresource of an API group."""

    verb: str
    group: str
    resource: str

    def __str__(self):
        return f"{self.verb} {self.resource}.{self.group or 'core'}"


# --- what is requested -------------------------------------------------------------------------
def requested(service):
    found = set()
    for path in sorted((SERVICES / service).rglob("*.py")):
        module = Module(path)
        found |= set(module.requests())
    return found


class Module:
    """The requests that one module of a service makes."""

    def __init__(self, path):
        self.name = str(path.relative_to(SERVICES))
        self.tree = ast.parse(path.read_text())
        self.mentioned = {c for node in ast.walk(self.tree) if (c := constant(node)) is not None}
        self.names = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(self.tree)}

    def requests(self):
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield from self._of_call(node)
        if "elector" in self.names:
            yield from on(resources.LEASES, "get", "create", "update")
        if self.names & {"watch_sessions", "watch_cycles", "LeaderTracker", "follow_leader", "elector"}:
            yield from on(resources.LEASES, "list", "watch")
        if "ShardFollower" in self.names:
            yield from on(resources.SCHEDULING_SHARDS, "list", "watch")
            yield from on(resources.LEASES, "list", "watch")
        if self.names & {"recorder", "EventRecorder"}:
            yield from on(resources.EVENTS, "create", "patch")

    def _of_call(self, call):
        function = call.func
        if isinstance(function, ast.Name) and function.id == "Reflector":
            for resource in self._resources(call.args[1]):
                yield from on(resource, "list", "watch")
        elif isinstance(function, ast.Attribute) and function.attr in METHODS and is_client(function.value):
            verb = "list" if function.attr in LISTS else function.attr
            subresource = subresource_of(call)
            for resource in self._resources(call.args[0]):
                yield from on(resource, verb.removesuffix("_subresource"), subresource=subresource)

    def _resources(self, argument):
        known = constant(argument)
        if known is not None:
            return {known}
        if self.name in FOUND_OUT:
            return FOUND_OUT[self.name]
        assert self.mentioned, f"{self.name}: which resource is {ast.unparse(argument)}? say so in FOUND_OUT"
        return self.mentioned  # a table of the module


def on(resource, *verbs, subresource=""):
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return [Request(verb, resource.group, plural) for verb in verbs]


def constant(node):
    name = getattr(node, "attr", getattr(node, "id", ""))
    value = getattr(resources, name, None) if name.isupper() else None
    return value if isinstance(value, Resource) else None


def is_client(node):
    return getattr(node, "attr", getattr(node, "id", "")).lstrip("_") == "client"


def subresource_of(call):
    for keyword in call.keywords:
        if keyword.arg == "subresource":
            return keyword.value.value
    return call.args[2].value if call.func.attr == "create_subresource" else ""


# --- what is granted ---------------------------------------------------------------------------
def granted(objects, account):
    """All requests that any role allows this ServiceAccount."""
    return {request for rule in rules_of(objects, account) for request in allowed_by(rule)}


def rules_of(objects, account):
    for kind in ("Role", "ClusterRole"):
        for binding in objects.of(f"{kind}Binding").values():
            if any(subject["name"] == account for subject in binding["subjects"]):
                yield from objects.one(kind, binding["roleRef"]["name"])["rules"]


def allowed_by(rule):
    return {
        Request(verb, group, resource)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture(scope="module")
def objects(helm):
    return helm.render(values={**VALUES, **WITHOUT_CERTIFICATES})


@pytest.fixture(scope="module")
def with_switches(helm):
    """As far as code asks for something only where a switch is on."""
    return helm.render(values={**SWITCHES, **WITHOUT_CERTIFICATES})


# --- tests -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("service", "account"), ACCOUNTS.items())
def test_every_request_in_the_code_is_allowed(objects, with_switches, service, account):
    missing = requested(service) - granted(objects, account) - granted(with_switches, account)
    assert not missing, f"the role of {account} lacks: {', '.join(map(str, sorted(missing)))}"


#: Allowed beside what the client is asked for, and why.
BESIDE = {
    # What it makes is owned by Config and shards.
    "kai-operator": lambda request: request.resource.endswith("/finalizers"),
    # Owners of pods are found by discovery; their finalizers matter where owners may block deletion.
    "pod-grouper": lambda request: request.group in rights.granted() or request.resource == "pods/finalizers",
    # A rule of newer servers about the status of claims.
    "scheduler": lambda request: request.resource == "resourceclaims/binding",
    # Claims are written by server version, some under such a rule, and owned by their pod.
    "binder": lambda request: (
        request.resource.startswith("resourceclaims") or request.resource == "pods/finalizers"
    ),
}


@pytest.mark.parametrize(("service", "account"), ACCOUNTS.items())
def test_nothing_is_allowed_that_nobody_requests(objects, service, account):
    excepted = BESIDE.get(account, lambda request: False)
    surplus = {r for r in granted(objects, account) - requested(service) if not excepted(r)}
    assert not surplus, f"the role of {account} need not have: {', '.join(map(str, sorted(surplus)))}"


def test_the_analysis_sees_what_services_do():
    """Else the tests above would pass for want of requests."""
    assert Request("create", "", "pods/binding") in requested("kai_binder")
    assert Request("delete", "", "pods") in requested("kai_scheduler")
    assert Request("watch", "scheduling.run.ai", "podgroups") in requested("kai_scheduler")
    assert Request("patch", "scheduling.run.ai", "podgroups/status") in requested("kai_podgroup_controller")
    assert Request("patch", "scheduling.run.ai", "queues/status") in requested("kai_queue_controller")
    assert Request("create", "scheduling.run.ai", "podgroups") in requested("kai_pod_grouper")
    assert Request("patch", "", "pods") in requested("kai_resource_reservation")
    assert Request("patch", "", "pods/status") in requested("kai_node_scale_adjuster")
    assert Request("list", "", "pods") in requested("kai_numa_placement_exporter")
    assert Request("watch", "", "nodes") in requested("kai_admission")
    assert {request.verb for request in requested("kai_admission")} <= READS


def test_owners_of_pods_can_be_read(objects):
    """What a preview takes for the cluster's answer is what the role grants."""
    plurals = defaultdict(set)
    for request in granted(objects, "pod-grouper"):
        if request.verb == "get" and "/" not in request.resource:
            plurals[request.group].add(request.resource)
    for group, kinds in rights.granted().items():
        for kind in kinds:
            assert plural(kind) in plurals[group], f"{kind} of {group or 'core'}"


def test_only_what_is_everywhere_is_granted_everywhere(objects):
    """Leases and the pods that we make ourselves stay in our namespaces."""
    for role in objects.of("ClusterRole").values():
        for rule in role["rules"]:
            assert "leases" not in rule["resources"], role["metadata"]["name"]
            assert "secrets" not in rule["resources"]
            assert "*" not in rule["resources"] + rule["verbs"] + rule["apiGroups"]
            if "pods" in rule["resources"]:
                assert not {"create", "update", "deletecollection"} & set(rule["verbs"])


def test_the_scheduler_may_evict_in_the_one_way_that_it_is_told_to(objects, with_switches):
    ways = {Request("delete", "", "pods"), Request("create", "", "pods/eviction")}
    told = Request("patch", "", "pods/status")
    assert granted(objects, "scheduler") & (ways | {told}) == {Request("delete", "", "pods")}
    assert granted(with_switches, "scheduler") & (ways | {told}) == {
        Request("create", "", "pods/eviction"),
        told,
    }


@pytest.mark.parametrize("off", [False, "false", "off", "0"])
def test_the_scheduler_reads_no_config_maps_where_no_pod_is_to_wait_for_them(helm, objects, off):
    reads = {Request(verb, "", "configmaps") for verb in ("list", "watch")}
    assert reads <= granted(objects, "scheduler")
    values = {"scheduler": {"args": {"wait-for-config-maps": off}}}
    assert not reads & granted(helm.render(values={**values, **WITHOUT_CERTIFICATES}), "scheduler")


def test_a_disabled_component_has_no_role(helm):
    objects = helm.render(values={"binder": {"enabled": False}, **WITHOUT_CERTIFICATES})
    assert "kai-binder" not in objects.of("ClusterRole")
    assert not granted(objects, "binder")


EXTERNAL = {"externalPrometheusUrl": "http://prometheus.monitoring:9090"}


def test_a_prometheus_of_ours_may_find_whom_it_scrapes_and_do_nothing_else(helm):
    values = {"prometheus": {"enabled": True}, **WITHOUT_CERTIFICATES}
    objects = helm.render(values=values, served=frozenset(OPTIONAL_KINDS))
    account = objects.one("Prometheus", "prometheus")["spec"]["serviceAccountName"]
    found = [("", "services"), ("", "endpoints"), ("", "pods"), ("discovery.k8s.io", "endpointslices")]
    assert granted(objects, account) == {
        Request(verb, group, resource) for group, resource in found for verb in ("list", "watch")
    }


def test_where_prometheus_is_yours_nothing_is_granted_to_one_of_ours(helm):
    objects = helm.render(values={"prometheus": {"enabled": True, **EXTERNAL}, **WITHOUT_CERTIFICATES})
    assert "kai-prometheus" not in objects.of("ClusterRole")


# --- what the operator is told of this ---------------------------------------------------------
def told_grants(objects):
    (text,) = (flag for flag in objects.flags("kai-operator") if flag.startswith("--grants="))
    return read_grants(text.partition("=")[2])


SETS = load_written((Path(__file__).parent / "values.yaml").read_text())


@pytest.mark.parametrize("name", SETS)
def test_a_config_of_the_chart_asks_for_nothing_that_it_does_not_grant(helm, name):
    objects = helm.chart(values=SETS[name])
    grants, config = told_grants(objects), read_config(objects.one("Config", "kai-config"))
    assert beyond(config, grants) == []
    for shard in objects.of("SchedulingShard").values():
        assert beyond_shard(read_shard(shard, config), config, grants) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, Grants(scheduler_name="kai-scheduler")),
        ({"admissionPolicies": {"enabled": False}}, Grants()),
        (
            {"binder": {"enabled": False}, "numaPlacementExporter": {"enabled": False}},
            Grants(scheduler_name="kai-scheduler", binder=False, numa_placement_exporter=False),
        ),
        (
            {"global": {"clusterAutoscaling": True}, "nodescaleadjuster": {"scalingPodNamespace": "scale"}},
            Grants(scheduler_name="kai-scheduler", node_scale_adjuster=True, scaling_namespace="scale"),
        ),
        (
            {"insight": {"enabled": True}},
            Grants(scheduler_name="kai-scheduler", insight=True, insight_reviews=True),
        ),
        (
            {"insight": {"enabled": True, "ports": {"httpPort": 0}}},
            Grants(scheduler_name="kai-scheduler", insight=True),
        ),
        ({"insight": {"ports": {"httpPort": 9000}}}, Grants(scheduler_name="kai-scheduler")),
        (
            {"scheduler": {"args": {"eviction-api": True, "update-pod-eviction-condition": "yes"}}},
            Grants(scheduler_name="kai-scheduler", evictions=True, eviction_conditions=True),
        ),
        (
            {"scheduler": {"args": {"wait-for-config-maps": False}}},
            Grants(scheduler_name="kai-scheduler", config_maps=False),
        ),
        (
            {"global": {"namespaceLabelSelector": {"team": "a"}, "schedulerName": "mine"}},
            Grants(scheduler_name="mine", namespaces=True),
        ),
        (
            {
                "podgrouper": {
                    "defaultPrioritiesConfigMapName": "priorities",
                    "defaultPrioritiesConfigMapNamespace": "home",
                }
            },
            Grants(scheduler_name="kai-scheduler", priorities="home/priorities"),
        ),
        (
            {"global": {"resourceReservation": {"namespace": "held", "serviceAccount": "holder"}}},
            Grants(
                scheduler_name="kai-scheduler", reservation_namespace="held", reservation_account="holder"
            ),
        ),
        ({"prometheus": EXTERNAL}, Grants(scheduler_name="kai-scheduler", prometheus=False)),
    ],
)
def test_the_operator_is_told_what_its_chart_grants(helm, values, expected):
    told = told_grants(helm.chart(values=values))
    of_policies = {"reservation_label": "", "reservation_images": (), "scaling_images": ()}
    assert replace(told, **of_policies) == expected


def test_the_operator_is_told_which_label_and_images_policies_know(helm):
    values = {
        "admissionPolicies": {"reservationImages": ["mirror/kai:1"]},
        "binder": {"args": {"resource-reservation-pod-image": "own/holder:2"}},
        "global": {"resourceReservation": {"appLabel": "holder"}, "registry": "r", "tag": "3"},
    }
    told = told_grants(helm.chart(values=values))
    assert told.reservation_label == "holder"
    assert told.reservation_images == ("own/holder", "mirror/kai")
    assert told.scaling_images == ("r/kai-scheduler", "mirror/kai")
    values["nodescaleadjuster"] = {"args": {"scaling-pod-image": "own/scaling:4"}}
    assert told_grants(helm.chart(values=values)).scaling_images == ("own/scaling", "mirror/kai")
    values["admissionPolicies"]["enabled"] = False
    told = told_grants(helm.chart(values=values))
    assert (told.reservation_label, told.reservation_images, told.scaling_images) == ("", (), ())


@pytest.mark.parametrize(
    ("account", "lease"),
    [
        ("pod-grouper", kai_pod_grouper.service.LEASE),
        ("kai-operator", kai_operator.service.LEASE),
        ("podgroup-controller", kai_podgroup_controller.service.LEASE),
        ("queue-controller", kai_queue_controller.service.LEASE),
        ("node-scale-adjuster", kai_node_scale_adjuster.service.LEASE),
        ("insight", kai_insight.service.LEASE),
    ],
)
def test_each_process_can_take_its_own_lease_and_no_other(helm, account, lease):
    objects = helm.render(values={**WITHOUT_CERTIFICATES, **ALL_ACCOUNTS})
    rules = [rule for rule in rules_of(objects, account) if "leases" in rule["resources"]]
    assert [rule.get("resourceNames") for rule in rules if "update" in rule["verbs"]] == [[lease]]
    # Who makes schedulers takes away the Leases of those that are gone.
    more = {"delete"} if account == "kai-operator" else set()
    assert all({*rule["verbs"]} <= READS | {"create", "update"} | more for rule in rules)


def test_insight_asks_who_asks_only_where_somebody_may_ask_over_http(helm, objects):
    reviews = {"tokenreviews", "subjectaccessreviews"}
    ask = [rule for rule in rules_of(objects, "insight") if reviews & {*rule["resources"]}]
    assert [rule["verbs"] for rule in ask] == [["create"], ["create"]]
    values = {**WITHOUT_CERTIFICATES, "insight": {"enabled": True, "ports": {"httpPort": 0}}}
    without = helm.render(values=values)
    assert not [rule for rule in rules_of(without, "insight") if reviews & {*rule["resources"]}]


def test_schedulers_may_write_leases_and_a_policy_says_which(helm):
    """There is one for each shard, and shards come and go; a role cannot say how names begin."""
    objects = helm.render(values={**WITHOUT_CERTIFICATES, "global": {"schedulerName": "ours"}})
    (rule,) = [rule for rule in rules_of(objects, "scheduler") if "leases" in rule["resources"]]
    assert {*rule["verbs"]} == READS | {"create", "update"}
    policy = objects.one("ValidatingAdmissionPolicy", "kai-accounts-leases-create-update")["spec"]
    assert [each["operations"] for each in policy["matchConstraints"]["resourceRules"]] == [
        ["CREATE", "UPDATE"]
    ]
    (validation,) = policy["validations"]
    assert "'ours'" in validation["expression"]
    assert "startsWith('ours-')" in validation["expression"]
