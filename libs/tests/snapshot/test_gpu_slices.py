"""GPUs of nodes by resource slices, as these come, change and go."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kai.snapshot.gpu_slices import GpuSlices
from kai.snapshot.state import Kind
from libs.tests.engine.builders import a_node, a_state
from libs.tests.engine.dra.builders import a_device, a_slice, in_cluster


def a_slice_object(node, devices, **more):
    return msgspec.to_builtins(a_slice(node, devices, **more))


def counts(slices):
    return {node: slices.count(node) for node in ("a", "b")}


def test_a_device_counts_once_however_many_slices_name_it():
    slices = GpuSlices()
    slices.put("s", a_slice_object("a", 2))
    slices.put("t", a_slice_object("a", 3))
    assert counts(slices) == {"a": 3, "b": 0}


def test_other_drivers_and_devices_of_several_nodes_count_nowhere():
    slices = GpuSlices()
    assert slices.put("nic", a_slice_object("a", 2, driver="nic.example.com")) == set()
    assert slices.put("far", a_slice_object(None, 2, pool="far", allNodes=True)) == set()
    assert counts(slices) == {"a": 0, "b": 0}


def test_each_device_may_name_its_node():
    devices = [a_device("x", nodeName="a"), a_device("y", nodeName="b"), a_device("z", allNodes=True)]
    slices = GpuSlices()
    assert slices.put("s", a_slice_object(None, devices, pool="p", perDeviceNodeSelection=True)) == {"a", "b"}
    assert counts(slices) == {"a": 1, "b": 1}


def test_a_newer_generation_hides_the_older_slices_of_its_pool_until_it_is_gone():
    slices = GpuSlices()
    slices.put("old", a_slice_object("a", 2, pool="p"))
    assert slices.put("new", a_slice_object("b", 3, pool="p", generation=2)) == {"a", "b"}
    assert counts(slices) == {"a": 0, "b": 3}
    assert slices.put("new", None) == {"a", "b"}
    assert counts(slices) == {"a": 2, "b": 0}


def test_a_slice_made_anew_for_another_node_leaves_the_first_without_devices():
    state = a_state(a_node("a", gpus=0), a_node("b", gpus=0), in_cluster(a_slice("a", 8, name="s")))
    ((kind, moved),) = in_cluster(a_slice("b", 8, name="s"))
    state.take(kind, moved)
    assert {node.name: node.gpus for node in state.nodes.nodes} == {"a": 0, "b": 8}
    state.remove(Kind.RESOURCE_SLICE, "s")
    assert {node.name: node.gpus for node in state.nodes.nodes} == {"a": 0, "b": 0}


_SLICES = st.builds(
    a_slice_object,
    st.sampled_from("ab"),
    st.integers(0, 3),
    pool=st.sampled_from("pq"),
    generation=st.integers(1, 3),
)


@given(st.lists(st.tuples(st.sampled_from("stu"), st.none() | _SLICES), max_size=12))
def test_it_is_as_if_only_the_newest_had_ever_come_and_nobody_concerned_is_missing(changes):
    slices, newest = GpuSlices(), {}
    for name, obj in changes:
        before = counts(slices)
        concerned = slices.put(name, obj)
        newest[name] = obj
        afresh = GpuSlices()
        for each, last in newest.items():
            afresh.put(each, last)
        after = counts(slices)
        assert after == counts(afresh)
        assert {node for node in after if after[node] != before[node]} <= concerned
