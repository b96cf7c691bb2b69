"""What a pod was granted cannot be rewritten while it holds it."""

import pytest

from kai.bench.objects import a_pod
from kai.model import names
from kai.validation.granted import check_update

GROUP = "4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a001"
OTHER = "4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a002"


def a_bound(*, node="n", **shape):
    return a_pod("p", group="g", node=node, **{"fraction": 0.9, "groups": (GROUP,), **shape})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"fraction": 0.01}, "annotation gpu-fraction is \"0.9\""),
        ({"fraction": 0}, "annotation gpu-fraction is \"0.9\""),
        ({"fraction": 0, "gpu_memory_mib": 100}, "annotation gpu-memory is not there"),
        ({"devices": 2}, "annotation gpu-fraction-num-devices is not there"),
        ({"groups": (OTHER,)}, f"label runai-gpu-group is \"{GROUP}\""),
        ({"groups": ()}, f"label runai-gpu-group is \"{GROUP}\""),
        ({"groups": (GROUP, OTHER)}, f"label runai-gpu-group/{OTHER} is not there"),
    ],
)  # fmt: skip
def test_a_bound_pod_cannot_hold_less_or_something_else_by_its_own_word(change, named):
    verdict = check_update(a_bound(), a_bound(**change))
    assert not verdict.allowed
    assert named in verdict.message
    assert "node n" in verdict.message


def test_whole_gpus_cannot_be_written_down_to_a_part():
    assert not check_update(a_pod("p", gpus=8, node="n"), a_pod("p", gpus=8, node="n", fraction=0.01)).allowed


def test_a_pod_that_waits_may_change_its_mind():
    assert check_update(a_bound(node=""), a_bound(node="", fraction=0.2)).allowed
    assert check_update(a_bound(node="", groups=()), a_bound(node="")).allowed


def test_everything_else_of_a_bound_pod_may_change():
    new = a_bound(labels={"app": "x"})
    new.metadata.annotations |= {"note": "hello", names.GPU_FRACTION: "0.9"}
    assert check_update(a_bound(), new).allowed
