"""What is in no object and no pod, put back after a trial."""

from kai.model.faults import Fault
from kai.snapshot.kept import Carried, Kept
from kai.snapshot.kinds import Kind
from libs.tests.engine.builders import NOW, a_job, a_node, a_state, add, nodes

FAULT = Fault(kind="Pod", key="default/x", uid="x", reason="r", message="m")
SECRET = Kept[str]()
ORDER = Carried[tuple[str, ...]](tuple, copied=None, lent=True)


def test_what_a_trial_changed_is_as_it_was() -> None:
    state = a_state(nodes(2), a_job("j", gpus=1))
    state.settle(NOW)
    state.touch_only(["default/j"])
    ORDER.put(state.kept, ("a",))
    SECRET.get(state.kept, 0, lambda: "kept")
    known = (state.version, state.nodes.epoch, state.kept, dict(state.faults))
    standing = state.lend()
    state.set_fault(Kind.POD, "default/x", FAULT)
    state.touch_only(())
    state.version += 1
    state.refusals.refused("n0", namespace="default", now=NOW)
    assert SECRET.get(state.kept, 0, lambda: "made anew") == "made anew"
    assert ORDER.of(state.kept) == ("a",)
    state.take_back(standing)
    assert (state.version, state.nodes.epoch, state.kept, dict(state.faults)) == known
    assert list(state.touched_jobs) == ["default/j"]
    assert not state.refusals
    assert SECRET.get(state.kept, 0, lambda: "made anew") == "kept"


def test_groups_that_were_gone_before_a_trial_are_so_after_it_and_no_others() -> None:
    state = a_state(a_job("before"), a_job("j"))
    state.remove(Kind.POD_GROUP, "default/before")
    group = state.known(Kind.POD_GROUP, "default/j")
    standing = state.lend()
    state.take_gone()
    state.remove(Kind.POD_GROUP, "default/j")
    add(state, group)
    state.take_back(standing)
    assert state.take_gone() == {"default/before": "before"}


def test_what_follows_from_nodes_that_moved_is_found_anew() -> None:
    state = a_state(nodes(1), a_job("j", gpus=1))
    state.settle(NOW)
    standing, epoch = state.lend(), state.nodes.epoch
    add(state, a_node("a"))
    state.settle(NOW)
    state.take_back(standing)
    assert state.nodes.epoch != epoch


def test_only_jobs_that_are_there_count_as_touched() -> None:
    state = a_state(a_job("j"))
    state.touch_only(["default/j", "default/gone"])
    assert list(state.touched_jobs) == ["default/j"]


def test_a_fault_is_told_until_there_is_none() -> None:
    state = a_state()
    state.set_fault(Kind.POD, "default/x", FAULT)
    assert list(state.faults.values()) == [FAULT]
    state.set_fault(Kind.POD, "default/x", None)
    state.set_fault(Kind.POD, "default/x", None)
    assert not state.faults
