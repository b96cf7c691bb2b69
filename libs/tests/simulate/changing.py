"""Random changes of random worlds."""

import random
from collections.abc import Callable

from kai.model.objects import Pod, PodGroup
from kai.simulate.changes import (
    AddNodes,
    AddToleration,
    AddWorkload,
    Bound,
    Change,
    DeleteQueue,
    DrainNode,
    DropConstraint,
    RemoveNode,
    RemoveWorkload,
    SetBounds,
    SetGpuShare,
    SetMinimum,
    SetNodeSelector,
    SetPreemptibility,
    SetPriority,
    SetRequest,
)
from kai.snapshot.state import ClusterState
from libs.tests.engine.builders import a_group, a_pod


def a_bound(rng: random.Random, state: ClusterState) -> Change:
    """Another quota, limit or weight of some queue, for GPUs mostly."""
    resource = rng.choice(["gpu", "gpu", "gpu", "cpu"])
    amount = float(rng.choice([-1, 0, 1, 2, 4, 8])) * (1000 if resource == "cpu" else 1)
    bound = rng.choice([Bound.QUOTA, Bound.QUOTA, Bound.LIMIT, Bound.WEIGHT])
    if bound is Bound.WEIGHT:
        amount = max(amount, 0.0)
    queue = rng.choice(sorted(state.queue_objects))
    return SetBounds(queue=queue, bound=bound, amounts={resource: amount})


def a_workload(rng: random.Random, state: ClusterState) -> Change:
    """A gang that comes."""
    leaves = sorted(queue.name for queue in state.queue_rows if queue.leaf)
    pods, queue = rng.randint(1, 3), rng.choice(leaves or ["nowhere"])
    group: PodGroup = a_group("coming", queue=queue, min_member=pods, priority=rng.choice(["train", "build"]))
    members: list[Pod] = [a_pod(f"coming-{n}", group="coming", gpus=rng.randint(0, 2)) for n in range(pods)]
    return AddWorkload(groups=[group], pods=members)


def a_change(rng: random.Random, state: ClusterState) -> Change:
    """Any change that can be made to a state with a node, a queue and a group."""
    group = rng.choice(sorted(state.jobs))
    node = rng.choice(sorted(state.nodes.by_name))
    kinds: list[Callable[[], Change]] = [
        lambda: a_bound(rng, state),
        lambda: a_workload(rng, state),
        lambda: SetPriority(group=group, priority_class=rng.choice(["train", "build", "inference"])),
        lambda: SetPreemptibility(
            group=group, preemptibility=rng.choice(["preemptible", "non-preemptible", "semi-preemptible"])
        ),
        lambda: SetNodeSelector(group=group, label="pool", value=rng.choice(["a", None])),
        lambda: AddToleration(group=group, key="dedicated", effect="NoSchedule"),
        lambda: DropConstraint(group=group, constraint=rng.choice(DropConstraint.KNOWN)),
        lambda: SetRequest(group=group, resource="cpu", amount=rng.choice(["1", "500m"])),
        lambda: SetGpuShare(group=group, portion=0.5),
        lambda: AddNodes(like=node, count=rng.randint(1, 2)),
        lambda: DrainNode(node=node),
        lambda: RemoveNode(node=node),
        lambda: DeleteQueue(queue=rng.choice(sorted(state.queue_objects))),
        lambda: RemoveWorkload(group=group),
    ]
    if not state.group_objects[state.jobs[group].key].spec.sub_groups:
        kinds.append(lambda: SetMinimum(group=group, minimum=rng.randint(1, 3)))
    return rng.choice(kinds)()
