"""Random clusters from a number, the life that workloads lead in them, and properties of all of them."""

import os
import random
from collections import Counter
from functools import partial
from typing import Any

import msgspec
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from kai.bench.worlds import World, a_world
from kai.model import names
from kai.model.decisions import CycleResult
from kai.model.objects import Pod, PodGroup, SubGroup
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, Objects, a_group, a_node, a_pod, a_queue, usual_priorities

#: How many random worlds a property is tried on, and from which seed; 0 is always the same ones.
EXAMPLES = int(os.environ.get("KAI_FUZZ_EXAMPLES", "40"))
SEED = int(os.environ.get("KAI_FUZZ_SEED", "0"))
NUMBERS = st.integers(0, 2**48)
#: Those that are drawn step by step can be made smaller when a property fails, but few of them are so full
#: that anybody must go; so the others are drawn at once.
WORLDS = st.one_of(
    st.randoms(use_true_random=False).map(a_world),
    NUMBERS.map(lambda number: a_world(random.Random(number))),
)


def random_objects(number: int, *, sharing: bool = True) -> Objects:
    """A cluster with running and pending work; nothing of it is over capacity."""
    rng = random.Random(number)
    found: Objects = [(Kind.PRIORITY_CLASS, each) for each in usual_priorities()]
    free, cpus = {}, {}
    for i in range(rng.randint(1, 5)):
        gpus, cpu = rng.choice([0, 2, 4, 8]), rng.choice([4, 16, 64])
        free[f"node-{i}"], cpus[f"node-{i}"] = gpus, float(cpu)
        found.append((Kind.NODE, a_node(f"node-{i}", gpus=gpus, cpu=str(cpu), gpu_memory_mib=16_000)))
    leaves = []
    for d in range(rng.randint(1, 2)):
        top = f"dept-{d}"
        found.append(
            (Kind.QUEUE, a_queue(top, gpu=rng.choice([-1, 4, 8]), weight=rng.choice([0, 1, 3]), created=d))
        )
        for q in range(rng.randint(1, 3)):
            name = f"queue-{d}-{q}"
            leaves.append(name)
            found.append(
                (
                    Kind.QUEUE,
                    a_queue(
                        name,
                        parent=top,
                        gpu=rng.choice([-1, 0, 1, 2, 4]),
                        weight=rng.choice([0, 1, 2]),
                        limit=rng.choice([-1, -1, 2, 6]),
                        priority=rng.choice([None, None, 200]),
                        created=q,
                    ),
                )
            )
    held = Counter()
    limits = {q.metadata.name: q.spec.resources.gpu.limit for kind, q in found if kind is Kind.QUEUE}
    for j in range(rng.randint(1, 12)):
        name, queue = f"job-{j}", rng.choice(leaves)
        pods, gpus = rng.randint(1, 4), rng.choice([0, 1, 1, 2, 4])
        fraction = rng.choice([0, 0, 0.3, 0.5]) if sharing and not gpus else 0
        minimum = rng.randint(1, pods)
        running = rng.random() < 0.5
        priority = rng.choice(["train", "train", "build", "build-preemptible"])
        sub_groups = None
        if rng.random() < 0.2 and pods > 1:
            sub_groups = [SubGroup(name="a", min_member=1), SubGroup(name="b", min_member=1)]
        found.append(
            (
                Kind.POD_GROUP,
                a_group(
                    name,
                    queue=queue,
                    min_member=minimum,
                    priority=priority,
                    created=NOW - 1000 + j,
                    started=NOW - 100 if running else 0,
                    sub_groups=sub_groups,
                ),
            )
        )
        for p in range(pods):
            node = ""
            if running and not fraction:
                node = next((n for n, have in free.items() if have >= gpus and cpus[n] >= 0.25), "")
                over = limits[queue] >= 0 and held[queue] + gpus > limits[queue]
                if over or priority == "build":
                    node = ""
                if node:
                    free[node] -= gpus
                    cpus[node] -= 0.25
                    held[queue] += gpus
            deleted = rng.choice((NOW - 5, NOW - 5, NOW + 86_400)) if node and rng.random() < 0.1 else 0
            found.append(
                (
                    Kind.POD,
                    a_pod(
                        f"{name}-{p}",
                        group=name,
                        gpus=gpus,
                        cpu="250m",
                        memory="1M",
                        fraction=fraction,
                        node=node,
                        deleted=deleted,
                        sub_group=rng.choice("ab") if sub_groups else "",
                    ),
                )
            )
    return found


def carry_out(state: ClusterState, pods: dict[str, Pod], result: CycleResult, number: int) -> None:
    """Bound pods run, evicted ones are created anew, as their workloads would."""
    for bind in result.binds:
        key = f"{bind.pod.namespace}/{bind.pod.name}"
        pods[key] = a_copy(pods[key], node=bind.node, uid=bind.pod.uid)
        state.bind_done(bind.pod.uid)
        state.apply(Kind.POD, pods[key])
    for eviction in result.evictions:
        key = f"{eviction.pod.namespace}/{eviction.pod.name}"
        state.remove(Kind.POD, key)
        pods[key] = a_copy(pods[key], node="", uid=f"{key}-{number}")
        state.apply(Kind.POD, pods[key])


def a_copy(pod: Pod, *, node: str, uid: str) -> Pod:
    meta = pod.metadata
    requests = pod.spec.containers[0].resources.requests
    made = a_pod(
        meta.name,
        group=meta.annotations["pod-group-name"],
        gpus=int(requests.get("nvidia.com/gpu", 0)),
        cpu="250m",
        memory="1M",
        node=node,
        sub_group=(meta.labels or {}).get("kai.scheduler/subgroup-name", ""),
    )
    made.metadata.uid = uid
    return made


def annotate(world: World, result: CycleResult) -> list[PodGroup]:
    """Write on the groups what was found about them, as the controllers do."""
    patches = {outcome.pod_group: outcome.annotations for outcome in result.outcomes if outcome.annotations}
    changed: list[PodGroup] = []
    for place, group in enumerate(world.groups):
        if (patch := patches.get(group.key)) is not None:
            told = {**group.annotations, **patch}
            meta = msgspec.structs.replace(
                group.metadata, annotations={key: value for key, value in told.items() if value is not None}
            )
            world.groups[place] = msgspec.structs.replace(group, metadata=meta)
            changed.append(world.groups[place])
    return changed


def advance(world: World, result: CycleResult) -> list[Pod]:
    """Let happen what was decided: bound pods run; new ones come for those that went, and wait."""
    binds = {bind.pod.uid: bind for bind in result.binds}
    gone = {each.pod.uid for each in result.evictions}
    changed: list[Pod] = []
    for place, pod in enumerate(world.pods):
        uid = pod.metadata.uid
        if uid in gone or pod.metadata.deletion_timestamp:
            pod = _anew(pod)
            node, groups = "", ()
        elif uid in binds:
            node, groups = binds[uid].node, binds[uid].gpu_groups
        else:
            continue
        world.pods[place] = _placed(pod, node, groups)
        changed.append(world.pods[place])
    return changed


def _anew(pod: Pod) -> Pod:
    """Another pod of the same name."""
    replace = msgspec.structs.replace
    return replace(pod, metadata=replace(pod.metadata, uid=f"{pod.metadata.uid}-again"))


def _placed(pod: Pod, node: str, groups: tuple[str, ...]) -> Pod:
    labels = {key: value for key, value in pod.labels.items() if "runai-gpu-group" not in key}
    if len(groups) == 1:
        labels[names.GPU_GROUP_LABEL] = groups[0]
    else:
        labels |= {names.MULTI_GPU_GROUP_PREFIX + each: each for each in groups}
    replace = msgspec.structs.replace
    return replace(
        pod,
        metadata=replace(pod.metadata, labels=labels, deletion_timestamp=None),
        spec=replace(pod.spec, node_name=node),
        status=replace(pod.status, phase="Running" if node else "Pending"),
    )


def fuzz(test: Any = None, *, share: float = 1.0, worlds: st.SearchStrategy[Any] = NUMBERS) -> Any:
    """Runs a property on numbers of random worlds; as many, and from the seed, that the environment says.

    ``share`` of them for one that takes longer, or that few worlds have something to say about. ``worlds``
    are drawn instead of numbers, if said.
    """
    if test is None:
        return partial(fuzz, share=share, worlds=worlds)
    test = given(world=worlds)(test)
    if SEED:
        test = seed(SEED)(test)
    examples = max(int(EXAMPLES * share), 1)
    return settings(
        max_examples=examples,
        derandomize=not SEED,
        print_blob=True,
        report_multiple_bugs=False,
    )(test)
