"""What pods are charged for, as tables."""

import msgspec
import pytest

from kai.model import remembered
from kai.model.objects import PodGroupResources, PriorityClass
from kai_podgroup_controller import facts
from kai_podgroup_controller.accounting import (
    Surroundings,
    core_pods,
    difference,
    is_preemptible,
    resources_status,
)
from kai_podgroup_controller.facts import watched_group, watched_pod

GPU = "nvidia.com/gpu"
FRACTION = {"received-resource-type": "Fraction"}


def charged(build, *pods, preemptible=True, core=None, memory=None, claims=None):
    surroundings = Surroundings((memory or {}).get, (claims or {}).get)
    watched = [watched_pod(build.pod(**pod)) for pod in pods]
    return resources_status(watched, surroundings, preemptible=preemptible, core=core)


@pytest.mark.parametrize(
    ("pods", "requested", "allocated"),
    [
        pytest.param([], {}, {}, id="no pods"),
        pytest.param([{"requests": [{"cpu": "500m"}]}], {"cpu": "500m"}, {}, id="waiting"),
        pytest.param([{"bound": True}], {"cpu": "1"}, {"cpu": "1"}, id="bound"),
        pytest.param([{"phase": "Running"}], {"cpu": "1"}, {"cpu": "1"}, id="running"),
        pytest.param([{"phase": "Succeeded", "bound": True}], {}, {}, id="succeeded"),
        pytest.param([{"phase": "Failed", "bound": True}], {}, {}, id="failed"),
        pytest.param([{"phase": "Unknown", "bound": True}], {}, {}, id="unknown"),
        pytest.param([{"phase": ""}], {}, {}, id="not accepted yet"),
        pytest.param(
            [{"conditions": [{"type": "PodScheduled", "status": "False"}]}], {"cpu": "1"}, {}, id="refused"
        ),
        pytest.param(
            [{"requests": [{"cpu": "1", "memory": "1Gi"}, {"cpu": "250m", GPU: "2"}], "phase": "Running"}],
            {"cpu": "1250m", "memory": "1Gi", GPU: "2"},
            {"cpu": "1250m", "memory": "1Gi", GPU: "2"},
            id="containers add up",
        ),
        pytest.param(
            [{"name": "a", "bound": True}, {"name": "b"}],
            {"cpu": "2"},
            {"cpu": "1"},
            id="one of two is bound",
        ),
        pytest.param(
            [{"requests": [], "annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"}}],
            {GPU: "1500m"},
            {},
            id="fraction of several devices",
        ),
        pytest.param(
            [
                {
                    "requests": [],
                    "bound": True,
                    "annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3", **FRACTION},
                }
            ],
            {GPU: "1500m"},
            {GPU: "1500m"},
            id="fraction of several devices, bound",
        ),
        pytest.param(
            [{"requests": [], "bound": True, "annotations": {"gpu-fraction": "0.5"}}],
            {GPU: "500m"},
            {},
            id="bound, fraction not received",
        ),
        pytest.param(
            [{"requests": [], "annotations": {"gpu-memory": "2000", "gpu-fraction-num-devices": "2"}}],
            {"run.ai/gpu.memory": "4000"},
            {},
            id="memory is asked for in MiB",
        ),
        pytest.param(
            [{"requests": [], "annotations": {"gpu-fraction": "much"}}], {}, {}, id="malformed fraction"
        ),
        pytest.param(
            [{"requests": [{GPU: str(2**62)}], "name": str(i), "phase": "Running"} for i in range(4)],
            {GPU: str(2**63 - 1)},
            {GPU: str(2**63 - 1)},
            id="sums stop at int64",
        ),
    ],
)
def test_requested_and_allocated(build, pods, requested, allocated):
    status = charged(build, *pods)
    assert (status.requested, status.allocated) == (requested, allocated)


@pytest.mark.parametrize(
    ("core", "expected"), [((), {}), (("a",), {"cpu": "1"}), (("a", "b", "gone"), {"cpu": "3"})]
)
def test_of_semi_preemptible_groups_what_their_core_holds_is_non_preemptible(build, core, expected):
    pods = [
        {"name": "a", "phase": "Running"},
        {"name": "b", "phase": "Running", "requests": [{"cpu": "2"}]},
        {"name": "c", "phase": "Running"},
    ]
    status = charged(build, *pods, preemptible=False, core=core)
    assert status.allocated == {"cpu": "4"}
    assert status.allocated_non_preemptible == expected


@pytest.mark.parametrize(
    ("preemptibility", "told", "stored", "expected"),
    [
        ("semi-preemptible", ("a",), ["b"], ("a",)),
        ("semi-preemptible", (), ["b"], ()),
        ("semi-preemptible", None, ["b"], ("b",)),
        ("semi-preemptible", None, None, ()),
        ("non-preemptible", ("a",), ["b"], None),
        ("", None, None, None),
    ],
)
def test_the_core_is_what_the_scheduler_says_and_what_it_said_while_there_is_none(
    build, preemptibility, told, stored, expected
):
    status = {"schedulingState": {"corePods": stored}} if stored is not None else None
    spec = {"preemptibility": preemptibility}
    group = watched_group(build.group(spec=spec, status=status), node_pool_label_key="pool")
    outcome = None if told is None else build.outcome(core_pods=told)
    assert core_pods(group, outcome) == expected


@pytest.mark.parametrize(("preemptible", "expected"), [(True, {}), (False, {"cpu": "1"})])
def test_non_preemptible_groups_hold_all_they_hold_so(build, preemptible, expected):
    status = charged(build, {"phase": "Running"}, preemptible=preemptible)
    assert status.allocated_non_preemptible == expected


@pytest.mark.parametrize(
    ("memory", "expected"), [({"n1": 16000}, {GPU: "500m"}), ({}, {})], ids=["known", "unknown"]
)
def test_granted_memory_counts_in_devices_of_that_node(build, memory, expected):
    annotations = {"gpu-memory": "4000", "gpu-fraction-num-devices": "2", **FRACTION}
    pod = {"requests": [], "phase": "Running", "node": "n1", "annotations": annotations}
    assert charged(build, pod, memory=memory).allocated == expected


@pytest.mark.parametrize(
    "pod",
    [
        {"claims": [{"name": "g", "resourceClaimName": "c"}]},
        {
            "claims": [{"name": "g", "resourceClaimTemplateName": "t"}],
            "claim_statuses": [{"name": "g", "resourceClaimName": "c"}],
        },
    ],
    ids=["by name", "by template"],
)
def test_claimed_gpus_are_charged_under_their_device_class(build, pod):
    pod = {"requests": [], "phase": "Running", **pod}
    status = charged(build, pod, claims={"team/c": ("gpu.nvidia.com", 2)})
    assert status.requested == status.allocated == {"gpu.nvidia.com": "2"}


def test_a_claim_that_does_not_exist_yet_counts_nothing_until_it_does(build):
    pod = {"requests": [], "claims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
    assert charged(build, pod).requested == {}


CLASSES = {
    "train": PriorityClass(value=50),
    "inference": PriorityClass(value=125),
    "edge": PriorityClass(value=100),
}


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        ({"preemptibility": "preemptible", "priorityClassName": "inference"}, CLASSES, True),
        ({"preemptibility": "non-preemptible", "priorityClassName": "train"}, CLASSES, False),
        ({"priorityClassName": "train"}, CLASSES, True),
        ({"priorityClassName": "edge"}, CLASSES, False),
        ({"priorityClassName": "inference"}, CLASSES, False),
        ({"priorityClassName": "gone"}, CLASSES, True),
        (
            {"priorityClassName": "gone"},
            {**CLASSES, "d": PriorityClass(value=200, global_default=True)},
            False,
        ),
        ({}, {}, True),
    ],
)
def test_preemptibility_is_said_or_follows_from_priority(build, spec, classes, expected):
    group = watched_group(build.group(spec=spec), node_pool_label_key="pool")
    assert is_preemptible(group, classes) is expected


@pytest.mark.parametrize(
    ("wanted", "stored", "patch"),
    [
        ({}, None, None),
        ({"requested": {"cpu": "1"}}, None, {"requested": {"cpu": "1"}}),
        ({"requested": {"cpu": "1"}}, {"requested": {"cpu": "1000m"}}, None),
        (
            {"requested": {"cpu": "1"}},
            {"requested": {"cpu": "1", "memory": "1"}},
            {"requested": {"memory": None}},
        ),
        (
            {"allocated": {"cpu": "1"}},
            {"allocated": {"cpu": "1"}, "allocatedNonPreemptible": {"cpu": "1"}},
            {"allocatedNonPreemptible": {"cpu": None}},
        ),
        ({"allocated": {}}, {"allocated": None}, None),
    ],
    ids=["nothing", "new", "same amount written differently", "resource gone", "became preemptible", "empty"],
)
def test_only_differences_are_written(wanted, stored, patch):
    stored = msgspec.convert(stored, PodGroupResources) if stored is not None else None
    assert difference(msgspec.convert(wanted, PodGroupResources), stored) == patch


def test_what_pods_of_a_kind_share_is_forgotten_at_rest(build):
    watched_pod(
        build.pod(requests=[{"cpu": "371m"}], conditions=[{"type": "PodScheduled", "status": "False"}])
    )
    shared = (facts._shared, facts._condition)
    assert all(each.cache_info().currsize for each in shared)
    remembered.forget()
    assert not any(each.cache_info().currsize for each in shared)
