"""Changes are made in a state, and taken back exactly, whatever the engine did meanwhile."""

import random
import shlex
from dataclasses import replace

import pytest

from kai.answers.what_if import MoveToQueue
from kai.engine import Engine
from kai.model import names
from kai.model.objects import OwnerReference, Taint
from kai.model.rules.volumes import SELECTED_NODE
from kai.simulate import lives
from kai.simulate.changes import (
    AddNodes,
    AddToleration,
    AddWorkload,
    Bound,
    Change,
    ChangeRefused,
    DeleteQueue,
    DrainNode,
    DropConstraint,
    RemoveNode,
    RemoveWorkload,
    SetBounds,
    SetMinimum,
    SetNodeSelector,
    SetPreemptibility,
    SetPriority,
    SetRequest,
    made,
)
from kai.snapshot import codec
from kai.snapshot.rows import Past
from kai.snapshot.state import ClusterState, Kind, StateParams
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_queue, a_state
from libs.tests.engine.random_worlds import fuzz, random_objects
from libs.tests.simulate.changing import a_change


def a_copy(state: ClusterState) -> ClusterState:
    """Another state of the same cluster."""
    return codec.restore(codec.cut(state))


def _bytes(state: ClusterState) -> bytes:
    return codec.encode(codec.cut(state))


def _told(state: ClusterState) -> list[object]:
    result = Engine().run(state, NOW)
    return [result.binds, result.evictions, result.nominations, result.shares]


def _lived(world: int, *, cycles: int) -> ClusterState:
    """A state over which cycles have been run, with all that these keep in it."""
    state = a_state(random_objects(world))
    engine = Engine()
    for second in range(cycles):
        engine.run(state, NOW - cycles + second)
    state.settle(NOW)
    return state


@fuzz
def test_all_is_as_it_was_after_changes_and_cycles(world: int) -> None:
    rng = random.Random(world)
    cycles = rng.randint(0, 2)
    state, twin = _lived(world, cycles=cycles), _lived(world, cycles=cycles)
    before = _bytes(state)
    for _ in range(2):
        with made(state, [a_change(rng, state)]) as journal:
            trial = Engine()
            for second in range(3):
                result = trial.run(state, NOW + second)
                journal.decided(result)
                state.check()
                for eviction in result.evictions:
                    lives.replace(journal, state.tasks[eviction.pod.uid], now=NOW + second)
        state.check()
        assert _bytes(state) == before
    assert _told(state) == _told(twin)


def _cluster(*things: object) -> ClusterState:
    return a_state(
        [a_node("n0", gpus=4), a_node("n1", gpus=4, labels={"zone": "b"})],
        a_queue("top"),
        a_queue("team", parent="top", gpu=4),
        a_queue("other", parent="top", gpu=4),
        *things,
    )


def _job(
    name: str, *, pods: int = 1, gpus: int = 1, node: str = "", queue: str = "team", **more: object
) -> list[object]:
    spec = more.pop("spec", None)
    return [
        a_group(
            name, queue=queue, min_member=pods, created=NOW - 100, started=NOW - 50 if node else 0, **more
        ),
        *(a_pod(f"{name}-{i}", group=name, gpus=gpus, node=node, spec=spec) for i in range(pods)),
    ]


def _runs(state: ClusterState, change: Change, group: str = "default/job") -> bool:
    """Whether a group that waits is placed by a cycle with the change, and by none without it."""
    assert Engine().run(a_copy(state), NOW).binds == ()
    with made(state, [change]) as journal:
        result = Engine().run(state, NOW)
        journal.decided(result)
        return any(bind.pod.pod_group == group for bind in result.binds)


def test_a_limit_that_is_raised_lets_work_run() -> None:
    state = a_state(a_node("n0"), a_queue("top"), a_queue("team", parent="top", limit=1), _job("job", gpus=2))
    change = SetBounds(queue="team", bound=Bound.LIMIT, amounts={"gpu": 2})
    assert _runs(state, change)
    assert change.text == "set the limit of queue 'team' to 2 GPUs"
    assert change.command(state) == (
        """kubectl patch queue/team --type=merge -p '{"spec": {"resources": {"gpu": {"limit": 2}}}}'"""
    )


def test_amounts_are_said_in_the_units_of_people() -> None:
    change = SetBounds(queue="q", bound=Bound.QUOTA, amounts={"cpu": 1500, "memory": 2000, "gpu": -1})
    assert change.text == "set the quota of queue 'q' to 1.5 cores and 2 GB and unlimited"
    weight = SetBounds(queue="q", bound=Bound.WEIGHT, amounts={"gpu": 2})
    assert weight.text == "set the over-quota weight of queue 'q' to 2 for gpu"


@pytest.mark.parametrize(
    ("spec", "change"),
    [
        ({"node_selector": {"zone": "a"}}, SetNodeSelector(group="default/job", label="zone", value=None)),
        ({"node_selector": {"zone": "a"}}, SetNodeSelector(group="default/job", label="zone", value="b")),
        ({"node_selector": {"zone": "a"}}, DropConstraint(group="default/job", constraint="node selector")),
    ],
)
def test_a_node_selector_can_be_taken_and_given(spec: dict[str, object], change: Change) -> None:
    assert _runs(_cluster(_job("job", spec=spec)), change)


def test_a_taint_can_be_tolerated() -> None:
    node = a_node("n0")
    node.spec.taints = [Taint(key="dedicated", value="x", effect="NoSchedule")]
    state = a_state(node, _job("job"))
    change = AddToleration(group="default/job", key="dedicated", value="x", effect="NoSchedule")
    assert _runs(state, change)
    assert change.text == "let default/job tolerate the taint dedicated=x:NoSchedule"


def test_pods_can_ask_for_less() -> None:
    state = _cluster(_job("job", gpus=5))
    change = SetRequest(group="default/job", resource="nvidia.com/gpu", amount="4")
    assert _runs(state, change)
    assert change.text == "let each pod of default/job ask for 4 nvidia.com/gpu"


def test_a_gang_can_start_with_fewer_pods() -> None:
    state = _cluster(_job("job", pods=3, gpus=4))
    assert _runs(state, SetMinimum(group="default/job", minimum=2))


def test_nodes_can_be_added() -> None:
    state = _cluster(_job("job", pods=3, gpus=4))
    change = AddNodes(like="n0", count=1)
    assert _runs(state, change)
    assert change.command(state) is None
    assert not any(name.startswith("~") for name in state.nodes.by_name)


def test_what_is_not_preemptible_can_be_made_so() -> None:
    state = _cluster(_job("job", gpus=4, pods=2, priority="build"))
    assert _runs(state, SetPreemptibility(group="default/job", preemptibility="preemptible"))


def test_a_higher_priority_takes_the_place_of_others_in_its_queue() -> None:
    state = _cluster(_job("low", pods=2, gpus=4, node="n0"), _job("job", gpus=4))
    state.remove(Kind.NODE, "n1")
    assert not Engine().run(a_copy(state), NOW).evictions
    with made(state, [SetPriority(group="default/job", priority_class="inference")]) as journal:
        result = Engine().run(state, NOW)
        journal.decided(result)
    assert {each.pod.pod_group for each in result.evictions} == {"default/low"}


def test_who_is_drained_waits_for_another_place_and_lone_pods_are_gone() -> None:
    lone = a_group("lone", queue="team")
    lone.metadata.owner_references = [OwnerReference(api_version="v1", kind="Pod", name="lone-0", uid="x")]
    state = _cluster(_job("gang", node="n0"), lone, a_pod("lone-0", group="lone", gpus=1, node="n0"))
    change = DrainNode(node="n0")
    with made(state, [change]) as journal:
        assert [lives.origin(task.key) for task in state.tasks.values()] == ["default/gang-0"]
        result = Engine().run(state, NOW)
        journal.decided(result)
        assert [(bind.pod.pod_group, bind.node) for bind in result.binds] == [("default/gang", "n1")]
    assert sorted(state.tasks_by_key) == ["default/gang-0", "default/lone-0"]
    assert change.command(state) == "kubectl drain n0 --ignore-daemonsets --delete-emptydir-data --force"


def test_pods_of_a_deployment_that_are_drained_come_again_though_each_is_a_group_of_its_own() -> None:
    group = a_group("web", queue="team")
    group.metadata.owner_references = [OwnerReference(api_version="v1", kind="Pod", name="web-0", uid="x")]
    group.metadata.annotations = {names.TOP_OWNER_METADATA: "name: web\nkind: Deployment\n"}
    state = _cluster(group, a_pod("web-0", group="web", gpus=1, node="n0"))
    with made(state, [DrainNode(node="n0")]) as journal:
        assert [lives.origin(task.key) for task in state.tasks.values()] == ["default/web-0"]
        result = Engine().run(state, NOW)
        journal.decided(result)
        assert [(bind.pod.pod_group, bind.node) for bind in result.binds] == [("default/web", "n1")]


@pytest.mark.parametrize("mode", ["WaitForFirstConsumer", "Immediate"])
def test_claims_of_ephemeral_volumes_come_anew_with_their_pods(mode: str) -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    state = _cluster(_job("gang", node="n0", spec={"volumes": [volume]}))
    task = state.tasks_by_key["default/gang-0"]
    metadata = {"name": "gang-0-scratch", "namespace": "default", "annotations": {SELECTED_NODE: "n0"}}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": task.name, "uid": task.uid, "controller": True}
    claim = {
        "metadata": metadata | {"ownerReferences": [owner]},
        "spec": {"storageClassName": "made", "volumeName": "v"},
    }
    made_by = {"provisioner": "disks.example.com", "volumeBindingMode": mode}
    state.apply(Kind.STORAGE_CLASS, {"metadata": {"name": "made"}, **made_by})
    state.apply(Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": {}})
    state.apply(Kind.PERSISTENT_VOLUME_CLAIM, claim)
    with made(state, [RemoveNode(node="n0")]) as journal:
        result = Engine().run(state, NOW)
        journal.decided(result)
        assert [(bind.pod.pod_group, bind.node) for bind in result.binds] == [("default/gang", "n1")]
    assert state.objects[Kind.PERSISTENT_VOLUME_CLAIM] == {"default/gang-0-scratch": claim}


def test_a_node_that_is_removed_is_gone_with_its_pods() -> None:
    state = _cluster(_job("gang", node="n0"), a_pod("foreign", node="n0", scheduler="default-scheduler"))
    with made(state, [RemoveNode(node="n0")]):
        assert sorted(state.nodes.by_name) == ["n1"]
        assert [lives.origin(key) for key in state.tasks_by_key] == ["default/gang-0"]
    assert sorted(state.nodes.by_name) == ["n0", "n1"]


def test_what_runs_in_a_queue_that_is_deleted_is_nobodys() -> None:
    state = _cluster(_job("gang", node="n0"))
    with made(state, [DeleteQueue(queue="team")]):
        state.settle(NOW)
        assert not state.jobs["default/gang"].queue.exists
    assert state.jobs["default/gang"].queue.name == "team"


def test_work_comes_and_goes() -> None:
    state = _cluster(_job("old", node="n0"))
    group, pod = _job("job")
    with made(state, [AddWorkload(groups=[group], pods=[pod])]):
        assert sorted(state.jobs) == ["default/job", "default/old"]
    gone = RemoveWorkload(group="default/old")
    with made(state, [gone]):
        assert not state.jobs
        assert not state.tasks
    assert gone.command(state) == "kubectl delete pod old-0 -n default"


def test_each_file_is_applied_by_a_name_of_its_own() -> None:
    submitted = AddWorkload(groups=(), pods=(), files=["a.yaml", "my b.yaml"])
    assert submitted.text == "submit a.yaml, my b.yaml"
    state, command = _cluster(), "kubectl apply -f a.yaml -f 'my b.yaml'"
    assert submitted.command(state) == command
    assert replace(submitted, namespace="team").command(state) == f"{command} -n team"
    assert replace(submitted, namespace=None).command(state) is None
    assert AddWorkload(groups=(), pods=()).command(state) is None


def test_commands_are_for_what_made_a_group() -> None:
    group, pod = _job("job")
    group.metadata.owner_references = [
        OwnerReference(api_version="kubeflow.org/v1", kind="PyTorchJob", name="job", uid="x")
    ]
    state = _cluster(group, pod)
    assert SetPriority(group="default/job", priority_class="build").command(state) == (
        "kubectl label pytorchjob.kubeflow.org/job priorityClassName=build --overwrite -n default && "
        """kubectl patch podgroup/job -n default --type=merge -p '{"spec": {"priorityClassName": "build"}}'"""
    )
    assert SetMinimum(group="default/job", minimum=1).command(state) is None
    assert RemoveWorkload(group="default/job").command(state) == (
        "kubectl delete pytorchjob.kubeflow.org/job -n default"
    )


def _of_a_deployment(name: str = "web") -> list[object]:
    """A pod and its own group, as the pod-grouper makes it for each pod of a Deployment."""
    group, pod = _job("pg-web-x", spec={"node_selector": {"zone": "c"}})
    owner = OwnerReference(api_version="v1", kind="Pod", name="web-x", uid="x", controller=True)
    group.metadata.owner_references = [owner]
    group.metadata.annotations = {names.TOP_OWNER_METADATA: f"name: {name}\nkind: Deployment\n"}
    return [group, pod]


def test_what_a_deployment_makes_next_is_changed_with_what_it_has_made() -> None:
    state = _cluster(*_of_a_deployment())
    made_of_it = "deployment/web pod/web-x"
    assert SetPriority(group="default/pg-web-x", priority_class="build").command(state) == (
        f"kubectl label {made_of_it} priorityClassName=build --overwrite -n default && "
        "kubectl patch podgroup/pg-web-x -n default --type=merge "
        """-p '{"spec": {"priorityClassName": "build"}}'"""
    )
    assert MoveToQueue(group="default/pg-web-x", queue="other").command(state) == (
        f"kubectl label {made_of_it} kai.scheduler/queue=other --overwrite -n default && "
        """kubectl patch podgroup/pg-web-x -n default --type=merge -p '{"spec": {"queue": "other"}}'"""
    )
    assert DropConstraint(group="default/pg-web-x", constraint="node selector").command(state) == (
        "kubectl patch deployment/web -n default --type=merge "
        """-p '{"spec": {"template": {"spec": {"nodeSelector": null}}}}'"""
    )


@pytest.mark.parametrize("name", ["x; reboot", "$(reboot)", "it's", "`reboot`"])
def test_nothing_that_somebody_wrote_into_an_object_is_done_by_a_shell(name: str) -> None:
    """Whoever makes a pod group chooses the names of its owners; an administrator copies the command."""
    group, pod = _job("job", pods=1)
    group.metadata.owner_references = [OwnerReference(api_version="v1", kind="Pod", name=name, uid="x")]
    group.metadata.annotations = {names.TOP_OWNER_METADATA: f"name: {name}\nkind: Deployment\n"}
    state = _cluster(group, pod)
    for change in (
        SetPriority(group="default/job", priority_class=name),
        DropConstraint(group="default/job", constraint="node selector"),
        RemoveWorkload(group="default/job"),
        AddWorkload(groups=(), pods=(), files=[f"{name}.yaml"], namespace=name),
        SetNodeSelector(group="default/job", label="zone", value=name),
        DeleteQueue(queue=name),
        SetBounds(queue=name, bound=Bound.QUOTA, amounts={"gpu": 1}),
    ):
        command = change.command(state)
        assert command is not None
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
        assert ";" not in words
        assert "reboot" not in words
        assert name in " ".join(shlex.split(command))


def test_the_label_that_names_queues_is_that_of_the_installation() -> None:
    state = ClusterState(StateParams(queue_label_key="example.com/queue"))
    state.load(
        (kind, obj)
        for kind, obj in (
            (Kind.QUEUE, a_queue("team")),
            *((Kind.POD_GROUP, each) for each in _of_a_deployment()[:1]),
        )
    )
    command = MoveToQueue(group="default/pg-web-x", queue="team").command(state)
    assert command is not None
    assert "label deployment/web pod/web-x example.com/queue=team --overwrite" in command


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            SetBounds(queue="taem", bound=Bound.QUOTA, amounts={"gpu": 1}),
            "there is no queue 'taem'; did you mean 'team'?",
        ),
        (DeleteQueue(queue="x"), "there is no queue 'x'; see `kai get queues`"),
        (DrainNode(node="N0"), "there is no node 'N0'; did you mean 'n0'?"),
        (
            SetPriority(group="default/jbo", priority_class="build"),
            "there is no pod group 'default/jbo'; did you mean 'default/job'?",
        ),
        (
            SetPriority(group="default/job", priority_class="bild"),
            "there is no priority class 'bild'; did you mean 'build'?",
        ),
        (SetMinimum(group="default/job", minimum=0), "the minimum of default/job is 0; it must be 1 or more"),
        (AddNodes(like="n0", count=0), "0 nodes cannot be added; write 1 to 10000"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: Change, said: str) -> None:
    state = _cluster(_job("job"))
    before = _bytes(state)
    with pytest.raises(ChangeRefused) as refused, made(state, [change]):
        pass
    assert str(refused.value) == said
    assert _bytes(state) == before


def test_a_group_that_goes_in_a_trial_has_its_past_afterwards() -> None:
    state = a_state(a_node("n", gpus=1), a_group("job", queue="team"), a_pod("job-0", group="job", node="n"))
    state.settle(NOW)
    past = Past(last_start=NOW - 9, completing=True)
    state.jobs["default/job"].inherit(past)
    with made(state, [RemoveWorkload(group="default/job")]):
        assert not state.jobs
    assert state.jobs["default/job"].past == past
