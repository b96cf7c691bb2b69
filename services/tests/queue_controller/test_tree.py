"""Sums over the tree of queues."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.kube.reflector import Upserted
from kai.model.objects import PodGroupResources, Queue, QueueStatus
from kai.model.rules.gpus import whole_gpus
from kai_queue_controller.queues import QueueBook
from kai_queue_controller.tree import QueueTotals, Sums, Workloads, status_patch, totals


def resources(**amounts):
    return msgspec.convert(amounts, PodGroupResources)


def requested(amount):
    return resources(requested={"cpu": amount})


def shown(found):
    """Requested CPU by queue."""
    return {name: str(total.sums.requested.get("cpu", 0)) for name, total in sorted(found.items())}


def test_every_queue_counts_its_own_and_all_below_it(build):
    workloads = Workloads()
    workloads.put("team/a", "leaf", requested("2"))
    workloads.put("team/b", "leaf", requested("500m"))
    workloads.put("team/c", "middle", requested("1"))
    queues = {**build.queues("root", "middle", "leaf"), "other": build.queue("other", parent="root")}
    found = totals(queues, workloads)
    assert shown(found) == {"leaf": "2.500", "middle": "3.500", "other": "0", "root": "3.500"}
    assert found["root"].children == ("middle", "other")
    assert list(found) == ["leaf", "middle", "other", "root"]


def test_all_three_amounts_are_summed(build):
    workloads = Workloads()
    each = {"nvidia.com/gpu": "1500m", "gpu.nvidia.com": "2"}
    workloads.put("team/a", "leaf", resources(allocated=each, allocatedNonPreemptible=each, requested=each))
    root = totals(build.queues("root", "leaf"), workloads)["root"]
    for amounts in root.sums:
        assert amounts == {"nvidia.com/gpu": Decimal("1.5"), "gpu.nvidia.com": 2}


def test_a_group_that_moves_leaves_its_old_queue_at_once(build):
    workloads = Workloads()
    queues = {**build.queues("a"), **build.queues("b")}
    assert workloads.put("team/g", "a", requested("1"))
    assert not workloads.put("team/g", "a", requested("1"))
    assert workloads.put("team/g", "b", requested("1"))
    assert shown(totals(queues, workloads)) == {"a": "0", "b": "1"}
    assert workloads.drop("team/g")
    assert not workloads.drop("team/g")
    assert shown(totals(queues, workloads)) == {"a": "0", "b": "0"}


def test_groups_of_a_queue_that_does_not_exist_count_when_it_does(build):
    workloads = Workloads()
    workloads.put("team/g", "later", requested("1"))
    assert totals({}, workloads) == {}
    assert shown(totals(build.queues("later"), workloads)) == {"later": "1"}


def test_a_parent_that_does_not_exist_is_none(build):
    found = totals({"orphan": build.queue("orphan", parent="gone")}, Workloads())
    assert found["orphan"].depth == 0


def test_a_circle_of_parents_ends(build):
    queues = {
        "a": build.queue("a", parent="b"),
        "b": build.queue("b", parent="a"),
        "self": build.queue("self", parent="self"),
        "below": build.queue("below", parent="a"),
    }
    workloads = Workloads()
    for name in queues:
        workloads.put(f"team/{name}", name, requested("1"))
    found = totals(queues, workloads)
    assert found.keys() == queues.keys()
    assert found["below"].sums.requested == {"cpu": 1}
    assert found["self"].sums.requested == {"cpu": 1}


@pytest.mark.parametrize("below", ["a-team", "z-team"])
def test_who_is_in_a_circle_or_below_it_counts_only_in_himself_whatever_the_names(build, below):
    queues = {
        "m": build.queue("m", parent="n"),
        "n": build.queue("n", parent="m"),
        below: build.queue(below, parent="m"),
        f"{below}-x": build.queue(f"{below}-x", parent=below),
        f"x-{below}": build.queue(f"x-{below}", parent=below),
    }
    workloads = Workloads()
    for name in queues:
        workloads.put(f"team/{name}", name, requested("1"))
    assert shown(totals(queues, workloads)) == dict.fromkeys(queues, "1")


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["g1", "g2", "g3"]),
        st.sampled_from(["", "a", "b", "c"]),
        st.sampled_from(["1", "100m", "0", "2.5"]),
    )
)


@given(OPERATIONS)
def test_sums_do_not_depend_on_how_they_came_about(operations):
    workloads, last = Workloads(), {}
    for group, queue, amount in operations:
        if queue:
            workloads.put(group, queue, requested(amount))
            last[group] = (queue, amount)
        else:
            workloads.drop(group)
            last.pop(group, None)
    fresh = Workloads()
    for group, (queue, amount) in last.items():
        fresh.put(group, queue, requested(amount))
    queues = {
        name: msgspec.convert({"metadata": {"name": name}, "spec": {"parentQueue": parent}}, Queue)
        for name, parent in {"a": "", "b": "a", "c": "b"}.items()
    }
    assert totals(queues, workloads) == totals(queues, fresh)


@pytest.mark.parametrize(
    ("stored", "patch"),
    [
        (None, {"childQueues": ["x", "y"], "requested": {"memory": "2Gi"}}),
        ({"childQueues": ["y", "x"], "requested": {"memory": str(2**31)}}, None),
        ({"childQueues": ["x", "y"], "requested": {"memory": "1Gi"}}, {"requested": {"memory": "2Gi"}}),
        (
            {"childQueues": ["x", "y"], "requested": {"memory": "2Gi"}, "allocated": {"cpu": "1"}},
            {"allocated": {"cpu": None}},
        ),
    ],
    ids=["empty", "equal, written differently", "amount", "resource gone"],
)
def test_only_differences_are_written(stored, patch):
    wanted = QueueTotals(0, ("x", "y"), Sums(requested={"memory": Decimal(2**31)}))
    stored = msgspec.convert(stored, QueueStatus) if stored is not None else None
    assert status_patch(wanted, stored) == patch


def test_gpus_of_all_vendors_count_and_those_of_claims_do_not():
    amounts = {"nvidia.com/gpu": Decimal(2), "amd.com/gpu": Decimal("0.5"), "gpu.nvidia.com": Decimal(7)}
    assert whole_gpus(amounts) == Decimal("2.5")


def test_what_a_list_tells_counts_though_something_newer_was_known(build):
    """As where the store of the API server was restored from a backup."""
    book = QueueBook()
    book(Upserted(build.queue("q", parent="new", version=1000), False))
    for listed, parent in ((False, "new"), (True, "old")):
        book(Upserted(build.queue("q", parent="old", version=800), True, listed=listed))
        assert book.by_name["q"].spec.parent_queue == parent
