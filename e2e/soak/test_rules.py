"""Every rule is silent about what is right, and speaks of a state that breaks it."""

import pytest

from e2e.soak.frame import Frame, LogLine, ProcessSample
from e2e.soak.rules import (
    coverage,
    groups,
    latency,
    placement,
    processes,
    queues,
    remains,
    scaling,
    telling,
)
from e2e.soak.rules.latency import Placed
from kai.model import names
from kai.model.objects import (
    Node,
    NodeStatus,
    ObjectMeta,
    PodGroup,
    PodGroupSpec,
    Queue,
    QueueResource,
    QueueResources,
    QueueSpec,
    ResourceRequirements,
    SubGroup,
)
from kai_local.parts.objects import LocalContainer, LocalPod, LocalPodSpec, LocalPodStatus


# --- what there is -----------------------------------------------------------------------------
def a_pod(
    name,
    *,
    node="",
    gpus=0,
    requests=None,
    namespace="ns",
    group="",
    phase="Running",
    reason="",
    uid="",
    **meta,
):
    annotations = dict(meta.pop("annotations", {})) | ({names.POD_GROUP_ANNOTATION: group} if group else {})
    limits = ResourceRequirements(
        limits={names.NVIDIA_GPU: str(gpus)} if gpus else {}, requests=dict(requests or {})
    )
    return LocalPod(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or name, annotations=annotations, **meta),
        spec=LocalPodSpec(node_name=node, containers=[LocalContainer(name="main", resources=limits)]),
        status=LocalPodStatus(phase=phase, reason=reason),
    )


def a_share(name, part, *, device="g", node="n"):
    return a_pod(
        name, node=node, labels={names.GPU_GROUP_LABEL: device}, annotations={names.GPU_FRACTION: part}
    )


def a_node(name="n", *, gpus=2):
    labels = {names.GPU_MEMORY_LABEL: "10000"}
    allocatable = {names.NVIDIA_GPU: str(gpus), "cpu": "8", "pods": "110"}
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=allocatable))


def a_group(name, *, queue="q", min_member=1, **spec):
    meta = ObjectMeta(name=name, namespace="ns", uid=f"group-{name}")
    return PodGroup(metadata=meta, spec=PodGroupSpec(queue=queue, min_member=min_member, **spec))


def a_queue(name, *, parent="", limit=-1, quota=-1, of="gpu"):
    amounts = {each: QueueResource(quota=-1, limit=-1) for each in ("gpu", "cpu", "memory")}
    amounts[of] = QueueResource(quota=quota, limit=limit)
    return Queue(
        metadata=ObjectMeta(name=name),
        spec=QueueSpec(parent_queue=parent, resources=QueueResources(**amounts)),
    )


def a_frame(*objects, at=100.0, claims=(), **more):
    def by(kind):
        return {one.key: one for one in objects if isinstance(one, kind)}

    return Frame(
        at=at,
        pods=by(LocalPod),
        nodes=by(Node) or {"n": a_node(), "m": a_node("m")},
        queues=by(Queue),
        groups=by(PodGroup),
        claims={f"ns/claim-{n}": claim for n, claim in enumerate(claims)},
        **more,
    )


def a_claim(device):
    result = {"driver": "d", "pool": "n", "device": device}
    return {"status": {"allocation": {"devices": {"results": [result]}}}}


def rules_of(breaches):
    return [breach.rule for breach in breaches]


# --- placement ---------------------------------------------------------------------------------
def test_parts_of_a_device_may_be_one_together_and_no_more():
    assert not rules_of(placement.devices_have_one_owner(a_frame(a_share("a", "0.5"), a_share("b", "0.5"))))
    over = a_frame(a_share("a", "0.5"), a_share("b", "0.6"))
    assert rules_of(placement.devices_have_one_owner(over)) == ["device over 1.0"]


def test_memory_counts_as_the_part_of_a_device_that_it_is():
    labels, annotations = {names.GPU_GROUP_LABEL: "g"}, {names.GPU_MEMORY: "6000"}
    pods = [a_pod(name, node="n", labels=labels, annotations=annotations) for name in "ab"]
    assert rules_of(placement.devices_have_one_owner(a_frame(*pods))) == ["device over 1.0"]


def test_a_device_of_several_has_each_of_them():
    labels = {f"{names.MULTI_GPU_GROUP_PREFIX}{one}": one for one in ("g", "h")}
    pod = a_pod("a", node="n", labels=labels, annotations={names.GPU_FRACTION: "0.7"})
    frame = a_frame(pod, a_share("b", "0.4", device="h"))
    assert [breach.subject for breach in placement.devices_have_one_owner(frame)] == ["Device h"]


def test_a_device_is_on_one_node():
    frame = a_frame(a_share("a", "0.1"), a_share("b", "0.1", node="m"))
    assert rules_of(placement.devices_have_one_owner(frame)) == ["device on two nodes"]


def test_who_has_ended_holds_nothing():
    ended = a_pod(
        "a",
        node="n",
        phase="Succeeded",
        labels={names.GPU_GROUP_LABEL: "g"},
        annotations={names.GPU_FRACTION: "0.9"},
    )
    assert not rules_of(placement.devices_have_one_owner(a_frame(ended, a_share("b", "0.9"))))


def test_a_device_is_reserved_once():
    def reservation(name, device):
        return a_pod(
            name, node="n", namespace=names.RESERVATION_NAMESPACE, annotations={names.RESERVED_GPU: device}
        )

    assert not rules_of(
        placement.devices_are_reserved_once(a_frame(reservation("a", "0"), reservation("b", "1")))
    )
    twice = a_frame(reservation("a", "0"), reservation("b", "0"))
    assert rules_of(placement.devices_are_reserved_once(twice)) == ["device reserved twice"]


def test_a_node_has_room_for_all_that_is_there():
    assert not rules_of(placement.nodes_have_room(a_frame(a_pod("a", node="n", gpus=2))))
    over = a_frame(a_pod("a", node="n", gpus=2), a_pod("b", node="n", gpus=1))
    [breach] = placement.nodes_have_room(over)
    assert breach.message == "3 of 2 nvidia.com/gpu are requested"


def test_a_device_is_allocated_to_one_claim():
    assert not rules_of(
        placement.claims_have_devices_of_their_own(a_frame(claims=[a_claim("0"), a_claim("1")]))
    )
    twice = a_frame(claims=[a_claim("0"), a_claim("0")])
    assert rules_of(placement.claims_have_devices_of_their_own(twice)) == ["device claimed twice"]


def test_a_claim_is_not_held_for_a_pod_that_is_nowhere():
    claim = {"status": {"reservedFor": [{"resource": "pods", "name": "a", "uid": "a"}]}}
    rule = placement.claims_are_held_by_who_has_a_place
    for node, rules in (("n", []), ("", ["claim of a pod that waits"])):
        pod = a_pod("a", node=node)
        pod.spec.scheduler_name = "kai-scheduler"
        assert rules_of(rule(a_frame(pod, claims=[claim]))) == rules


def test_a_claim_is_not_reserved_for_a_pod_that_is_gone():
    claim = {"status": {"reservedFor": [{"resource": "pods", "name": "a", "uid": "a"}]}}
    rule = placement.claims_are_reserved_for_pods_that_exist
    assert not rules_of(rule(a_frame(a_pod("a", node="n"), claims=[claim])))
    assert rules_of(rule(a_frame(a_pod("b", node="n"), claims=[claim]))) == ["claim of a gone pod"]


def test_a_pod_that_its_node_refuses_is_a_breach_and_one_that_failed_by_itself_is_not():
    refused = a_pod("a", node="n", phase="Failed", reason="OutOfnvidia.com/gpu")
    assert rules_of(placement.nodes_take_what_is_bound(a_frame(refused))) == ["refused by its node"]
    assert not rules_of(placement.nodes_take_what_is_bound(a_frame(a_pod("a", node="n", phase="Failed"))))


@pytest.mark.parametrize(
    ("then", "rules"),
    [
        (a_pod("a", node="n"), []),
        (a_pod("a", node="m"), ["bound twice"]),
        (a_pod("a"), ["bound twice"]),
        (a_pod("a", node="m", uid="another"), []),
    ],
    ids=["stays", "moves", "is unbound", "another pod of that name"],
)
def test_a_pod_stays_on_its_node(then, rules):
    before = a_frame(a_pod("a", node="n"))
    assert rules_of(placement.nobody_moves(before, a_frame(then))) == rules


# --- groups ------------------------------------------------------------------------------------
def members(placed, waiting=0, **meta):
    pods = [a_pod(f"p{n}", node="n", group="gang", **meta) for n in range(placed)]
    return [*pods, *(a_pod(f"w{n}", group="gang", phase="Pending", **meta) for n in range(waiting))]


def test_a_gang_is_placed_whole_or_not_at_all():
    gang = a_group("gang", min_member=3)
    assert not rules_of(groups.gangs_are_whole(a_frame(gang, *members(3))))
    assert not rules_of(groups.gangs_are_whole(a_frame(gang, *members(0, 3))))
    assert rules_of(groups.gangs_are_whole(a_frame(gang, *members(2, 1)))) == ["gang in part"]


def test_a_gang_that_lost_somebody_is_not_asked_to_be_whole():
    frame = a_frame(a_group("gang", min_member=3), *members(2), thinned=frozenset({"group-gang"}))
    assert not rules_of(groups.gangs_are_whole(frame))


def test_each_needed_part_of_a_gang_is_there():
    parts = [SubGroup(name="left", min_member=1), SubGroup(name="right", min_member=1)]
    gang, left = a_group("gang", sub_groups=parts), members(2, labels={names.SUBGROUP_LABEL: "left"})
    assert rules_of(groups.gangs_are_whole(a_frame(gang, *left))) == ["gang in part"]
    one_is_enough = a_group("gang", sub_groups=parts, min_sub_group=1)
    assert not rules_of(groups.gangs_are_whole(a_frame(one_is_enough, *left)))


@pytest.mark.parametrize(
    ("spec", "action", "rules"),
    [
        ({"priority_class_name": "build"}, "preempt", ["non-preemptible evicted"]),
        ({"priority_class_name": "train"}, "preempt", []),
        ({"priority_class_name": "build", "preemptibility": "preemptible"}, "reclaim", []),
        ({"preemptibility": "non-preemptible"}, "reclaim", ["non-preemptible evicted"]),
        ({"priority_class_name": "build"}, "stalegangeviction", []),
    ],
)
def test_who_may_not_be_evicted_is_not(spec, action, rules):
    before = a_frame(a_queue("q"), a_group("gang", **spec), *members(1))
    assert rules_of(groups.firm_pods_stay(before, before, [evicted("p0", action)])) == rules


def test_what_runs_without_a_queue_may_be_evicted_whatever_it_says():
    firm = [a_group("gang", priority_class_name="build"), *members(1)]
    there, gone = a_frame(a_queue("q"), *firm), a_frame(*firm)
    for before, now in ((gone, gone), (there, gone)):
        assert not rules_of(groups.firm_pods_stay(before, now, [evicted("p0", "reclaim")]))


def evicted(pod, action):
    """What the scheduler logs."""
    text = f"pod evicted   action={action} by=ns/other pod=ns/{pod} service=scheduler"
    return LogLine(1.0, "scheduler", "info", text)


# --- queues ------------------------------------------------------------------------------------
def binding(gpus, *queue_objects, group=None, of="gpu", **more):
    """Before and after a pod is bound beside one of 1: GPUs, cores or 10^9 bytes, whichever it is of."""

    def asking(name, amount, node):
        if of == "gpu":
            return a_pod(name, node=node, gpus=amount, group="gang")
        return a_pod(name, node=node, requests={of: f"{amount}G" if of == "memory" else amount}, group="gang")

    objects = [*queue_objects, group or a_group("gang"), asking("old", 1, "n")]
    waiting, bound = (asking("new", gpus, node) for node in ("", "m"))
    return a_frame(*objects, waiting, at=99.0, **more), a_frame(*objects, bound, **more)


#: Two of what a queue is asked for in :func:`binding`, as queues count it.
TWO = pytest.mark.parametrize(("of", "two"), [("gpu", 2), ("cpu", 2000), ("memory", 2000)])


@TWO
def test_a_queue_gets_no_more_than_its_limit_nor_than_that_of_one_above_it(of, two):
    limited = a_queue("q", limit=two, of=of)
    assert not rules_of(queues.limits_are_kept(*binding(1, limited, of=of)))
    assert rules_of(queues.limits_are_kept(*binding(2, limited, of=of))) == ["queue over its limit"]
    above = binding(2, a_queue("q", parent="top"), a_queue("top", limit=two, of=of), of=of)
    assert [breach.subject for breach in queues.limits_are_kept(*above)] == ["Queue top"]


def test_a_queue_that_is_over_a_lowered_limit_is_none_while_it_gets_nothing():
    _, after = binding(2, a_queue("q", limit=2))
    assert not rules_of(queues.limits_are_kept(after, after))


@TWO
def test_a_queue_that_is_over_a_lowered_limit_may_get_what_that_is_not_about(of, two):
    other = "cpu" if of == "gpu" else "gpu"
    over = [a_pod("big", node="n", gpus=9, requests={"cpu": "9", "memory": "9G"}, group="gang")]
    before, after = binding(1, a_queue("q", limit=two, of=of), of=other)
    before, after = (a_frame(*_all_of(frame), *over, at=frame.at) for frame in (before, after))
    assert not rules_of(queues.limits_are_kept(before, after))


def _all_of(frame):
    return (*frame.pods.values(), *frame.queues.values(), *frame.groups.values(), *frame.nodes.values())


def test_what_was_decided_before_a_limit_was_lowered_may_still_come():
    states = binding(2, a_queue("q", limit=2), changed={"q": 95.0})
    assert not rules_of(queues.limits_are_kept(*states))


def test_what_was_decided_before_a_queue_came_under_another_may_still_come():
    queue_objects = (a_queue("q", parent="top"), a_queue("top", limit=2))
    assert not rules_of(queues.limits_are_kept(*binding(2, *queue_objects, changed={"q": 95.0})))
    assert rules_of(queues.limits_are_kept(*binding(2, *queue_objects, changed={"q": 50.0})))


@TWO
def test_work_that_may_not_be_evicted_keeps_to_the_quota(of, two):
    firm, deserving = a_group("gang", priority_class_name="build"), a_queue("q", quota=two, of=of)
    found = queues.firm_work_keeps_to_quotas(*binding(2, deserving, group=firm, of=of))
    assert rules_of(found) == ["non-preemptible over quota"]
    assert not rules_of(queues.firm_work_keeps_to_quotas(*binding(1, deserving, group=firm, of=of)))
    assert not rules_of(queues.firm_work_keeps_to_quotas(*binding(2, deserving, of=of)))


# --- scaling pods ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("cause", "rules"),
    [
        (a_pod("half"), []),
        (a_pod("half", node="n"), ["scaling pod for nobody"]),
        (a_pod("half", uid="another"), ["scaling pod for nobody"]),
        (a_pod("other"), ["scaling pod for nobody"]),
    ],
    ids=["waits", "has a node", "another of that name", "gone"],
)
def test_a_scaling_pod_stands_for_a_pod_that_waits(cause, rules):
    said = {names.SCALING_FOR: "half ns/half"}
    pod = a_pod("ns-half", namespace=names.SCALE_ADJUST_NAMESPACE, annotations=said)
    assert rules_of(scaling.scaling_pods_stand_for_who_waits(a_frame(cause, pod))) == rules


# --- processes ---------------------------------------------------------------------------------
def test_a_process_ends_as_often_as_it_was_killed():
    assert not rules_of(processes.nothing_restarts_by_itself({"scheduler": 2}, {"scheduler": 2}))
    assert rules_of(processes.nothing_restarts_by_itself({"scheduler": 1}, {})) == ["restarted by itself"]


def test_a_counter_of_what_must_not_happen_does_not_rise_and_may_begin_anew():
    key = ("scheduler", "kai_cycle_failures_total")
    assert not rules_of(processes.counters_stand_still({key: 0.0}, {key: 0.0}))
    assert not rules_of(processes.counters_stand_still({key: 2.0}, {key: 0.0}))
    assert rules_of(processes.counters_stand_still({key: 0.0}, {key: 1.0})) == ["kai_cycle_failures_total"]
    assert rules_of(processes.counters_stand_still({}, {key: 1.0})) == ["kai_cycle_failures_total"]


@pytest.mark.parametrize(
    ("level", "text", "rules"),
    [
        ("info", "leading", []),
        ("warning", "api server not reachable yet", []),
        ("error", "cycle failed", ["error in a log"]),
        ("warning", "left out\nTraceback (most recent call last)", ["error in a log"]),
    ],
)
def test_errors_and_tracebacks_are_breaches(level, text, rules):
    assert rules_of(processes.nobody_complains([LogLine(1.0, "binder", level, text)])) == rules


def a_life(memory, *, seconds=1200, descriptors=lambda at: 20):
    return [
        ProcessSample(float(at), "scheduler", 7, memory(at), descriptors(at)) for at in range(0, seconds, 5)
    ]


def test_memory_that_grows_on_is_a_breach_and_that_which_levels_off_is_none():
    assert not rules_of(processes.sizes_level_off(a_life(lambda at: 100 + min(at, 200) / 10)))
    assert rules_of(processes.sizes_level_off(a_life(lambda at: 100 + at / 20))) == ["memory grows"]


def test_memory_that_rises_in_one_step_is_no_leak():
    assert not rules_of(processes.sizes_level_off(a_life(lambda at: 100 if at < 600 else 140)))


def test_a_short_life_says_nothing():
    assert not rules_of(processes.sizes_level_off(a_life(lambda at: 100 + at, seconds=200)))


def test_descriptors_that_grow_on_are_a_breach():
    grows = a_life(lambda at: 100, descriptors=lambda at: 20 + at // 20)
    assert rules_of(processes.sizes_level_off(grows)) == ["descriptors grow"]


def test_connections_that_a_busy_time_opened_are_no_leak():
    step = a_life(lambda at: 100, seconds=1500, descriptors=lambda at: 15 if at < 700 else 27)
    assert not rules_of(processes.sizes_level_off(step))
    filling = a_life(lambda at: 100, seconds=1500, descriptors=lambda at: 15 + at // 100)
    assert not rules_of(processes.sizes_level_off(filling))


# --- latency -----------------------------------------------------------------------------------
def probes(*seconds, **more):
    return [Placed(f"ns/p{n}", 10.0, 10.0 + s, probe=True, **more) for n, s in enumerate(seconds)]


def test_a_probe_that_waits_too_long_is_late_unless_something_was_killed_or_the_machine_is_busy():
    assert rules_of(latency.probes_are_placed_soon(probes(0.1, 30.0), load=1)) == ["late"]
    assert not rules_of(latency.probes_are_placed_soon(probes(0.1, 30.0), load=2))
    assert not rules_of(latency.probes_are_placed_soon(probes(0.1, 30.0, troubled=True), load=1))


def test_a_cluster_in_which_half_of_the_probes_take_long_is_slow():
    assert rules_of(latency.probes_are_placed_soon(probes(*[3.0] * 10), load=1)) == ["slow"]


# --- telling -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pod", "warned", "rules"),
    [
        ("bad-1", [], ["nobody is told"]),
        ("bad-1-x7f", [], ["nobody is told"]),
        ("bad-1", ["Pod ns/bad-1"], []),
        ("bad-1", ["PodGroup ns/pg-bad-1-7f"], []),
        ("bad-1", ["Pod ns/bad-12"], ["nobody is told"]),
        ("bad-12", [], []),
    ],
    ids=["nothing", "nothing of a Job's pod", "of the pod", "of its group", "of another", "gone"],
)
def test_who_made_a_mistake_is_told(pod, warned, rules):
    mistake = telling.Mistake(10.0, "wrong", "bad-1", "Pod ns/bad-1")
    frame = a_frame(a_pod(pod), at=100.0)
    assert rules_of(telling.mistakes_are_told([mistake], frame, warned, load=1)) == rules


def test_telling_may_take_a_while():
    mistake, frame = telling.Mistake(90.0, "wrong", "bad-1", "Pod ns/bad-1"), a_frame(a_pod("bad-1"))
    assert not rules_of(telling.mistakes_are_told([mistake], frame, [], load=1))


# --- coverage ----------------------------------------------------------------------------------
def test_of_each_form_of_work_some_runs():
    works = [("gang", f"ns/w-{number}") for number in range(6)]
    rule = coverage.every_form_of_work_runs
    assert not rules_of(rule(works, {"ns/w-3-x7f"}))
    assert rules_of(rule(works, {"ns/w-33", "ns/other"})) == ["never runs"]
    assert not rules_of(rule(works[:5], set()))


# --- remains -----------------------------------------------------------------------------------
def named(name, namespace="", **meta):
    return {"metadata": {"name": name, "namespace": namespace, **meta}}


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("Pod", named("gpu-reservation-n", names.RESERVATION_NAMESPACE), "holds a device for nobody"),
        ("Pod", named("soak-1-half", names.SCALE_ADJUST_NAMESPACE), "asks for a node for nobody"),
        ("ConfigMap", named("x", names.RESERVATION_NAMESPACE), "belongs to a pod that is gone"),
        ("Namespace", named("soak-1"), "does not end: it says not why"),
        ("PodGroup", named("g", "soak-1"), "its namespace is to be gone"),
        ("ResourceClaim", named("c", "soak-1", finalizers=["f"]), "held by ['f']"),
    ],
)
def test_what_is_left_behind_is_told(kind, body, message):
    [breach] = remains.nothing_is_left({kind: [body]}, prefixes=("soak-",))
    assert breach.message == message


def test_what_is_of_others_may_stay():
    objects = {
        "Pod": [named("p", "default")],
        "ConfigMap": [named("kube-root-ca.crt", names.RESERVATION_NAMESPACE)],
        "Namespace": [named("default")],
    }
    assert not list(remains.nothing_is_left(objects, prefixes=("soak-",)))
