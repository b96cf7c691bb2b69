"""The custom resources: names, scopes and structure as the specification has them."""

import json
import re
from pathlib import Path

import pytest

from kai.kube import resources
from kai.model import limits, names
from kai.model.documents import load_written
from kai.model.rules.priorities import PREEMPTIBILITIES
from kai.operands import read_config
from kai_local.apiserver.reading.jsonpath import compile_path
from kai_local.apiserver.schemas.schema import published

CRDS = Path(__file__).resolve().parents[1] / "kai-scheduler" / "crds"
EXPECTED = {
    resources.QUEUES: True,
    resources.POD_GROUPS: True,
    resources.BIND_REQUESTS: True,
    resources.TOPOLOGIES: False,
    resources.CONFIGS: True,
    resources.SCHEDULING_SHARDS: True,
}


def definition(resource):
    return load_written((CRDS / f"{resource.plural}.{resource.group}.yaml").read_text())


def schema(resource):
    return definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_there_are_six():
    assert {path.stem for path in CRDS.glob("*.yaml")} == {f"{r.plural}.{r.group}" for r in EXPECTED}


@pytest.mark.parametrize(("resource", "has_status"), EXPECTED.items(), ids=lambda v: getattr(v, "kind", ""))
def test_names_scopes_and_subresources(resource, has_status):
    crd = definition(resource)
    spec = crd["spec"]
    (version,) = spec["versions"]
    assert crd["metadata"]["name"] == f"{resource.plural}.{resource.group}"
    assert spec["group"] == resource.group
    assert spec["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
    assert (spec["names"]["kind"], spec["names"]["plural"]) == (resource.kind, resource.plural)
    assert spec["names"]["listKind"] == f"{resource.kind}List"
    assert (version["name"], version["served"], version["storage"]) == (resource.version, True, True)
    assert version.get("subresources", {}) == ({"status": {}} if has_status else {})


def columns_of(resource):
    columns = definition(resource)["spec"]["versions"][0]["additionalPrinterColumns"]
    return [(column["name"], column["type"], column["jsonPath"]) for column in columns]


def test_pod_groups_have_a_short_name_and_columns_that_say_what_they_wait_for():
    assert definition(resources.POD_GROUPS)["spec"]["names"]["shortNames"] == ["pg"]
    group = {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"queue": "research", "minMember": 4, "priorityClassName": "train"},
        "status": {
            "resourcesStatus": {"allocated": {"nvidia.com/gpu": "2"}},
            "schedulingConditions": [
                {"nodePool": "a", "reasons": [{"reason": "Old", "message": "of another node pool"}]},
                {"nodePool": "b", "reasons": [{"reason": "OverLimit", "message": "of the newest"}]},
            ],
        },
    }
    shown = {name: compile_path(path)(group) for name, _, path in columns_of(resources.POD_GROUPS)}
    assert shown == {
        "Queue": ["research"],
        "Min": [4],
        "GPUs": ["2"],
        "Reason": ["OverLimit"],
        "Age": ["2026-01-01T00:00:00Z"],
        "Priority": ["train"],
        "Message": ["of the newest"],
    }


def test_queues_have_the_columns_of_the_original():
    assert columns_of(resources.QUEUES) == [
        ("Priority", "string", ".spec.priority"),
        ("Parent", "string", ".spec.parentQueue"),
        ("Children", "string", ".status.childQueues"),
        ("DisplayName", "string", ".spec.displayName"),
    ]


# --- structure ---------------------------------------------------------------------------------
@pytest.mark.parametrize("resource", EXPECTED, ids=lambda r: r.kind)
def test_schemas_are_structural(resource):
    problems = list(unstructured(schema(resource), "$"))
    assert not problems


def unstructured(node, path):
    """What an API server would refuse of a schema, as far as we use it."""
    if not node.get("x-kubernetes-int-or-string") and "type" not in node:
        yield f"{path}: no type"
    if "properties" in node and "additionalProperties" in node:
        yield f"{path}: both properties and additionalProperties"
    if node.get("type") == "array" and "items" not in node:
        yield f"{path}: an array without items"
    for key in ("default", "nullable"):
        if key in node:
            yield f"{path}: {key} is decided by the components instead"
    for required in node.get("required", ()):
        if required not in node.get("properties", {}):
            yield f"{path}: {required} is required but unknown"
    for name, child in node.get("properties", {}).items():
        yield from unstructured(child, f"{path}.{name}")
    if isinstance(node.get("additionalProperties"), dict):
        yield from unstructured(node["additionalProperties"], f"{path}.*")
    if "items" in node:
        yield from unstructured(node["items"], f"{path}[]")


# --- particulars -------------------------------------------------------------------------------
def field(resource, path):
    node = schema(resource)
    for step in path.split("."):
        node = node["items"] if step == "[]" else node["properties"][step]
    return node


def test_minima_of_pod_groups_may_be_zero_but_not_negative():
    for path in (
        "spec.minMember",
        "spec.minSubGroup",
        "spec.subGroups.[].minMember",
        "spec.subGroups.[].minSubGroup",
    ):
        assert field(resources.POD_GROUPS, path)["minimum"] == 0


@pytest.mark.parametrize(("name", "fits"), [("a-1", True), ("A", False), ("-a", False), ("a.b", False)])
def test_subgroup_names_are_labels(name, fits):
    for path in ("spec.subGroups.[].name", "spec.subGroups.[].parent"):
        assert bool(re.fullmatch(field(resources.POD_GROUPS, path)["pattern"], name)) is fits


def test_a_pod_group_is_preemptible_or_not_or_beyond_its_minimum_or_does_not_say():
    assert field(resources.POD_GROUPS, "spec.preemptibility")["enum"] == list(PREEMPTIBILITIES)


@pytest.mark.parametrize(
    ("label", "fits"),
    [
        ("kubernetes.io/hostname", True),
        ("rack", True),
        ("a/b/c", False),
        ("-x", False),
        ("UPPER.io/x", False),
    ],
)
def test_topology_levels_are_label_keys(label, fits):
    for path in ("spec.levels.[].nodeLabel", "spec.levels.[].alias"):
        node = field(resources.TOPOLOGIES, path)
        assert bool(re.fullmatch(node["pattern"], label)) is fits
        assert (node["minLength"], node["maxLength"]) == (1, 316)


def test_topology_levels_are_a_list_of_1_to_16_that_is_replaced_as_a_whole():
    levels = field(resources.TOPOLOGIES, "spec.levels")
    assert (levels["minItems"], levels["maxItems"]) == (1, 16)
    assert levels["x-kubernetes-list-type"] == "atomic"
    assert len(levels["x-kubernetes-validations"]) == 3
    assert schema(resources.TOPOLOGIES)["required"] == ["spec"]


@pytest.mark.parametrize(
    ("text", "fits"), [("1", True), ("500m", True), ("2Gi", True), ("1e3", True), ("x", False)]
)
def test_resource_lists_hold_quantities(text, fits):
    lists = [
        field(resources.QUEUES, "status.allocated"),
        field(resources.POD_GROUPS, "status.resourcesStatus.requested"),
        field(resources.BIND_REQUESTS, "spec.predictedNUMAZones.[].amount"),
        field(resources.CONFIGS, "spec.binder.service.resources.limits"),
    ]
    for node in lists:
        quantity = node["additionalProperties"]
        assert quantity["x-kubernetes-int-or-string"] is True
        assert bool(re.fullmatch(quantity["pattern"], text)) is fits


#: Kubernetes' own schemas, of the newest version that the product is tried on.
_KUBERNETES = published("v1.36.0-local")


@pytest.mark.parametrize(
    ("path", "definition"),
    [
        ("spec.resourceClaimAllocations.[].allocation", "AllocationResult"),
        ("spec.extendedResourceClaimAllocation.allocation", "AllocationResult"),
        ("spec.extendedResourceClaimAllocation.deviceRequests.[]", "DeviceRequest"),
    ],
)
def test_bind_requests_hold_what_kubernetes_says_of_devices_field_by_field(path, definition):
    definitions = json.loads((_KUBERNETES / "_definitions.json").read_text())["$defs"]
    expected = definitions[f"io.k8s.api.resource.v1.{definition}"]
    assert set(fields_of(field(resources.BIND_REQUESTS, path))) == set(fields_of(expected, definitions))


def fields_of(node, definitions=None, path=""):
    """Path of each field below a schema, and whether it is required."""
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    for name, child in (node.get("properties") or {}).items():
        yield f"{path}.{name}", name in (node.get("required") or ())
        yield from fields_of(child, definitions, f"{path}.{name}")
    if "items" in node:
        yield from fields_of(node["items"], definitions, f"{path}[]")


def test_bind_requests_keep_nothing_that_nobody_named_but_what_drivers_are_told():
    found = list(free_form(schema(resources.BIND_REQUESTS), ""))
    told = ".devices.config[].opaque.parameters"
    assert found == [
        f".spec.resourceClaimAllocations[].allocation{told}",
        f".spec.extendedResourceClaimAllocation.allocation{told}",
    ]


def free_form(node, path):
    """Where a schema takes anything."""
    if node.get("x-kubernetes-preserve-unknown-fields"):
        yield path
    for name, child in (node.get("properties") or {}).items():
        yield from free_form(child, f"{path}.{name}")
    if "items" in node:
        yield from free_form(node["items"], f"{path}[]")


def test_every_component_can_be_configured():
    components = field(resources.CONFIGS, "spec")["properties"].keys()
    assert components == {
        "namespace", "global", "podGrouper", "binder", "admission", "scheduler", "queueController",
        "podGroupController", "nodeScaleAdjuster", "prometheus", "numaPlacementExporter",
        "redis", "networkPolicy", "certificates", "insight", "defaultPriorityClasses",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "definition"),
    [
        ("spec.global.affinity", "core.v1.Affinity"),
        ("spec.binder.service.affinity", "core.v1.Affinity"),
        ("spec.global.tolerations.[]", "core.v1.Toleration"),
        ("spec.numaPlacementExporter.tolerations.[]", "core.v1.Toleration"),
        ("spec.global.securityContext", "core.v1.SecurityContext"),
        ("spec.global.podSecurityContext", "core.v1.PodSecurityContext"),
        ("spec.binder.resourceReservation.reservationPodSecurityContext", "core.v1.PodSecurityContext"),
        ("spec.networkPolicy.metricsFrom.[]", "networking.v1.NetworkPolicyPeer"),
        ("spec.networkPolicy.egress.more.[]", "networking.v1.NetworkPolicyEgressRule"),
    ],
)
def test_a_config_takes_pieces_of_pods_with_all_their_fields(path, definition):
    definitions = json.loads((_KUBERNETES / "_definitions.json").read_text())["$defs"]
    expected = definitions[f"io.k8s.api.{definition}"]
    here = {name for name, _ in fields_of(field(resources.CONFIGS, path))}
    assert here == {name for name, _ in fields_of(expected, definitions)}


@pytest.mark.parametrize("port", [8080, "web"])
def test_a_further_rule_of_a_policy_tells_the_number_of_a_port_or_its_name(jsonschema, port):
    rule = {"ports": [{"protocol": "TCP", "port": port}]}
    jsonschema.validate(rule, field(resources.CONFIGS, "spec.networkPolicy.egress.more.[]"))
    read_config({"spec": {"networkPolicy": {"egress": {"more": [rule]}}}})


def test_versions_are_those_that_the_product_names():
    versions = {f"{r.group}/{r.version}" for r in EXPECTED}
    assert versions == {
        names.QUEUE_API_VERSION,
        names.POD_GROUP_API_VERSION,
        names.BIND_REQUEST_API_VERSION,
        names.TOPOLOGY_API_VERSION,
        names.CONFIG_API_VERSION,
    }


@pytest.mark.parametrize(
    ("resource", "path", "rule", "limit"),
    [
        (resources.POD_GROUPS, "spec.minMember", "maximum", limits.MIN_MEMBER),
        (resources.POD_GROUPS, "spec.minSubGroup", "maximum", limits.MIN_SUBGROUP),
        (resources.POD_GROUPS, "spec.subGroups", "maxItems", limits.SUBGROUPS),
        (resources.POD_GROUPS, "spec.subGroups.[].minMember", "maximum", limits.MIN_MEMBER),
        (resources.POD_GROUPS, "spec.subGroups.[].minSubGroup", "maximum", limits.MIN_SUBGROUP),
        (resources.TOPOLOGIES, "spec.levels", "maxItems", limits.LEVELS),
        (resources.QUEUES, "spec.priority", "maximum", limits.QUEUE_PRIORITY),
        *(
            (resources.QUEUES, f"spec.resources.{kind}.{amount}", "maximum", limit)
            for kind in ("gpu", "cpu", "memory")
            for amount, limit in (
                ("quota", limits.QUEUE_AMOUNT),
                ("limit", limits.QUEUE_AMOUNT),
                ("overQuotaWeight", limits.QUEUE_WEIGHT),
            )
        ),
    ],
    ids=lambda value: getattr(value, "kind", None) or str(value),
)
def test_bounds_are_those_of_the_table(resource, path, rule, limit):
    assert field(resource, path)[rule] == limit.most
    assert "schema" in limit.enforced


@pytest.mark.parametrize("resource", [resources.CONFIGS, resources.SCHEDULING_SHARDS], ids=lambda r: r.kind)
@pytest.mark.parametrize(
    ("name", "text", "fits"),
    [
        ("type", "Ready", True),
        ("type", "example.com/Ready", True),
        ("type", "Ready!", False),
        ("type", "Example.com/Ready", False),
        ("reason", "invalid_spec", True),
        ("reason", "two words", False),
        ("reason", "1st", False),
    ],
)
def test_conditions_are_written_as_everywhere_in_kubernetes(resource, name, text, fits):
    pattern = field(resource, f"status.conditions.[].{name}")["pattern"]
    assert bool(re.fullmatch(pattern, text)) is fits


def test_names_and_durations_have_a_length():
    for resource, path in (
        (resources.POD_GROUPS, "spec.queue"),
        (resources.POD_GROUPS, "spec.priorityClassName"),
        (resources.POD_GROUPS, "spec.preemptionDelay"),
        (resources.POD_GROUPS, "spec.stalenessGracePeriod"),
        (resources.POD_GROUPS, "spec.topologyConstraint.topology"),
        (resources.POD_GROUPS, "spec.subGroups.[].topologyConstraint.requiredTopologyLevel"),
        (resources.POD_GROUPS, "spec.subGroups.[].name"),
        (resources.POD_GROUPS, "spec.subGroups.[].parent"),
        (resources.QUEUES, "spec.parentQueue"),
        (resources.QUEUES, "spec.displayName"),
        (resources.QUEUES, "spec.preemptMinRuntime"),
        (resources.QUEUES, "spec.reclaimMinRuntime"),
    ):
        assert field(resource, path)["maxLength"] <= 1024, path
