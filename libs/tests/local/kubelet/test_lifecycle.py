"""The life of a pod on a simulated node: from admission to its end, with the fewest writes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kai.model.objects import ObjectMeta
from kai_local.kubelet.ledger import NodeLedger
from kai_local.kubelet.life import PodLife, Stage
from kai_local.kubelet.lifecycle import Annotate, Delete, PatchStatus, Report, Step, recover, step
from kai_local.kubelet.nodes import NodeShape, device_id, node_manifest
from kai_local.kubelet.references import Missing
from kai_local.parts.objects import DataObject, DeviceClaim, LocalPod, VolumeClaim

NOW = 1_800_000_000.0
Json = dict[str, Any]


def a_pod(uid: str = "u1", *, gpus: int = 0, **spec: Any) -> LocalPod:
    metadata = {"name": f"pod-{uid}", "namespace": "ns", "uid": uid, **spec.pop("metadata", {})}
    resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}
    container = {"name": "main", "image": "img", "resources": resources, **spec.pop("container", {})}
    status = spec.pop("status", {})
    body = {"metadata": metadata, "spec": {"nodeName": "node-0", "containers": [container], **spec}}
    return msgspec.convert({**body, "status": status}, LocalPod)


def a_node(gpus: int = 2) -> NodeLedger:
    ledger = NodeLedger("node-0")
    ledger.resize(node_manifest("node-0", NodeShape(gpus=gpus))["status"]["allocatable"])
    return ledger


class Things:
    """A cluster that has what it was given."""

    def __init__(self, *objects: Any) -> None:
        self.objects = {(type(o), o.key): o for o in objects}

    def config_map(self, key: str) -> DataObject | None:
        return self.objects.get((DataObject, key))

    secret = config_map

    def volume_claim(self, key: str) -> VolumeClaim | None:
        return self.objects.get((VolumeClaim, key))

    def device_claim(self, key: str) -> DeviceClaim | None:
        return self.objects.get((DeviceClaim, key))


NOTHING = Things()


def patches(effects: Any) -> list[Json]:
    return [effect.status for effect in effects if isinstance(effect, PatchStatus)]


def written(pod: LocalPod, status: Json) -> LocalPod:
    """The pod after the API server took the patch (lists as a whole: enough here)."""
    merged = {**msgspec.to_builtins(pod.status), **status}
    return msgspec.structs.replace(pod, status=msgspec.convert(merged, type(pod.status)))


def deleted(pod: LocalPod, grace: int = 30) -> LocalPod:
    meta = msgspec.structs.replace(
        pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z", deletion_grace_period_seconds=grace
    )
    return msgspec.structs.replace(pod, metadata=meta)


def test_a_pod_becomes_running_and_ready_with_one_write() -> None:
    answer = step(a_pod(), PodLife("10.244.0.1"), a_node(), NOTHING, NOW)
    (status,) = patches(answer.effects)
    assert len(answer.effects) == 1
    assert status["phase"] == "Running"
    assert status["podIP"] == "10.244.0.1"
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    assert status["containerStatuses"][0]["state"]["running"]["startedAt"].endswith("Z")
    assert answer.again_at is None


def test_an_annotation_that_is_no_number_is_told() -> None:
    annotations = {
        "kai.local/run-seconds": "30s",
        "kai.local/ready-seconds": "0",
        "kai.local/exit-code": "inf",
    }
    pod = a_pod(metadata={"annotations": annotations})
    told = [
        effect
        for effect in step(pod, PodLife(), a_node(), NOTHING, NOW).effects
        if isinstance(effect, Report)
    ]
    assert {(effect.kind, effect.reason) for effect in told} == {("Warning", "AnnotationIgnored")}
    assert [effect.message for effect in told] == [
        "annotation kai.local/run-seconds: '30s' is not a number, so it has no effect",
        "annotation kai.local/exit-code: 'inf' is not a number, so it has no effect",
    ]


def test_nothing_is_written_for_a_pod_that_just_runs() -> None:
    pod, life, node = a_pod(), PodLife(), a_node()
    pod = written(pod, patches(step(pod, life, node, NOTHING, NOW).effects)[0])
    assert step(pod, life, node, NOTHING, NOW + 100).effects == ()


def test_devices_are_handed_out_once_and_shown_in_the_status() -> None:
    node, shown = a_node(gpus=2), []
    for uid in ("u1", "u2"):
        (status,) = patches(step(a_pod(uid, gpus=1), PodLife(), node, NOTHING, NOW).effects)
        (entry,) = status["containerStatuses"][0]["allocatedResourcesStatus"]
        shown.append(entry["resources"][0]["resourceID"])
    assert shown == [device_id("node-0", "nvidia.com/gpu", i) for i in range(2)]
    assert shown[0].startswith("GPU-")


def test_a_pod_too_many_is_refused_as_a_kubelet_refuses() -> None:
    node = a_node(gpus=2)
    step(a_pod("u1", gpus=2), PodLife(), node, NOTHING, NOW)
    life = PodLife()
    answer = step(a_pod("u2", gpus=1), life, node, NOTHING, NOW)
    (status,) = patches(answer.effects)
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfnvidia.com/gpu")
    assert status["message"].endswith("nvidia.com/gpu, requested: 1, used: 2, capacity: 2")
    assert life.stage is Stage.ENDED


@pytest.mark.parametrize(
    ("resources", "reason"),
    [
        ({"cpu": "65"}, "OutOfcpu"),
        ({"memory": "513Gi"}, "OutOfmemory"),
        ({"amd.com/gpu": "1"}, "OutOfamd.com/gpu"),
    ],
)
def test_every_resource_is_checked(resources: dict[str, str], reason: str) -> None:
    pod = a_pod(container={"resources": {"requests": resources}})
    (status,) = patches(step(pod, PodLife(), a_node(), NOTHING, NOW).effects)
    assert status["reason"] == reason


def test_a_device_is_free_again_when_its_pod_has_ended() -> None:
    node, life = a_node(gpus=1), PodLife()
    pod = a_pod("u1", gpus=1, restartPolicy="Never", container={"command": ["sleep", "5"]})
    first = step(pod, life, node, NOTHING, NOW)
    assert first.again_at == NOW + 5
    (status,) = patches(step(pod, life, node, NOTHING, NOW + 5).effects)
    assert status["phase"] == "Succeeded"
    (other,) = patches(step(a_pod("u2", gpus=1), PodLife(), node, NOTHING, NOW + 6).effects)
    assert other["phase"] == "Running"


def test_a_failing_pod_that_may_restart_backs_off_and_comes_back() -> None:
    pod, life, node = a_pod(restartPolicy="OnFailure", container={"command": ["false"]}), PodLife(), a_node()
    again = step(pod, life, node, NOTHING, NOW).again_at
    assert again == NOW
    crashed = step(pod, life, node, NOTHING, NOW)
    (status,) = patches(crashed.effects)
    container = status["containerStatuses"][0]
    assert status["phase"] == "Running"
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert crashed.again_at == NOW + 10
    (status,) = patches(step(pod, life, node, NOTHING, NOW + 10).effects)
    assert status["containerStatuses"][0]["restartCount"] == 1


def test_a_failing_pod_that_must_not_restart_has_failed() -> None:
    pod, life, node = (
        a_pod(restartPolicy="Never", container={"command": ["sh", "-c", "exit 3"]}),
        PodLife(),
        a_node(),
    )
    step(pod, life, node, NOTHING, NOW)
    (status,) = patches(step(pod, life, node, NOTHING, NOW).effects)
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


WAITING = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "a"}}}]}


def test_a_missing_config_map_is_waited_for_quietly_then_told_once() -> None:
    pod, life, node = a_pod(container=WAITING), PodLife(), a_node()
    quiet = step(pod, life, node, NOTHING, NOW)
    assert quiet.effects == ()
    assert quiet.again_at == NOW + 1
    assert life.missing == Missing(
        "ConfigMap", "ns/cm", "CreateContainerConfigError", 'configmap "cm" not found'
    )
    told = step(pod, life, node, NOTHING, NOW + 1)
    (status,) = patches(told.effects)
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    assert any(isinstance(effect, Report) and effect.kind == "Warning" for effect in told.effects)
    assert step(pod, life, node, NOTHING, NOW + 2).effects == ()
    there = Things(DataObject(metadata=ObjectMeta(name="cm", namespace="ns"), data={"a": "1"}))
    (status,) = patches(step(pod, life, node, there, NOW + 3).effects)
    assert status["phase"] == "Running"
    assert life.missing is None


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"container": {"envFrom": [{"configMapRef": {"name": "x"}}]}}, "ConfigMap"),
        (
            {"container": {"env": [{"valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]}},
            "Secret",
        ),
        ({"volumes": [{"name": "v", "configMap": {"name": "x"}}]}, "ConfigMap"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "x"}}]}, "Secret"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "x"}}]}}]}, "ConfigMap"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]}, "PersistentVolumeClaim"),
        ({"resourceClaims": [{"name": "c", "resourceClaimName": "x"}]}, "ResourceClaim"),
    ],
)
def test_whatever_the_pod_refers_to_must_exist(spec: Json, kind: str) -> None:
    life = PodLife()
    step(a_pod(**spec), life, a_node(), NOTHING, NOW)
    assert life.missing
    assert (life.missing.kind, life.missing.key) == (kind, "ns/x")


@pytest.mark.parametrize(
    "spec",
    [
        {"container": {"envFrom": [{"configMapRef": {"name": "x", "optional": True}}]}},
        {"volumes": [{"name": "v", "secret": {"secretName": "x", "optional": True}}]},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
    ],
)
def test_what_is_optional_need_not_exist(spec: Json) -> None:
    life = PodLife()
    step(a_pod(**spec), life, a_node(), NOTHING, NOW)
    assert life.missing is None


def test_readiness_follows_the_probe() -> None:
    pod, life, node = a_pod(container={"readinessProbe": {"initialDelaySeconds": 7}}), PodLife(), a_node()
    started = step(pod, life, node, NOTHING, NOW)
    (status,) = patches(started.effects)
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "False"
    assert started.again_at == NOW + 7
    (status,) = patches(step(pod, life, node, NOTHING, NOW + 7).effects)
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"


def test_a_reservation_pod_names_its_device_before_it_runs() -> None:
    pod = a_pod(gpus=1, metadata={"labels": {"app": "kai-resource-reservation"}})
    annotate, status = step(pod, PodLife(), a_node(), NOTHING, NOW).effects
    assert annotate == Annotate({"run.ai/reserve_for_gpu_index": device_id("node-0", "nvidia.com/gpu", 0)})
    assert isinstance(status, PatchStatus)


def test_a_deleted_pod_is_removed_at_once() -> None:
    pod, life, node = a_pod(), PodLife(), a_node()
    step(pod, life, node, NOTHING, NOW)
    assert step(deleted(pod), life, node, NOTHING, NOW + 1).effects == (Delete(),)


@pytest.mark.parametrize(("needed", "grace", "waits"), [("20", 30, 20), ("20", 5, 5), ("20", 0, 0)])
def test_a_pod_that_needs_time_to_end_gets_at_most_its_grace(needed: str, grace: int, waits: float) -> None:
    pod = a_pod(metadata={"annotations": {"kai.local/terminate-seconds": needed}})
    life, node = PodLife(), a_node()
    step(pod, life, node, NOTHING, NOW)
    first = step(deleted(pod, grace), life, node, NOTHING, NOW)
    assert first.effects == ((Delete(),) if waits == 0 else ())
    assert step(deleted(pod, grace), life, node, NOTHING, NOW + waits).effects == (Delete(),)


def test_a_deleted_pod_that_a_finalizer_holds_has_ended_and_gives_its_devices_back() -> None:
    pod, life, node = a_pod(gpus=1, metadata={"finalizers": ["example.com/wait"]}), PodLife(), a_node(gpus=1)
    pod = written(pod, patches(step(pod, life, node, NOTHING, NOW).effects)[0])
    told, removed = step(deleted(pod), life, node, NOTHING, NOW + 1).effects
    assert isinstance(told, PatchStatus)
    assert told.status["phase"] == "Failed"
    assert told.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert removed == Delete()
    assert "u1" not in node
    assert step(written(deleted(pod), told.status), life, node, NOTHING, NOW + 2).effects == (Delete(),)


def test_a_deleted_pod_that_never_started_and_that_a_finalizer_holds_has_failed() -> None:
    pod = a_pod(metadata={"finalizers": ["example.com/wait"]})
    (told,) = patches(step(deleted(pod), PodLife(), a_node(), NOTHING, NOW).effects)
    assert told["phase"] == "Failed"
    assert "containerStatuses" not in told


def test_a_pod_that_is_active_for_longer_than_it_may_has_failed() -> None:
    pod, life, node = a_pod(gpus=1, activeDeadlineSeconds=5), PodLife(), a_node()
    assert step(pod, life, node, NOTHING, NOW).again_at == NOW + 5
    assert step(pod, life, node, NOTHING, NOW + 4).effects == ()
    overdue = step(pod, life, node, NOTHING, NOW + 5)
    (status,) = patches(overdue.effects)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["finishedAt"]) == (137, "2027-01-15T08:00:05Z")
    assert overdue.again_at is None
    assert "u1" not in node


def test_a_pod_that_waits_for_its_next_start_when_its_time_is_over_has_failed_though_it_ended_well() -> None:
    pod, life, node = (
        a_pod(activeDeadlineSeconds=5, container={"command": ["sleep", "1"]}),
        PodLife(),
        a_node(),
    )
    step(pod, life, node, NOTHING, NOW)
    step(pod, life, node, NOTHING, NOW + 1)
    (status,) = patches(step(pod, life, node, NOTHING, NOW + 5).effects)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_the_deadline_counts_for_a_pod_that_waits_too() -> None:
    volume = {"name": "v", "configMap": {"name": "absent"}}
    pod, life, node = a_pod(activeDeadlineSeconds=60, volumes=[volume]), PodLife(), a_node()
    step(pod, life, node, NOTHING, NOW)
    assert step(pod, life, node, NOTHING, NOW + 2).again_at == NOW + 60
    (status,) = patches(step(pod, life, node, NOTHING, NOW + 60).effects)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_pod_whose_containers_take_time_to_be_made_waits_and_is_refused_at_once() -> None:
    late = {"annotations": {"kai.local/start-seconds": "20"}}
    pod, life, node = a_pod(gpus=1, metadata=late), PodLife(), a_node(gpus=1)
    assert step(pod, life, node, NOTHING, NOW) == Step(again_at=NOW + 20)
    [made] = patches(step(pod, life, node, NOTHING, NOW + 20).effects)
    assert made["phase"] == "Running"
    [refused] = patches(step(a_pod("u2", gpus=1, metadata=late), PodLife(), node, NOTHING, NOW).effects)
    assert refused["phase"] == "Failed"


def test_a_restarted_kubelet_gives_pods_their_devices_back() -> None:
    pod, node = a_pod(gpus=1, restartPolicy="Never", container={"command": ["sleep", "60"]}), a_node(gpus=2)
    step(a_pod("u0", gpus=1), PodLife(), node, NOTHING, NOW)
    pod = written(pod, patches(step(pod, PodLife(), node, NOTHING, NOW).effects)[0])
    fresh = a_node(gpus=2)
    life = recover(pod, fresh)
    assert life
    assert life.devices == {"main": {"nvidia.com/gpu": [device_id("node-0", "nvidia.com/gpu", 1)]}}
    assert step(pod, life, fresh, NOTHING, NOW + 30).again_at == NOW + 60
    (other,) = patches(step(a_pod("u2", gpus=1), PodLife(), fresh, NOTHING, NOW).effects)
    (entry,) = other["containerStatuses"][0]["allocatedResourcesStatus"]
    assert entry["resources"][0]["resourceID"] == device_id("node-0", "nvidia.com/gpu", 0)


def test_a_pod_that_somebody_failed_gives_its_devices_back() -> None:
    node, life = a_node(gpus=1), PodLife()
    pod = a_pod(gpus=1)
    step(pod, life, node, NOTHING, NOW)
    failed = written(pod, {"phase": "Failed", "reason": "Evicted"})
    assert step(failed, life, node, NOTHING, NOW).effects == ()
    assert "u1" not in node


def test_what_a_pod_has_by_a_claim_it_does_not_take_of_the_nodes_own() -> None:
    mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [mapping]}}
    node = a_node(gpus=1)
    assert node.admit(a_pod("claims", gpus=2, status=status)) == {}
    assert node.admit(a_pod("takes", gpus=1)) == {
        "main": {"nvidia.com/gpu": [device_id("node-0", "nvidia.com/gpu", 0)]}
    }
