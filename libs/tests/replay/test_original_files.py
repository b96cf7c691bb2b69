"""Files of the original are read as its own tools read them, and what we write they can read."""

import gzip
import random

import msgspec
import pytest

from kai.bench.worlds import NOW, World
from kai.config import SchedulerConfig
from kai.engine import Engine
from kai.model.decisions import CycleResult
from kai.replay import archive, bind_requests, objects
from kai.replay.scene import set_up
from kai.snapshot.state import Kind
from libs.tests.engine.random_worlds import WORLDS, fuzz

from . import go_files as go

QUEUES = [go.a_queue("top"), go.a_queue("team", parent="top")]
NAMES_OF_CACHES_ONLY = "rawObjects does not say which csiNodes, podDisruptionBudgets, namespaces there are"


def decided(*, now=None, **told):
    """The scene of a file, and what one cycle decides."""
    scene = set_up(archive.read(go.a_file(**told)), now=now)
    return scene, Engine(scene.config).run(scene.state, scene.now)


def bound(result):
    return {(each.pod.name, each.node) for each in result.binds}


def test_a_file_with_objects_in_all_its_lists_is_read_whole():
    raw = {
        "pods": [go.a_pod("fits", group="fits", gpus=2), go.a_pod("large", group="large", gpus=16)],
        "nodes": [go.a_node("n1")],
        "queues": QUEUES,
        "podGroups": [go.a_group("fits"), go.a_group("large")],
        "bindRequests": [go.a_bind_request("gone", node="n1")],
        "priorityClasses": [{"metadata": go.meta("train"), "value": 50}],
        "configMaps": [{"metadata": go.meta("settings", "default")}],
        "persistentVolumes": [
            {
                "metadata": go.meta("disk"),
                "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": None}}},
                "status": {},
            }
        ],
        "persistentVolumeClaims": [
            {"metadata": go.meta("disk", "default"), "spec": {"resources": {}}, "status": {}}
        ],
        "csiStorageCapacities": [{"metadata": go.meta("room", "default"), "storageClassName": ""}],
        "storageClasses": [{"metadata": go.meta("fast"), "provisioner": "disk.example.com"}],
        "csiDrivers": [{"metadata": go.meta("disk.example.com"), "spec": {}}],
        "resourceClaims": [go.a_claim("device")],
        "resourceSlices": [go.a_slice("n2")],
        "deviceClasses": [go.a_device_class()],
        "topologies": [{"metadata": go.meta("fabric"), "spec": {"levels": None}}],
        "nodeResourceTopologies": [{"metadata": go.meta("n1"), "zones": None}],
    }
    assert set(raw) == set(go.LISTS)
    scene, result = decided(raw=raw)
    assert [note.split(";")[0] for note in scene.notes] == [NAMES_OF_CACHES_ONLY]
    assert scene.now == 1782907560.0  # the node's last heartbeat
    assert bound(result) == {("fits", "n1")}
    (large,) = (each for each in result.outcomes if each.pod_group == "default/large")
    assert "16 GPUs" in large.message


def test_a_pod_of_which_only_its_success_is_known_still_counts_for_its_gang():
    stale = {"kai.scheduler/stale-podgroup-timestamp": "2026-07-01T12:00:00Z"}
    raw = {
        "nodes": [go.a_node("n1")],
        "queues": QUEUES,
        "podGroups": [go.a_group("gang", minimum=2, annotations=stale)],
    }
    left = go.a_pod("left", group="gang", gpus=1, node="n1", phase="Running")
    _, alone = decided(raw={**raw, "pods": [left]})
    assert [each.pod.name for each in alone.evictions] == ["left"]
    _, finishing = decided(raw={**raw, "pods": [left, go.a_succeeded_pod("done", group="gang")]})
    assert finishing.evictions == ()


@pytest.mark.parametrize(
    ("request_", "binds"),
    [
        pytest.param(go.a_bind_request("p", node="n1"), False, id="new"),
        pytest.param(go.a_bind_request("p", node="n1", status={"phase": "Failed"}), True, id="failed"),
        pytest.param(
            go.a_bind_request(
                "p", node="n1", spec={"backoffLimit": 3}, status={"phase": "Failed", "failedAttempts": 2}
            ),
            False,
            id="failed, and tried again",
        ),
        pytest.param(
            go.a_bind_request(
                "p", node="n1", spec={"backoffLimit": 3}, status={"phase": "Failed", "failedAttempts": 3}
            ),
            True,
            id="failed too often",
        ),
        pytest.param(go.a_bind_request("p", node="left"), True, id="for a node that is gone"),
    ],
)
def test_a_pod_is_being_bound_as_long_as_its_bind_request_can_succeed(request_, binds):
    raw = {
        "nodes": [go.a_node("n1")],
        "queues": QUEUES,
        "podGroups": [go.a_group("g")],
        "pods": [go.a_pod("p", group="g", gpus=1)],
        "bindRequests": [request_],
    }
    _, result = decided(raw=raw)
    assert bool(result.binds) is binds


@pytest.mark.parametrize(
    "groups",
    [
        {"selectedGPUGroups": ["a"]},
        {"selectedFractionalGpuGroups": [{"id": "a", "computeSharingMode": "time-slicing"}]},
    ],
)
def test_shared_devices_are_taken_from_bind_requests_of_all_versions(groups):
    def half(name):
        pod = go.a_pod(name, group=name)
        pod["metadata"]["annotations"] |= {"gpu-fraction": "0.5"}
        return pod

    request = go.a_bind_request(
        "first",
        node="n1",
        spec={
            "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": "0.50"},
            **groups,
        },
    )
    raw = {
        "nodes": [go.a_node("n1", gpus=1)],
        "queues": QUEUES,
        "podGroups": [go.a_group("first"), go.a_group("second")],
        "pods": [half("first"), half("second")],
        "bindRequests": [request],
    }
    _, result = decided(raw=raw)
    (bind,) = result.binds
    assert (bind.pod.name, bind.gpu_groups) == ("second", ("a",))


def claiming(*requests):
    return {
        "nodes": [go.a_node("n1", gpus=0)],
        "queues": QUEUES,
        "podGroups": [go.a_group("first"), go.a_group("second")],
        "pods": [
            go.a_pod("first", group="first", claims=("c1",)),
            go.a_pod("second", group="second", claims=("c2",)),
        ],
        "resourceClaims": [go.a_claim("c1"), go.a_claim("c2")],
        "resourceSlices": [go.a_slice("n1")],
        "deviceClasses": [go.a_device_class()],
        "bindRequests": list(requests),
    }


def test_devices_that_a_bind_request_gives_away_are_not_given_again():
    _, free = decided(raw=claiming())
    assert bound(free) == {("first", "n1")}
    allocations = [{"name": "c1", "allocation": go.an_allocation("n1")}]
    request = go.a_bind_request("first", node="n1", spec={"resourceClaimAllocations": allocations})
    _, taken = decided(raw=claiming(request))
    assert bound(taken) == set()


def test_devices_and_claims_of_older_schedulers_are_those_of_newer_ones():
    older = claiming()
    for claim in older["resourceClaims"]:
        (request,) = claim["spec"]["devices"]["requests"]
        request.update(request.pop("exactly"))
    for slice_ in older["resourceSlices"]:
        for device in slice_["spec"]["devices"]:
            device["basic"] = {key: device.pop(key) for key in ("attributes", "capacity")}
    extra = {
        "metadata": go.meta("shared"),
        "spec": {**older["resourceSlices"][0]["spec"], "devices": None, "nodeName": "n9"},
    }
    older["resourceSlices"].append(extra)
    _, newer_result = decided(raw=claiming())
    _, older_result = decided(raw=older)
    assert older_result.binds == newer_result.binds != ()


def test_claims_are_bound_to_volumes_that_a_file_leaves_out():
    pod = go.a_pod(
        "p", group="g", spec={"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "disk"}}]}
    )
    claim = {
        "metadata": go.meta("disk", "default"),
        "spec": {"volumeName": "pv-1", "resources": {}},
        "status": {"phase": "Bound"},
    }
    raw = {
        "nodes": [go.a_node("n1")],
        "queues": QUEUES,
        "podGroups": [go.a_group("g")],
        "pods": [pod],
        "persistentVolumeClaims": [claim],
    }
    _, without = decided(raw=raw)
    assert bound(without) == set()
    text = msgspec.json.decode(archive._unpacked(go.a_file(raw=raw)))
    del text["rawObjects"]["persistentVolumes"]
    scene = set_up(archive.read(msgspec.json.encode(text)))
    assert bound(Engine(scene.config).run(scene.state, scene.now)) == {("p", "n1")}
    assert "volumes are left out" in scene.notes[-1]


def test_a_configuration_that_was_lost_is_the_built_in_one():
    scene, _ = decided(raw={}, config=None)
    assert scene.config == SchedulerConfig(params=scene.config.params)
    assert "config is missing; the built-in configuration is taken" in scene.notes


def test_what_newer_versions_configure_is_left_out_with_a_note():
    config = {
        "actions": "allocate",
        "tiers": [
            {
                "name": "first",
                "plugins": [
                    {"name": "elastic", "weight": 3, "disableJobOrder": True, "disableTelepathy": True},
                    {"name": "telepathy"},
                    {"name": "gpuspread"},
                ],
            }
        ],
        "scenarioSearchBudgets": {
            "maxCycleSearchDuration": "1m0s",
            "maxGeneratorSearchDuration": {"default": "1m0s", "Quantum": "1s"},
        },
    }
    scene, _ = decided(raw={"podTemplates": []}, config=config)
    assert [plugin.name for plugin in scene.config.plugins] == ["elastic", "gpuspread"]
    assert scene.config.budgets.generator == {"default": 60.0}
    assert [note.split(" is ")[0] for note in scene.notes[:-1]] == [
        "config.tiers[0].name",
        "config.tiers[0].plugins.disableTelepathy",
        "config.tiers[0].plugins.weight",
        "plugin 'telepathy'",
        "config.scenarioSearchBudgets.maxCycleSearchDuration",
        "config.scenarioSearchBudgets.maxGeneratorSearchDuration.Quantum",
        "rawObjects.podTemplates",
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"actions": 3}, "actions is 3"),
        ({"actions": "", "queueDepthPerAction": {"reclaim": "1"}}, "queueDepthPerAction.reclaim is '1'"),
        ({"actions": "", "tiers": {"plugins": None}}, "tiers is {'plugins': None}"),
        ({"actions": "", "tiers": ["x"]}, r"tiers\[0\] is 'x'"),
        ({"actions": "", "tiers": [{"plugins": ["x"]}]}, r"tiers\[0\].plugins\[0\] is 'x'"),
        ({"actions": "", "scenarioSearchBudgets": "5m"}, "scenarioSearchBudgets is '5m'"),
    ],
)
def test_a_configuration_of_the_wrong_shape_is_named(config, message):
    with pytest.raises(archive.ArchiveError, match=message):
        decided(raw={}, config=config)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("resourceSlices", {"spec": {"devices": 3}}, "x: .*spec.devices"),
        ("resourceClaims", {"status": []}, "x: .*status"),
        ("persistentVolumes", {"spec": {"capacity": {"storage": "much"}}}, "x: 'much' is not a Kubernetes"),
        ("csiStorageCapacities", {"capacity": "much"}, "x: 'much' is not a Kubernetes quantity"),
        ("csiNodes", {"spec": {"drivers": [{"name": "d", "allocatable": {"count": "2"}}]}}, "x: .*count"),
        ("podDisruptionBudgets", {"spec": "x"}, "x: .*spec"),
        ("pods", {"status": "x"}, "x: .*status"),
        ("podGroups", {"spec": 1}, "x: .*spec"),
        ("bindRequests", {"spec": {"selectedGPUGroups": "a"}}, "x: .*selectedGPUGroups"),
        ("bindRequests", {"metadata": {}}, r"\[0\] has no metadata.name"),
        ("nodes", {"metadata": None}, r"\[0\] has no metadata.name"),
    ],
)
def test_an_object_that_no_decision_can_read_is_named_with_its_field(kind, fields, message):
    with pytest.raises(archive.ArchiveError, match=f"{kind} ?{message}"):
        decided(raw={kind: [{"metadata": {"name": "x"}, **fields}]})


def test_what_is_no_file_says_how_to_get_one():
    whole = go.a_file(raw={})
    for data in (
        b"404 page not found\n",
        gzip.compress(whole),
        whole[:-30],
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
    ):
        with pytest.raises(archive.ArchiveError, match="take it anew with `kai snapshot`"):
            archive.read(data)


def test_a_time_that_cannot_be_read_is_named():
    for taken_at in ("yesterday", 5):
        data = msgspec.json.encode({"rawObjects": {}, "takenAt": taken_at})
        with pytest.raises(archive.ArchiveError, match=r"takenAt is .*; it must be a time"):
            archive.read(data)


def file_of(world: World, *, shuffle: int, requests=()) -> bytes:
    raw: dict[str, list[object]] = {"bindRequests": list(requests)}
    found = world.objects()
    random.Random(shuffle).shuffle(found)
    for kind, obj in found:
        raw.setdefault(kind.value, []).append(go.as_go(kind.value, msgspec.to_builtins(obj)))
    return go.a_file(raw=raw, config=None)


@fuzz(share=0.6, worlds=WORLDS)
def test_a_world_as_go_writes_it_gives_the_decisions_of_the_cluster(world: World) -> None:
    live = Engine().run(world.state(), NOW)
    for shuffle in (1, 2):
        scene = set_up(archive.read(file_of(world, shuffle=shuffle)), now=NOW)
        # In the default pool all lists are the same, but the file's scheduler has a pool.
        result = Engine(scene.config).run(scene.state, NOW)
        for field in ("binds", "evictions", "nominations", "outcomes", "shares"):
            assert getattr(result, field) == getattr(live, field), field


@fuzz(share=0.6, worlds=WORLDS)
def test_decisions_under_way_are_told_in_full(world: World) -> None:
    """A file that is written after a cycle goes on where the scheduler goes on."""
    engine, state = Engine(), world.state()
    first = engine.run(state, NOW)
    if first.evictions or first.nominations:
        return  # promises are kept in memory, and pods that are being deleted say so themselves
    annotate(world, first)
    requests = list(bind_requests.under_way(state))
    assert len(requests) == len(first.binds)
    scene = set_up(archive.read(file_of(world, shuffle=3, requests=requests)), now=NOW + 1)
    went_on, anew = engine.run(state, NOW + 1), Engine(scene.config).run(scene.state, NOW + 1)
    for field in ("binds", "evictions", "nominations", "shares"):
        assert getattr(went_on, field) == getattr(anew, field), field


def annotate(world: World, result: CycleResult) -> None:
    """Write on the groups what was found about them, such as when they started, as the controllers do."""
    told = {outcome.pod_group: outcome.annotations for outcome in result.outcomes}
    for group in world.groups:
        found = {**group.annotations, **(told.get(group.key) or {})}
        group.metadata.annotations = {key: value for key, value in found.items() if value is not None}


def test_a_bind_request_that_is_written_says_all_that_the_original_asks_for():
    allocations = [{"name": "c1", "allocation": go.an_allocation("n1")}]
    request = go.a_bind_request("first", node="n1", spec={"resourceClaimAllocations": allocations})
    scene, _ = decided(raw=claiming(request))
    (written,) = bind_requests.under_way(scene.state)
    assert written["metadata"] == {
        "name": "first", "namespace": "default", "labels": {"selected-node": "n1"},
    }  # fmt: skip
    assert written["status"] == {"phase": "Pending"}
    spec = written["spec"]
    assert spec.pop("resourceClaimAllocations") == tuple(objects.without_nulls(allocations))
    assert spec == {
        "podName": "first",
        "selectedNode": "n1",
        "receivedResourceType": "Regular",
        "receivedGPU": {"count": 0, "portion": "1.00"},
    }


def test_every_kind_that_decisions_read_has_a_place_in_a_file():
    """Ours are those of the original, and three that its tools ignore."""
    assert {kind.value for kind in Kind} - set(go.LISTS) == {"csiNodes", "podDisruptionBudgets", "namespaces"}
    assert set(go.LISTS) - {kind.value for kind in Kind} == {"bindRequests"}
