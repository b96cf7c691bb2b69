"""A pod that runs has the devices that it has: to get others it must be evicted, also where it could stay."""

from libs.tests.engine.builders import a_node, a_queue, a_running, a_single, a_state, claiming, cycle
from libs.tests.engine.dra.builders import a_claim, a_class, a_device, a_request, a_slice, in_cluster

FAST = 'device.attributes["gpu.example.com"].model == "H100"'


def a_cluster(*, devices):
    """A pod that would take any device has the fast one, and another pod wants that."""
    slow = [a_device(f"gpu-{at}") for at in range(1, devices)]
    return a_state(
        a_queue("top"),
        a_queue("team", parent="top", gpu=2),
        a_node("n1", gpus=0),
        in_cluster(
            a_class("gpu"),
            a_class("fast", FAST),
            a_slice("n1", [a_device("gpu-0", model="H100"), *slow]),
            a_claim("c-any", queue="team", users=["ns-any-0"], holds=["gpu-0"], node="n1"),
            a_claim("c-ours", a_request(device_class="fast"), queue="team"),
        ),
        a_running("any", on="n1", gpus=0, queue="team", namespace="ns", spec=claiming("c-any"), created=9),
        a_single("ours", queue="team", namespace="ns", spec=claiming("c-ours")),
    )


def test_who_has_a_device_that_another_one_needs_is_evicted_and_begins_anew_with_another():
    result = cycle(a_cluster(devices=2))
    assert [each.pod.name for each in result.evictions] == ["any-0"]
    assert [each.pod.name for each in result.nominations] == ["ours", "any-0"]
    assert not result.binds


def test_nobody_is_evicted_where_no_other_device_is_left_for_it():
    result = cycle(a_cluster(devices=1))
    assert (result.evictions, result.nominations, result.binds) == ((), (), ())
