"""Which labels, annotations and scheduler names are a slip, and which are somebody else's."""

import pytest

from kai.advice.metadata import ANNOTATIONS, LABELS
from kai.advice.spelling import distance, is_scheduler_meant, key_meant, nearest

KNOWN = ANNOTATIONS | LABELS

SLIPS = {
    "gpu-fractoin": "gpu-fraction",
    "gpu-fracton": "gpu-fraction",
    "gpu-fractions": "gpu-fraction",
    "gpu_fraction": "gpu-fraction",
    "gpuFraction": "gpu-fraction",
    "GPU-Fraction": "gpu-fraction",
    "gpu.fraction": "gpu-fraction",
    "gpu-momory": "gpu-memory",
    "gpu-fraction-num-device": "gpu-fraction-num-devices",
    "gpu-fraction-container": "",
    "priorityClassname": "priorityClassName",
    "priority-class-name": "priorityClassName",
    "pod-groupname": "pod-group-name",
    "batch-min-member": "kai.scheduler/batch-min-member",
    "topology-required-placement": "kai.scheduler/topology-required-placement",
    "preemptibility": "kai.scheduler/preemptibility",
    "kai.scheduler/queu": "kai.scheduler/queue",
    "kai.scheduler/Queue": "kai.scheduler/queue",
    "kai.schedular/queue": "kai.scheduler/queue",
    "kai-scheduler/queue": "kai.scheduler/queue",
    "kai_scheduler/batch_min_member": "kai.scheduler/batch-min-member",
    "Kai.Scheduler/queue": "kai.scheduler/queue",
    "kai.scheduler/batch-min-members": "kai.scheduler/batch-min-member",
    "kai.scheduler/gpu-fraction": "gpu-fraction",
    "kai.scheduler/priorityClassName": "priorityClassName",
    "kai.scheduler/colour": "",
}
SLIPS["gpu-fraction-container"] = None  # five letters short of ours: nobody's slip of the pen

FOREIGN = [
    "app",
    "queue",
    "topology",
    "user",
    "project",
    "gpu",
    "gpu-type",
    "gpu-model",
    "gpu-count",
    "gpu-something",
    "gpu-limit",
    "gpu-metrics",
    "memory",
    "priority",
    "pod-template-hash",
    "job-name",
    "controller-uid",
    "batch.kubernetes.io/job-name",
    "kueue.x-k8s.io/queue-name",
    "nvidia.com/gpu-fraction",
    "nvidia.com/gpu.memory",
    "run.ai/queue",
    "runai/queue",
    "volcano.sh/queue-name",
    "scheduling.k8s.io/group-name",
    "scheduling.run.ai/queue",
    "karpenter.sh/queue",
    "app.kubernetes.io/name",
    "sidecar.istio.io/inject",
    "x" * 300,
    "",
    "/",
    "kaischeduler.example.com/queue",
]


@pytest.mark.parametrize(("key", "meant"), SLIPS.items())
def test_a_slip_is_recognised_with_the_nearest_name(key, meant):
    assert key_meant(key, KNOWN) == meant


@pytest.mark.parametrize("key", FOREIGN)
def test_what_others_write_is_left_alone(key):
    assert key_meant(key, KNOWN) is None


@pytest.mark.parametrize("key", sorted(KNOWN))
def test_no_name_of_ours_is_taken_for_another_one_of_ours(key):
    assert key_meant(key, KNOWN) in (key, "")


@pytest.mark.parametrize(
    ("one", "other", "differences"),
    [("fraction", "fraction", 0), ("fractoin", "fraction", 1), ("fracton", "fraction", 1), ("", "ab", 2)],
)
def test_differences_are_counted(one, other, differences):
    assert distance(one, other, 2) == differences == distance(other, one, 2)


def test_beyond_what_matters_nothing_is_counted():
    assert distance("a" * 50, "b" * 50, 2) == 3
    assert distance("abc", "abcdefgh", 2) == 3


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("kai-scheduler", False),
        ("kai-schedular", True),
        ("kai_scheduler", True),
        ("KAI-Scheduler", True),
        ("kaischeduler", True),
        ("kia-scheduler", True),
        ("kai", True),
        ("kai-sched", True),
        ("", False),
        ("default-scheduler", False),
        ("kube-scheduler", False),
        ("runai-scheduler", False),
        ("volcano", False),
        ("kai-scheduler-2", False),
        ("kai-scheduler-blue", False),
        ("x" * 5000, False),
    ],
)
def test_scheduler_names_close_to_ours_are_a_slip(name, meant):
    assert is_scheduler_meant(name, "kai-scheduler") is meant


def test_the_nearest_of_many_is_told_and_none_if_none_is_close():
    assert nearest("tean-a", ["team-a", "team-b"]) == "team-a"
    assert nearest("marketing", ["team-a", "team-b"]) == ""
