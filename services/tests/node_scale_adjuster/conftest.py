"""Builders of pods that wait for parts of GPUs, and of scaling pods."""

import msgspec
import pytest

from kai.model import names
from kai.model.objects import Pod
from kai.snapshot.times import rfc3339
from kai_node_scale_adjuster.objects import ScalingPod, WaitingPod, scaling_pod_name, waiting_pod

#: What the clock says in tests, in Unix seconds.
NOW = 1_800_000_000.0
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def pod_json(
    name="p",
    *,
    namespace="team",
    uid="",
    fraction="0.5",
    memory="",
    devices=0,
    conditions=(UNSCHEDULABLE,),
    phase="Pending",
    node="",
    going=False,
    requests=None,
    annotations=None,
    **spec,
):
    """A pod that asks for a part of GPUs, and that no node can take."""
    asked = {
        **({names.GPU_FRACTION: fraction} if fraction and not memory else {}),
        **({names.GPU_MEMORY: memory} if memory else {}),
        **({names.GPU_FRACTION_NUM_DEVICES: str(devices)} if devices else {}),
    }
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "annotations": asked if annotations is None else annotations,
            **({"deletionTimestamp": rfc3339(NOW)} if going else {}),
        },
        "spec": {
            "schedulerName": names.SCHEDULER_NAME,
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
            **spec,
        },
        "status": {"phase": phase, "conditions": list(conditions)},
    }


def scaling_json(
    waiting: WaitingPod, *, name="", devices=0, phase="Pending", node="", age=0.0, since=None, going=False
):
    """The scaling pod for a pod; ``age`` and ``since`` are seconds before :data:`NOW`."""
    scheduled = {"type": "PodScheduled", "status": "True"} if node else UNSCHEDULABLE
    changed = {"lastTransitionTime": rfc3339(NOW - (age if since is None else since))}
    return {
        "metadata": {
            "name": name or scaling_pod_name(waiting.key),
            "namespace": names.SCALE_ADJUST_NAMESPACE,
            "uid": f"uid-{name or waiting.key}",
            "creationTimestamp": rfc3339(NOW - age),
            "labels": {names.APP_LABEL: names.SCALING_POD_APP},
            "annotations": {names.SCALING_FOR: f"{waiting.uid} {waiting.key}"},
            **({"deletionTimestamp": rfc3339(NOW)} if going else {}),
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {"resources": {"requests": {names.NVIDIA_GPU: str(devices or waiting.share.devices)}}}
            ],
        },
        "status": {"phase": phase, "conditions": [{**scheduled, **changed}]},
    }


class Builders:
    now = NOW
    pod_json = staticmethod(pod_json)

    @staticmethod
    def pod(*args, **options):
        return msgspec.convert(pod_json(*args, **options), Pod)

    @staticmethod
    def waiting(*args, **options):
        found = waiting_pod(Builders.pod(*args, **options))
        assert found is not None
        return found

    @staticmethod
    def scaling(waiting, **options):
        return msgspec.convert(scaling_json(waiting, **options), ScalingPod)


@pytest.fixture
def build():
    return Builders
