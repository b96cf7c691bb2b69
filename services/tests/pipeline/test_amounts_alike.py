"""Whoever counts what a pod holds counts alike: scheduler, controllers, node-scale-adjuster and ``kai``."""

from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kai.model import names
from kai.model.objects import Pod
from kai.model.resource_lists import parsed
from kai.snapshot.state import ClusterState, Kind
from kai_cli.views.nodes import whole_gpus
from kai_node_scale_adjuster.objects import waiting_pod
from kai_node_scale_adjuster.scaling_pods import ScalingTemplate
from kai_podgroup_controller.accounting import Surroundings, resources_status
from kai_podgroup_controller.facts import PodRecord, watched_pod
from kai_queue_controller.tree import sums_of
from libs.tests.engine.builders import NOW, a_group, a_node, a_queue, usual_priorities

NOWHERE = Surroundings(lambda node: None, lambda claim: None)
CPU = st.sampled_from(["100m", "1", "2500m"])
MEMORY = st.sampled_from(["64Mi", "1Gi", "1500M"])
AMOUNTS = st.fixed_dictionaries({}, optional={"cpu": CPU, "memory": MEMORY})
DEVICES = st.fixed_dictionaries({}, optional={names.NVIDIA_GPU: st.sampled_from(["1", "2"])})


@st.composite
def containers(
    draw: Any, name: str, *, sidecar: bool | None = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A container, and what its kubelet may say of it while it is being resized."""
    requests = draw(AMOUNTS) | draw(DEVICES)
    limits = {key: value for key, value in draw(AMOUNTS).items() if key not in requests}
    made: dict[str, Any] = {"name": name, "resources": {"requests": requests, "limits": limits}}
    if draw(st.booleans()) if sidecar is None else sidecar:
        made["restartPolicy"] = "Always"
    status: dict[str, Any] = {"name": name, "ready": True}
    if draw(st.booleans()):
        status |= {"allocatedResources": draw(AMOUNTS), "resources": {"requests": draw(AMOUNTS)}}
    return made, status


@st.composite
def pods(draw: Any) -> dict[str, Any]:
    """A pod that runs, with sidecars, init containers, overhead, and requests of its own."""
    mains = [draw(containers(f"main-{n}")) for n in range(draw(st.integers(1, 2)))]
    inits = [draw(containers(f"init-{n}", sidecar=None)) for n in range(draw(st.integers(0, 3)))]
    spec: dict[str, Any] = {
        "schedulerName": names.SCHEDULER_NAME,
        "nodeName": "n",
        "containers": [each for each, _ in mains],
        "initContainers": [each for each, _ in inits],
    }
    if draw(st.booleans()):
        spec["overhead"] = draw(AMOUNTS)
    if draw(st.booleans()):
        spec["resources"] = {"requests": draw(AMOUNTS)}
    reason = draw(st.sampled_from(["", "Deferred", "Infeasible"]))
    status = {
        "phase": "Running",
        "containerStatuses": [each for _, each in mains],
        "initContainerStatuses": [each for _, each in inits],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else [],
    }
    meta = {"name": "p", "namespace": "default", "uid": "u", "annotations": {names.POD_GROUP_ANNOTATION: "g"}}
    return {"metadata": meta, "spec": spec, "status": status}


def in_units(amounts: dict[str, Decimal]) -> tuple[Decimal, Decimal, Decimal]:
    """Thousandths of CPUs, bytes, and hundredths of GPUs."""
    nothing = Decimal(0)
    return (
        amounts.get("cpu", nothing) * 1000,
        amounts.get("memory", nothing),
        amounts.get(names.NVIDIA_GPU, nothing) * 100,
    )


def charged(pod: dict[str, Any]) -> tuple[int, ...]:
    """By the scheduler, to the queue of the pod."""
    state = ClusterState()
    for each in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, each)
    state.apply(Kind.QUEUE, a_queue("team"))
    state.apply(Kind.NODE, a_node("n", gpus=16, cpu="64", memory="512G"))
    state.apply(Kind.POD_GROUP, a_group("g", queue="team"))
    state.apply(Kind.POD, msgspec.convert(pod, Pod))
    state.settle(NOW)
    state.check()
    return state.queues["team"].allocated.amounts()


SIDECAR = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
KNOWN = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u", "annotations": {"pod-group-name": "g"}},
    "spec": {
        "schedulerName": names.SCHEDULER_NAME,
        "nodeName": "n",
        "containers": [{"name": "m", "resources": {"requests": {"cpu": "1", names.NVIDIA_GPU: "1"}}}],
        "initContainers": [SIDECAR, {"name": "i", "resources": {"requests": {"cpu": "3"}}}],
        "overhead": {"cpu": "500m"},
    },
    "status": {"phase": "Running"},
}


@example(pod=KNOWN)
@settings(max_examples=60, derandomize=True)
@given(pod=pods())
def test_a_pod_that_runs_is_counted_alike_by_all(pod: dict[str, Any]) -> None:
    by_scheduler = charged(pod)
    watched = watched_pod(msgspec.convert(pod, PodRecord))
    told = resources_status([watched], NOWHERE, preemptible=False)
    for field in ("allocated", "allocated_non_preemptible", "requested"):
        assert in_units(getattr(sums_of(told), field)) == by_scheduler, field
    assert whole_gpus(msgspec.convert(pod, Pod)) * 100 == by_scheduler[2]


def test_what_is_known_of_sidecars_and_overhead_is_in_all_of_them() -> None:
    assert charged(KNOWN) == (4500, 0, 100)


@settings(max_examples=40, derandomize=True)
@given(pod=pods())
def test_a_node_is_added_for_what_the_scheduler_would_charge(pod: dict[str, Any]) -> None:
    """Beside the devices, of which a pod that waits for a part asks for whole ones there."""
    waiting = msgspec.json.decode(msgspec.json.encode(pod))
    del waiting["spec"]["nodeName"]
    for each in (*waiting["spec"]["containers"], *waiting["spec"]["initContainers"]):
        each["resources"]["requests"].pop(names.NVIDIA_GPU, None)
    waiting["metadata"]["annotations"][names.GPU_FRACTION] = "0.5"
    waiting["status"] = {"phase": "Pending"}
    found = waiting_pod(msgspec.convert(waiting, Pod))
    assert found is not None
    manifest = ScalingTemplate(image="kai", service_account="scaler").manifest(found, "s")
    (container,) = manifest["spec"]["containers"]
    asked = {key: parsed(text) for key, text in container["resources"]["requests"].items()}
    expected = charged(
        {**waiting, "spec": {**waiting["spec"], "nodeName": "n"}, "status": {"phase": "Running"}}
    )
    assert in_units(asked)[:2] == expected[:2]
