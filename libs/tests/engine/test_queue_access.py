"""A pod to which its queue is not open is given no place and asks for nothing; others do not notice."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.model.access import User, barrier
from kai.model.decisions import Outcome
from kai.model.objects import QueueAccess, SubGroup
from kai.snapshot import codec
from kai.snapshot.kinds import StateParams
from kai.snapshot.state import Kind
from libs.tests.engine.builders import (
    NOW,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    add,
    bound_keys,
    cycle,
    one_node,
)


def admitting(queue, **access):
    queue.spec.access = msgspec.convert(access, QueueAccess)
    return queue


def a_namespace(name, **labels):
    return {"metadata": {"name": name, "labels": labels}}


def a_shared_node(*queues, gpus=4, params=None):
    return one_node(a_priority_class("system-node-critical", 2_000_001_000), queues, gpus=gpus, params=params)


def a_job_in(namespace, name, *, queue="q-b", account="", min_member=1, **more):
    spec = {"service_account_name": account} if account else {}
    return a_job(name, namespace=namespace, queue=queue, gpus=1, min_member=min_member, spec=spec, **more)


def reasons(result):
    return {outcome.pod_group: [each.reason for each in outcome.explanations] for outcome in result.outcomes}


def test_a_foreign_group_is_told_why_and_charged_to_nobody():
    state = a_shared_node(admitting(a_queue("q-b", gpu=4), namespaces=["team-b"]))
    add(state, a_job_in("team-b", "mine"))
    add(state, a_job_in("team-a", "foreign"))
    result = cycle(state)
    assert bound_keys(result) == ["team-b/mine-0"]
    [outcome] = [each for each in result.outcomes if each.pod_group == "team-a/foreign"]
    assert outcome.outcome is Outcome.UNSCHEDULABLE
    assert [each.reason for each in outcome.explanations] == ["QueueAccessDenied"]
    assert 'queue "q-b" is not open to namespace "team-a"' in outcome.message
    queue = state.queues["q-b"]
    assert (queue.allocated.gpu_centi, queue.pending.gpu_centi) == (100, 0)


def test_a_foreign_group_evicts_nobody_whatever_its_priority():
    queues = admitting(a_queue("q-b", gpu=1), namespaces=["team-b"]), a_queue("q-a", gpu=1)
    state = a_shared_node(*queues, gpus=1)
    add(state, a_job_in("team-b", "mine", on="n"))
    add(state, a_job_in("team-a", "foreign", priority="system-node-critical"))
    add(state, a_job_in("team-a", "loud", queue="q-a", priority="inference"))
    result = cycle(state)
    assert (bound_keys(result), result.evictions) == ([], ())


def test_a_parent_of_another_node_pool_keeps_out_whom_it_does_not_admit_where_only_leaves_share():
    params = StateParams(full_hierarchy_fairness=False)
    parent = admitting(a_queue("department", gpu=1), namespaces=["team-b"])
    parent.metadata.labels = {params.node_pool_label_key: "elsewhere"}
    child = a_queue("q-b", gpu=1, parent="department")
    state = a_shared_node(parent, child, gpus=1, params=params)
    add(state, a_job_in("team-a", "foreign"))
    add(state, a_job_in("team-b", "mine"))
    result = cycle(state)
    assert bound_keys(result) == ["team-b/mine-0"]
    assert reasons(result)["team-a/foreign"] == ["QueueAccessDenied"]
    opened = a_queue("department", gpu=1)
    opened.metadata.labels = parent.metadata.labels
    state.apply(Kind.QUEUE, opened)
    state.remove(Kind.POD, "team-b/mine-0")
    assert bound_keys(cycle(state)) == ["team-a/foreign-0"]


def test_limits_of_a_parent_of_another_node_pool_do_not_bind():
    """As in the original: each pool divides what it has among its own queues."""
    params = StateParams(full_hierarchy_fairness=False)
    parent = a_queue("department", gpu=0, limit=0)
    parent.metadata.labels = {params.node_pool_label_key: "elsewhere"}
    state = a_shared_node(parent, a_queue("q-b", gpu=1, parent="department"), gpus=1, params=params)
    add(state, a_job_in("team-b", "mine"))
    assert bound_keys(cycle(state)) == ["team-b/mine-0"]


def test_a_priority_of_the_system_is_refused_where_the_queue_is_open():
    state = a_shared_node(a_queue("q-b", gpu=1), gpus=1)
    add(state, a_job_in("team-b", "mine", on="n"))
    add(state, a_job_in("team-a", "grand", priority="system-node-critical"))
    result = cycle(state)
    assert (bound_keys(result), result.evictions) == ([], ())
    assert reasons(result)["team-a/grand"] == ["PriorityClassDenied"]
    assert state.jobs["team-a/grand"].priority == 50


def test_the_system_itself_uses_its_priorities():
    state = a_shared_node(a_queue("q-b", gpu=1), gpus=1)
    add(state, a_job_in("team-b", "mine", on="n"))
    add(state, a_job_in("kube-system", "driver", priority="system-node-critical"))
    assert [each.pod.name for each in cycle(state).evictions] == ["mine-0"]


def test_a_group_that_runs_gains_nothing_by_taking_a_priority_of_the_system():
    state = a_shared_node(a_queue("q-b", gpu=1), gpus=1)
    add(state, a_job_in("team-a", "sly", on="n"))
    state.apply(
        Kind.POD_GROUP, a_group("sly", queue="q-b", namespace="team-a", priority="system-node-critical")
    )
    add(state, a_job_in("team-b", "mine", priority="build"))
    assert [each.pod.name for each in cycle(state).evictions] == ["sly-0"]


def test_putting_the_priority_right_lets_the_group_run():
    state = a_shared_node(a_queue("q-b", gpu=1))
    add(state, a_job_in("team-a", "g", priority="system-node-critical"))
    assert not bound_keys(cycle(state))
    state.apply(Kind.POD_GROUP, a_group("g", queue="q-b", namespace="team-a"))
    assert bound_keys(cycle(state)) == ["team-a/g-0"]


def test_what_runs_goes_on_when_its_access_is_taken_and_nothing_new_starts():
    state = a_shared_node(a_queue("q-b", gpu=4))
    add(state, a_job_in("team-a", "g", on="n"))
    state.apply(Kind.QUEUE, admitting(a_queue("q-b", gpu=4), namespaces=["team-b"]))
    state.apply(Kind.POD, a_pod("g-1", group="g", namespace="team-a", gpus=1))
    result = cycle(state)
    assert (bound_keys(result), result.evictions) == ([], ())
    queue = state.queues["q-b"]
    assert (queue.allocated.gpu_centi, queue.pending.gpu_centi) == (100, 0)
    assert reasons(result)["team-a/g"] == ["QueueAccessDenied"]


@pytest.mark.parametrize("priority", ["train", "inference", "system-node-critical"])
def test_what_runs_without_access_makes_room_first_whatever_its_priority(priority):
    queue = admitting(a_queue("q-b", gpu=2, preempt_min_runtime="24h"), namespaces=["team-b"])
    state = a_shared_node(queue, gpus=2)
    add(state, a_job_in("team-a", "guest", on="n", priority=priority, started=NOW - 60))
    add(state, a_job_in("team-b", "early", on="n"))
    add(state, a_job_in("team-b", "mine", priority="build"))
    assert [each.pod.name for each in cycle(state).evictions] == ["guest-0"]


def test_who_moves_a_running_group_into_a_foreign_queue_gains_nothing():
    state = a_shared_node(
        admitting(a_queue("q-b", gpu=1), namespaces=["team-b"]), a_queue("q-a", gpu=1), gpus=2
    )
    add(state, a_job_in("team-a", "sly", queue="q-a", on="n", priority="inference"))
    add(state, a_job_in("team-c", "grown", queue="q-a", on="n", priority="inference"))
    state.apply(Kind.POD_GROUP, a_group("sly", queue="q-b", namespace="team-a", priority="inference"))
    add(state, a_job_in("team-b", "mine"))
    assert [each.pod.name for each in cycle(state).evictions] == ["sly-0"]


def test_the_own_priority_counts_again_when_the_queue_is_opened():
    state = a_shared_node(admitting(a_queue("q-b", gpu=1), namespaces=["team-b"]))
    add(state, a_job_in("team-a", "g", on="n", priority="inference"))
    assert (state.jobs["team-a/g"].priority, state.jobs["team-a/g"].preemptible) == (-(2**31), True)
    assert state.queues["q-b"].non_preemptible.gpu_centi == 0
    state.apply(Kind.QUEUE, a_queue("q-b", gpu=1))
    state.settle(NOW)
    state.check()
    assert (state.jobs["team-a/g"].priority, state.jobs["team-a/g"].preemptible) == (125, False)
    assert state.queues["q-b"].non_preemptible.gpu_centi == 100


def test_a_group_that_cannot_be_taken_in_stays_out_whatever_else_changes():
    state = a_shared_node(admitting(a_queue("q-b", gpu=1), namespaces=["team-b"]))
    add(state, a_job_in("team-a", "g"))
    deep = [SubGroup(name=f"s{n}", parent=f"s{n - 1}" if n else None, min_member=1) for n in range(20)]
    group = a_group("g", queue="q-b", namespace="team-a", sub_groups=deep)
    assert state.take(Kind.POD_GROUP, group) is not None
    state.apply(Kind.QUEUE, a_queue("q-b", gpu=1))
    assert not bound_keys(cycle(state))


def test_what_runs_without_access_is_not_moved_as_if_it_could_come_back():
    def a_fragmented(*queues):
        state = a_shared_node(*queues, gpus=2)
        state.apply(Kind.NODE, a_node("m", gpus=2))
        add(state, a_job_in("team-a", "left", on="n"))
        add(state, a_job_in("team-a", "right", on="m"))
        state.apply(Kind.POD_GROUP, a_group("whole", queue="q-b", namespace="team-b"))
        state.apply(Kind.POD, a_pod("whole-0", group="whole", namespace="team-b", gpus=2))
        return {each.action for each in cycle(state).evictions}

    assert a_fragmented(a_queue("q-b", gpu=4)) == {"consolidation"}
    assert a_fragmented(admitting(a_queue("q-b", gpu=4), namespaces=["team-b"])) == {"preempt"}


def test_labels_of_namespaces_are_followed():
    state = a_shared_node(admitting(a_queue("q-b", gpu=4), namespaceSelector={"matchLabels": {"team": "b"}}))
    add(state, a_job_in("team-b", "g"))
    assert not bound_keys(cycle(state))
    state.apply(Kind.NAMESPACE, a_namespace("team-b", team="b"))
    assert bound_keys(cycle(state)) == ["team-b/g-0"]
    add(state, a_job_in("team-b", "h"))
    state.apply(Kind.NAMESPACE, a_namespace("team-b", team="a"))
    assert not bound_keys(cycle(state))
    state.apply(Kind.NAMESPACE, a_namespace("team-b", team="b"))
    state.remove(Kind.NAMESPACE, "team-b")
    assert not bound_keys(cycle(state))


def test_a_queue_that_opens_or_is_moved_out_of_a_closed_one_admits_at_once():
    state = a_shared_node(admitting(a_queue("org"), namespaces=["x"]), a_queue("q-b", parent="org", gpu=4))
    add(state, a_job_in("team-b", "g"))
    assert reasons(cycle(state))["team-b/g"] == ["QueueAccessDenied"]
    state.apply(Kind.QUEUE, a_queue("q-b", gpu=4))
    assert bound_keys(cycle(state)) == ["team-b/g-0"]


def test_a_service_account_opens_a_queue_for_its_pods_alone():
    state = a_shared_node(admitting(a_queue("q-b", gpu=4), serviceAccounts=["team-a/trainer"]))
    add(state, a_job_in("team-a", "good", account="trainer"))
    add(state, a_job_in("team-a", "bad"))
    state.apply(Kind.POD, a_pod("stray", group="good", namespace="team-a", gpus=1))
    assert bound_keys(cycle(state)) == ["team-a/good-0"]


def test_a_gang_does_not_start_with_pods_that_may_not():
    state = a_shared_node(admitting(a_queue("q-b", gpu=4), serviceAccounts=["team-a/trainer"]))
    add(state, a_job_in("team-a", "g", account="trainer", min_member=2))
    state.apply(Kind.POD, a_pod("stray", group="g", namespace="team-a", gpus=1))
    result = cycle(state)
    assert not bound_keys(result)
    assert reasons(result)["team-a/g"] == ["QueueAccessDenied"]


def test_a_snapshot_decides_the_same():
    state = a_shared_node(
        admitting(
            a_queue("q-b", gpu=4),
            namespaceSelector={"matchLabels": {"team": "b"}},
            serviceAccounts=["team-a/trainer"],
        )
    )
    state.apply(Kind.NAMESPACE, a_namespace("team-b", team="b"))
    add(state, a_job_in("team-b", "mine"))
    add(state, a_job_in("team-a", "foreign"))
    add(state, a_job_in("team-a", "guest", account="trainer"))
    again = codec.restore(codec.decode(codec.encode(codec.cut(state))))
    assert codec.cut(again).digest == codec.cut(state).digest
    expected = ["team-a/guest-0", "team-b/mine-0"]
    assert (bound_keys(cycle(state)), bound_keys(cycle(again))) == (expected, expected)


# --- any order of events -----------------------------------------------------------------------
_RULES = (
    None,
    {},
    {"namespaces": ["team-a"]},
    {"namespaceSelector": {"matchLabels": {"team": "b"}}},
    {"serviceAccounts": ["team-c/trainer"]},
)
_STEP = st.one_of(
    st.tuples(st.just("queue"), st.sampled_from(["top", "leaf"]), st.sampled_from(_RULES)),
    st.tuples(st.just("label"), st.sampled_from(["team-a", "team-b", "team-c"]), st.sampled_from(["a", "b"])),
    st.tuples(st.just("unlabel"), st.sampled_from(["team-a", "team-b"]), st.none()),
    st.tuples(st.just("drop"), st.sampled_from(["top"]), st.none()),
    st.tuples(st.just("settle"), st.none(), st.none()),
)


@settings(max_examples=150)
@given(st.lists(_STEP, max_size=12))
def test_whatever_changes_only_those_are_shut_out_whom_the_rule_shuts_out(steps):
    state = a_shared_node(a_queue("top"), a_queue("leaf", parent="top", gpu=4))
    for namespace, account in (("team-a", ""), ("team-b", ""), ("team-c", "trainer"), ("team-c", "other")):
        add(state, a_job_in(namespace, f"g-{account}", queue="leaf", account=account))
    labels = {}
    for what, name, value in steps:
        match what:
            case "queue":
                queue = a_queue(name, parent="top" if name == "leaf" else "")
                state.apply(Kind.QUEUE, queue if value is None else admitting(queue, **value))
            case "label":
                labels[name] = {"team": value}
                state.apply(Kind.NAMESPACE, a_namespace(name, team=value))
            case "unlabel":
                labels.pop(name, None)
                state.remove(Kind.NAMESPACE, name)
            case "drop":
                state.remove(Kind.QUEUE, name)
            case "settle":
                state.settle(NOW)
    state.settle(NOW)
    state.check()
    for task in state.tasks.values():
        user = User(
            namespace=task.namespace, labels=labels.get(task.namespace, {}), account=task.facts.account
        )
        gone = not {"leaf", "top"} <= state.queue_objects.keys()
        assert task.shut_out == (gone or bool(barrier("leaf", state.queue_objects, user))), task
        assert task.status.name == ("GATED" if task.shut_out else "PENDING")


@pytest.mark.parametrize("field", ["namespaces", "serviceAccounts", "groups"])
def test_a_queue_that_lists_more_than_can_be_read_stays_as_it_was(field):
    state = a_shared_node(a_queue("q-b", gpu=4))
    fault = state.take(Kind.QUEUE, admitting(a_queue("q-b", gpu=4), **{field: ["x"] * 1025}))
    assert fault.message == f"spec.access.{field} is '1025'; it must be at most 1024 " + (
        "service accounts" if field == "serviceAccounts" else field
    )
    add(state, a_job_in("team-a", "g"))
    assert bound_keys(cycle(state)) == ["team-a/g-0"]
