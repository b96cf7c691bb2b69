"""The steps of the demo: what is applied, and what must be seen before the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kai.model import names
from kai.model.objects import Pod
from kai.model.rules.gpu_groups import gpu_groups

from .world import World

MANIFESTS = Path(__file__).parent / "manifests"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at the cluster found: whether the step came out as told, and the facts."""

    done: bool
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. ``remove`` is deleted after it, so that steps do not depend on each other's leftovers."""

    title: str
    manifests: tuple[str, ...]
    look: Callable[[World], Seen]
    remove: tuple[str, ...] = ()


def queues_exist(world: World) -> Seen:
    parents = {queue.metadata.name: queue.spec.parent_queue for queue in world.queues}
    found = parents.get("default") == "" and parents.get("test") == "default"
    return Seen(found, "queue test is a leaf of queue default" if found else f"queues: {sorted(parents)}")


def single_pods_run(world: World) -> Seen:
    pods = world.pods_of("default")
    running = [pod for pod in pods if pod.status.phase == "Running"]
    groups = {pod.metadata.name: pod.annotations.get(names.POD_GROUP_ANNOTATION, "") for pod in pods}
    expected = {pod.metadata.name: f"pg-{pod.metadata.name}-{pod.metadata.uid}" for pod in pods}
    queues = {group.spec.queue for group in world.pod_groups if group.metadata.namespace == "default"}
    done = len(running) == 2 and groups == expected and queues == {names.DEFAULT_QUEUE}
    return Seen(done, "; ".join(f"{name} in {group or 'no group'}" for name, group in sorted(groups.items())))


def fractions_share_a_gpu(world: World) -> Seen:
    running = _fractions(world)
    if len(running) < 2:
        return Seen(False, f"{len(running)} of 2 running")
    large, small = running["vllm-test-07"], running["vllm-test-02"]
    same_node = large.spec.node_name == small.spec.node_name
    done = (
        same_node and bool(gpu_groups(large.labels)) and gpu_groups(large.labels) == gpu_groups(small.labels)
    )
    return Seen(done, f"0.7 on {_device(large)}, 0.2 on {_device(small)}")


def third_fraction_gets_another_gpu(world: World) -> Seen:
    running = _fractions(world)
    if len(running) < 3:
        return Seen(False, f"{len(running)} of 3 running")
    half, large = running["vllm-test-05"], running["vllm-test-07"]
    done = bool(gpu_groups(half.labels)) and gpu_groups(half.labels) != gpu_groups(large.labels)
    return Seen(done, f"0.5 on {_device(half)}, not on {_device(large)}")


def gang_runs_whole(world: World) -> Seen:
    pods = world.pods_of("gangs", "gang-fits")
    running = _running(pods)
    return Seen(len(pods) == len(running) == 4, f"{len(running)} of {len(pods)} pods run")


def gang_waits_with_a_reason(world: World) -> Seen:
    pods = world.pods_of("gangs", "gang-too-large")
    bound = [pod for pod in pods if pod.spec.node_name]
    group = next((group for group in world.pod_groups if "gang-too-large" in group.metadata.name), None)
    conditions = (group and group.status and group.status.scheduling_conditions) or []
    message = conditions[-1].message if conditions else ""
    if bound:
        return Seen(False, f"{len(bound)} pods of a gang that cannot run are bound")
    if not (group and message):
        return Seen(False, f"{len(pods)} pods, no reason yet")
    event = world.event_of(group.metadata.namespace, group.metadata.name, "Unschedulable")
    explained = world.explain(group.metadata.namespace, group.metadata.name)
    first = message.splitlines()[0].rstrip()
    done = bool(event) and ": ESCALATE (" in explained
    return Seen(done, f"none bound: {first}")


def training_fills_its_queue(world: World) -> Seen:
    running = _running(world.pods_of("preemption", "training"))
    return Seen(len(running) == 2, f"{len(running)} of 2 training pods run; the queue's limit is 2 GPUs")


def urgent_work_preempts(world: World) -> Seen:
    urgent = _running(world.pods_of("preemption", "urgent"))
    training = _running(world.pods_of("preemption", "training"))
    done = len(urgent) == 1 and len(training) == 1
    return Seen(done, f"urgent: {len(urgent)} running, training: {len(training)} running")


def first_team_takes_all(world: World) -> Seen:
    running = _running(world.pods_of("reclaim", "team-a"))
    return Seen(len(running) == 4, f"team-a runs {len(running)} of 4, its quota is 2")


def second_team_gets_its_share(world: World) -> Seen:
    first, second = (_running(world.pods_of("reclaim", team)) for team in ("team-a", "team-b"))
    return Seen(len(first) == len(second) == 2, f"team-a runs {len(first)}, team-b {len(second)}")


def _running(pods: list[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]


def _fractions(world: World) -> dict[str, Pod]:
    return {pod.labels.get("app", ""): pod for pod in _running(world.pods_of("ai-workloads"))}


def _device(pod: Pod) -> str:
    groups = "+".join(group[:8] for group in gpu_groups(pod.labels))
    return f"GPU {groups or '(none)'} of {pod.spec.node_name}"


STORY = (
    Step(title="two queues: default, and test in it", manifests=("1-queues.yaml",), look=queues_exist),
    Step(
        title="a CPU pod and a whole-GPU pod without owner or queue",
        manifests=("2-pods.yaml",),
        look=single_pods_run,
    ),
    Step(
        title="0.7 and 0.2 of a GPU share one device",
        manifests=("3-fractions.yaml",),
        look=fractions_share_a_gpu,
    ),
    Step(
        title="0.5 does not fit beside them and gets another device",
        manifests=("3-third-fraction.yaml",),
        look=third_fraction_gets_another_gpu,
    ),
    Step(title="a gang of four starts as a whole", manifests=("4-gangs.yaml",), look=gang_runs_whole),
    Step(
        title="a gang that cannot fit does not start, and says why",
        manifests=("4-gang-too-large.yaml",),
        look=gang_waits_with_a_reason,
        remove=("4-gang-too-large.yaml",),
    ),
    Step(
        title="a queue full of preemptible work",
        manifests=("5-full-queue.yaml",),
        look=training_fills_its_queue,
    ),
    Step(
        title="a job of higher priority preempts in it",
        manifests=("5-urgent.yaml",),
        look=urgent_work_preempts,
        remove=("5-urgent.yaml",),
    ),
    Step(
        title="a team uses what another leaves idle",
        manifests=("6-over-share.yaml",),
        look=first_team_takes_all,
    ),
    Step(
        title="the other team reclaims its share",
        manifests=("6-under-share.yaml",),
        look=second_team_gets_its_share,
    ),
)
