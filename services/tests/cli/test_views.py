"""What `kai get` shows of a cluster."""

import pytest

from kai.model.decisions import QueuedGroup, QueueShare
from kai.model.objects import (
    Condition,
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    Queue,
    QueueAccess,
    QueueResource,
    QueueResources,
    QueueSpec,
    QueueStatus,
    ResourceRequirements,
    SchedulingCondition,
    SubGroup,
)
from kai.model.verdicts import GroupVerdict
from kai.snapshot.times import seconds
from kai_cli.views import nodes, pod_groups, pods, queues, service_order
from kai_cli.views.claims import ClaimedGpus


def a_queue(name, parent="", *, gpus=0.0, cpu_millis=0.0, status=None):
    resources = QueueResources(
        gpu=QueueResource(quota=gpus, limit=-1), cpu=QueueResource(quota=cpu_millis, limit=-1)
    )
    return Queue(
        metadata=ObjectMeta(name=name),
        spec=QueueSpec(parent_queue=parent, resources=resources),
        status=status,
    )


def test_who_may_use_a_queue_is_shown_beside_it():
    closed, team, free = a_queue("closed"), a_queue("team"), a_queue("free")
    closed.spec.access, team.spec.access = QueueAccess(), QueueAccess(namespaces=["team-b"])
    shown = [row.cells()[-1] for row in queues.tree([closed, team, free], {})]
    assert shown == ["nobody", "everybody", "namespaces team-b"]


def a_share(queue, **columns):
    zero = (0.0, 0.0, 0.0)
    fields = ("deserved", "limit", "over_quota_weight", "allocated_non_preemptible", "usage")
    given = dict.fromkeys(fields, zero) | {"fair_share": zero, "allocated": zero, "requested": zero} | columns
    return QueueShare(queue=queue, display_name=queue, parent="", priority=100, **given)


def a_pod(name, *, node="n1", gpus=0, phase="Running", labels=None, annotations=None):
    requests = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return Pod(
        metadata=ObjectMeta(name=name, namespace="team", labels=labels, annotations=annotations),
        spec=PodSpec(
            node_name=node,
            containers=[Container(name="main", resources=ResourceRequirements(requests=requests))],
        ),
        status=PodStatus(phase=phase),
    )


def a_node(name="n1", gpus=4):
    return Node(
        metadata=ObjectMeta(name=name),
        status=NodeStatus(
            allocatable={"nvidia.com/gpu": str(gpus)}, conditions=[Condition(type="Ready", status="True")]
        ),
    )


def test_queues_come_as_a_tree_with_siblings_by_name():
    rows = queues.tree([a_queue("z", "top"), a_queue("a", "top"), a_queue("top"), a_queue("other")], {})
    assert [(row.name, row.depth) for row in rows] == [("other", 0), ("top", 0), ("a", 1), ("z", 1)]


def test_a_queue_without_its_parent_is_marked_and_a_cycle_is_still_listed():
    rows = queues.tree([a_queue("lost", "gone"), a_queue("x", "y"), a_queue("y", "x")], {})
    assert {row.name: row.orphan for row in rows} == {"lost": True, "x": True, "y": False}


def test_amounts_come_from_the_scheduler_where_it_answers_and_from_the_status_otherwise():
    status = QueueStatus(allocated={"nvidia.com/gpu": "1500m", "cpu": "2"}, requested={"nvidia.com/gpu": "4"})
    queue = a_queue("q", gpus=3, cpu_millis=4000, status=status)
    [offline] = queues.tree([queue], {})
    assert (offline.gpu.allocated, offline.gpu.requested, offline.gpu.fair_share) == (1.5, 4.0, None)
    assert (offline.cpu.quota, offline.cpu.allocated, offline.cpu.limit) == (4.0, 2.0, -1)
    share = a_share("q", fair_share=(6000.0, -1, 5.0), allocated=(1000.0, 2.0**30, 2.0))
    [online] = queues.tree([queue], {"q": share})
    assert (online.gpu.fair_share, online.cpu.fair_share, online.memory.fair_share) == (5.0, 6.0, -1)
    assert (online.gpu.allocated, online.cpu.allocated) == (2.0, 1.0)
    assert online.cells()[-2:] == ("1Gi", "everybody")


def test_what_a_queue_used_in_the_past_is_shown_where_the_scheduler_tells_it():
    column = [column.heading for column in queues.COLUMNS].index("GPU PAST USE")
    [offline] = queues.tree([a_queue("q")], {})
    [online] = queues.tree([a_queue("q")], {"q": a_share("q", usage=(0.0, 0.0, 0.125))})
    assert (offline.cells()[column], online.cells()[column]) == ("?", "12.5 %")
    assert online.document()["gpu"]["past_use"] == 0.125


def test_a_node_shows_whole_and_shared_gpus_and_who_holds_them():
    reservation = a_pod("r", gpus=1, labels={"app": "kai-resource-reservation", "runai-gpu-group": "g1"})
    sharers = [
        a_pod(name, labels={"runai-gpu-group": "g1"}, annotations={"gpu-fraction": portion})
        for name, portion in (("s1", "0.5"), ("s2", "0.2"))
    ]
    ended = a_pod("old", gpus=1, phase="Succeeded")
    [row] = nodes.table_of([a_node()], [a_pod("whole", gpus=2), reservation, *sharers, ended])
    assert (row.gpus, row.used, row.free) == (4, 2.7, 1.3)
    assert row.cells()[5] == "●●◐○"
    assert row.shared[0].pods == ("team/s1", "team/s2")


def test_a_part_that_cannot_be_read_is_shown_as_nothing():
    pods = [
        a_pod(f"p{i}", labels={"runai-gpu-group": "g"}, annotations={"gpu-fraction": text})
        for i, text in enumerate(("half", "0.5", "nan"))
    ]
    [row] = nodes.table_of([a_node()], pods)
    assert (row.used, row.shared[0].pods) == (0.5, ("team/p0", "team/p1", "team/p2"))


def test_a_pod_on_several_shared_devices_counts_on_each():
    pod = a_pod(
        "multi",
        labels={"runai-gpu-group/a": "a", "runai-gpu-group/b": "b"},
        annotations={"gpu-fraction": "0.5"},
    )
    [row] = nodes.table_of([a_node()], [pod])
    assert [(device.group, device.portion) for device in row.shared] == [("a", 0.5), ("b", 0.5)]


def a_claiming_pod(name, *claims, **more):
    pod = a_pod(name, **more)
    pod.spec.resource_claims = [PodResourceClaim(name=each, resource_claim_name=each) for each in claims]
    return pod


CLAIMED = ClaimedGpus(of_claims={"team/own": 2, "team/both": 1}, of_nodes={"n1": 8})


def test_gpus_of_claims_count_on_a_node_and_those_of_a_shared_claim_once():
    pods = [
        a_claiming_pod("a", "own", "both", "no-gpus"),
        a_claiming_pod("b", "both"),
        a_claiming_pod("ended", "own", phase="Succeeded"),
        a_pod("c", gpus=1),
    ]
    [row] = nodes.table_of([a_node(gpus=2)], pods, CLAIMED)
    assert (row.gpus, row.used, row.free, row.whole_free) == (10, 4, 6, 6)
    assert row.cells()[5] == "●●●●○○○○○○"
    assert row.cells()[-1] == "team/c=1  [team/both 1: team/a, team/b]  [team/own 2: team/a]"


def test_gpus_of_claims_count_for_a_pod_and_those_of_a_shared_claim_once_for_a_group():
    in_group = {"pod-group-name": "g"}
    waiting = [
        a_claiming_pod(name, *claims, node="", phase="Pending", annotations=in_group, gpus=1)
        for name, claims in (("a", ("own", "both")), ("b", ("both",)))
    ]
    shown = pods.table_of(waiting, at=0.0, claimed=CLAIMED)
    assert [row.gpus for row in shown] == [4, 2]
    group = PodGroup(
        metadata=ObjectMeta(name="g", namespace="team", creation_timestamp="2026-11-24T10:00:00Z"),
        spec=PodGroupSpec(queue="q", min_member=2),
    )
    [row] = service_order.waiting_in({"q"}, [group], waiting, at=0.0, line=(), claimed=CLAIMED)
    assert row.gpus == 5


def test_a_pod_group_that_waits_shows_the_newest_reason():
    newest = SchedulingCondition(
        reason="Unschedulable", message="no node has 9 GPUs\nmore", reasons=[{"reason": "TooLarge"}]
    )
    conditions = [SchedulingCondition(message="old"), newest]
    group = PodGroup(
        metadata=ObjectMeta(name="pg", namespace="team", creation_timestamp="2026-11-24T10:00:00Z"),
        spec=PodGroupSpec(queue="q", min_member=2),
        status=PodGroupStatus(scheduling_conditions=conditions),
    )
    pods = [a_pod(f"p{i}", node="", phase="Pending", annotations={"pod-group-name": "pg"}) for i in range(2)]
    for made, pod in zip(("10:05", "10:02"), pods, strict=True):
        pod.metadata.creation_timestamp = f"2026-11-24T{made}:00Z"
    at = seconds("2026-11-24T11:12:00Z")
    [row] = pod_groups.table_of(
        [group], pods, at=at, line=a_line("q", "other/first", "team/pg", "other/last")
    )
    assert (row.state, row.pods, row.pending, row.minimum) == ("Unschedulable", 2, 2, "2")
    assert row.cells()[-1] == "no node has 9 GPUs"
    assert row.cells()[5:9] == ("1h12m", "1h10m", "2/3", "TooLarge")
    assert pod_groups.table_of([group], pods, at=at)[0].position is None


def test_a_pod_group_that_waits_shows_the_reason_that_was_proven():
    verdict = GroupVerdict(pod_group="team/pg", verdict="CHANGE", code="NodeSelector", text="no node has it")
    why = SchedulingCondition(
        reason="Unschedulable", message=verdict.after("no node"), reasons=[{"reason": "PodSchedulingErrors"}]
    )
    group = PodGroup(
        metadata=ObjectMeta(name="pg", namespace="team"),
        spec=PodGroupSpec(queue="q"),
        status=PodGroupStatus(scheduling_conditions=[why]),
    )
    assert pod_groups.table_of([group], [], at=0.0)[0].reason == "NodeSelector"


def test_of_a_pod_group_that_runs_in_part_the_rest_says_why_it_waits():
    group = PodGroup(
        metadata=ObjectMeta(name="pg", namespace="team", creation_timestamp="2026-11-24T10:00:00Z"),
        spec=PodGroupSpec(queue="q", min_member=1),
    )
    member = {"annotations": {"pod-group-name": "pg"}}
    runs, waits = a_pod("p0", **member), a_pod("p1", node="", phase="Pending", **member)
    why = Condition(
        type="PodScheduled", status="False", reason="Unschedulable", message="OverLimit: 4 GPUs\nmore"
    )
    waits.status.conditions = [why]
    [row] = pod_groups.table_of([group], [runs, waits], at=seconds("2026-11-24T11:12:00Z"))
    assert (row.running, row.pending, row.reason) == (1, 1, "Unschedulable")
    assert row.cells()[-1] == "OverLimit: 4 GPUs"


def test_a_pod_waits_only_while_it_has_no_node_and_may_get_one():
    assert pods.waits(a_pod("new", node="", phase="Pending"))
    assert pods.waits(a_pod("no phase yet", node="", phase=""))
    assert not pods.waits(a_pod("pulls its image", phase="Pending"))
    assert not pods.waits(a_pod("runs"))
    assert not pods.waits(a_pod("never had one", node="", phase="Failed"))
    leaving = a_pod("leaves", node="", phase="Pending")
    leaving.metadata.deletion_timestamp = "2026-11-24T10:00:00Z"
    assert not pods.waits(leaving)


def test_a_pod_group_whose_pods_have_nodes_waits_for_nothing_while_images_are_pulled():
    group = PodGroup(metadata=ObjectMeta(name="pg", namespace="team"), spec=PodGroupSpec(queue="q"))
    member = {"phase": "Pending", "annotations": {"pod-group-name": "pg"}}
    starts, waits = a_pod("p0", gpus=2, **member), a_pod("p1", node="", gpus=1, **member)
    waits.metadata.creation_timestamp = "2026-11-24T10:00:00Z"
    [row] = pod_groups.table_of([group], [starts], at=60.0)
    assert (row.waiting_since, row.pending, row.cells()[6]) == (None, 1, "-")
    assert service_order.waiting_in({"q"}, [group], [starts], at=60.0, line=()) == []
    [waiting] = service_order.waiting_in({"q"}, [group], [starts, waits], at=60.0, line=())
    assert (waiting.gpus, waiting.group.waiting_since) == (1.0, seconds("2026-11-24T10:00:00Z"))


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({}, "1"),
        ({"min_member": 0}, "0"),
        ({"min_member": 4}, "4"),
        ({"sub_groups": [SubGroup(name="a", min_member=2), SubGroup(name="b", min_member=2)]}, "2 subgroups"),
        ({"sub_groups": [SubGroup(name="a", min_member=2)], "min_sub_group": 0}, "0 subgroups"),
        ({"sub_groups": [SubGroup(name="a", min_member=2)]}, "1 subgroup"),
    ],
)
def test_the_minimum_of_a_pod_group_is_what_the_scheduler_needs(spec, shown):
    group = PodGroup(metadata=ObjectMeta(name="pg", namespace="team"), spec=PodGroupSpec(**spec))
    assert pod_groups.table_of([group], [], at=0.0)[0].minimum == shown


def a_line(queue, *groups):
    return [QueuedGroup(pod_group=each, queue=queue, priority=50, ahead_by="age") for each in groups]


def test_what_waits_in_a_queue_and_below_it_is_listed_in_the_order_of_service():
    queues_ = [a_queue("top"), a_queue("a", "top"), a_queue("b", "top"), a_queue("elsewhere")]
    assert service_order.below("top", queues_) == {"top", "a", "b"}
    groups, pods = [], []
    for name, queue in (("one", "a"), ("two", "b"), ("three", "a"), ("gated", "a"), ("far", "elsewhere")):
        groups.append(
            PodGroup(metadata=ObjectMeta(name=name, namespace="team"), spec=PodGroupSpec(queue=queue))
        )
        pods.append(
            a_pod(name, node="", phase="Pending", annotations={"pod-group-name": name, "gpu-fraction": "0.5"})
        )
    line = [
        *a_line("a", "team/three"),
        *a_line("elsewhere", "team/far"),
        *a_line("b", "team/two"),
        *a_line("a", "team/one"),
    ]
    rows = service_order.waiting_in({"top", "a", "b"}, groups, pods, at=0.0, line=line)
    told = [(row.group.name, row.place, row.overall, row.gpus) for row in rows]
    assert told == [("three", 1, 1, 0.5), ("two", 2, 3, 0.5), ("one", 3, 4, 0.5), ("gated", None, None, 0.5)]
    assert [row.document()["place"] for row in rows] == [1, 2, 3, None]
    assert [row.cells()[0] for row in rows] == ["1", "2", "3", "-"]


def test_a_node_and_its_pods_count_mig_devices_as_queues_are_charged_for_them():
    node = a_node()
    node.status.allocatable = {"nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "1"}
    pod = a_pod("mig")
    pod.spec.containers[0].resources.requests = {"nvidia.com/mig-3g.40gb": "1"}
    [row] = nodes.table_of([node], [pod])
    assert (row.gpus, row.used, row.free) == (7, 3, 4)


def test_without_a_scheduler_what_a_queue_has_counts_mig_devices_as_well():
    status = QueueStatus(allocated={"nvidia.com/mig-3g.40gb": "1", "nvidia.com/gpu": "1500m", "cpu": "2"})
    [row] = queues.tree([a_queue("team", status=status)], {})
    assert (row.gpu.allocated, row.cpu.allocated, row.memory.allocated) == (4.5, 2.0, 0.0)
