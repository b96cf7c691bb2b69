"""Every remedy that is told, applied to the objects of a random world, places the pod group."""

import dataclasses
from typing import Any
from unittest import mock

import msgspec
from hypothesis import event, note

from kai.bench.worlds import NOW, World
from kai.engine import Engine, SchedulerConfig
from kai.engine.explain import questions
from kai.engine.explain.changes import (
    AddNodes,
    Bounds,
    Change,
    DropConstraint,
    LowerMinimum,
    RaiseBounds,
    RelaxTopology,
    Tolerate,
)
from kai.model.objects import NodeSpec, Pod, PodGroup, Queue, TopologyConstraint
from kai.snapshot import codec
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import Status

from .test_worlds import fuzz

_MEGABYTE = 1_000_000
#: Of bounds: the names of resources in a queue, and how many units of the engine one of the object's has.
_RESOURCES = (("cpu", 1), ("memory", _MEGABYTE), ("gpu", 1))
_AFFINITIES = {
    "node_affinity": "nodeAffinity",
    "pod_affinity": "podAffinity",
    "pod_anti_affinity": "podAntiAffinity",
}


@fuzz
def test_every_remedy_that_is_told_places_the_group_if_it_is_applied(world: World) -> None:
    state, engine = decided(world)
    before = codec.cut(state)
    with mock.patch.object(questions, "SECONDS", 60.0):
        answers = {
            key: engine.explain_pod_group(state, key, now=NOW + 1) for key in sorted(state.pending_jobs)
        }
    state.check()
    assert codec.cut(state).digest == before.digest
    for key, answer in answers.items():
        assert answer is not None
        for remedy in answer.remedies:
            event(type(remedy).__name__)
            after, again = decided(world)
            apply(remedy, after, world, key)
            result = again.run(after, NOW + 1)
            note(f"{key}: {remedy.text}\n{world}")
            waits = {each.pod.pod_group for each in (*result.binds, *result.nominations)}
            assert key in waits, remedy.text


@fuzz
def test_less_than_what_is_told_gives_the_group_no_free_room(world: World) -> None:
    state, engine = decided(world)
    for key in sorted(state.pending_jobs):
        answer = engine.explain_pod_group(state, key, now=NOW + 1)
        assert answer is not None
        for remedy in answer.remedies:
            if (less := lessened(remedy)) is None:
                continue
            after, _ = decided(world)
            apply(less, after, world, key)
            result = Engine(SchedulerConfig(actions=("allocate",))).run(after, NOW + 1)
            note(f"{key}: {remedy.text}\n{world}")
            assert key not in {each.pod.pod_group for each in (*result.binds, *result.nominations)}


def lessened(remedy: Change) -> Change | None:
    """A little less of the same; None for what has no size."""
    match remedy:
        case LowerMinimum():
            return dataclasses.replace(remedy, minimum=remedy.minimum + 1)
        case RaiseBounds() if remedy.limits or remedy.quotas:
            limits, quotas = (
                {queue: lower(bounds) for queue, bounds in found.items()}
                for found in (remedy.limits, remedy.quotas)
            )
            return dataclasses.replace(remedy, limits=limits, quotas=quotas)
    return None


def lower(bounds: Bounds) -> Bounds:
    """By a hundredth of a core and of a GPU, and by more memory than amounts are rounded up by."""
    cpu, memory, gpus = bounds
    return (
        None if cpu is None else cpu - 10,
        None if memory is None else memory - 2 * _MEGABYTE,
        None if gpus is None else gpus - 0.01,
    )


@fuzz
def test_the_cycle_after_explanations_decides_as_if_nobody_had_asked(world: World) -> None:
    asked, engine = decided(world)
    for key in sorted(asked.pending_jobs):
        engine.explain_pod_group(asked, key, now=NOW + 1)
    unasked, other = decided(world)
    for kind, obj in world.objects():
        for state in (asked, unasked):
            if kind is Kind.NODE and obj.metadata.name == "node-0":
                state.apply(kind, msgspec.structs.replace(obj, spec=NodeSpec(unschedulable=True)))
    note(str(world))
    found, expected = engine.run(asked, NOW + 2), other.run(unasked, NOW + 2)
    for name in ("binds", "evictions", "nominations", "shares", "outcomes"):
        assert getattr(found, name) == getattr(expected, name), name


def decided(world: World) -> tuple[ClusterState, Engine]:
    """The state after a cycle, always the same, with all that the engine remembers of it."""
    state, engine = world.state(), Engine()
    engine.run(state, NOW)
    return state, engine


def apply(remedy: Change, state: ClusterState, world: World, key: str) -> None:
    """Change the objects as a user would."""
    group = state.group_objects[key]
    match remedy:
        case RaiseBounds():
            for field, bounds in (("limit", remedy.limits), ("quota", remedy.quotas)):
                for queue, wanted in bounds.items():
                    state.apply(Kind.QUEUE, raised(state.queue_objects[queue], field, wanted))
            if remedy.preemptible:
                state.apply(Kind.POD_GROUP, with_spec(group, preemptibility="preemptible"))
        case DropConstraint() | Tolerate():
            for pod in world.pods:
                task = state.task(pod.key)
                if task is not None and task.job is state.jobs[key] and task.status is Status.PENDING:
                    state.apply(Kind.POD, freed(pod, remedy))
        case RelaxTopology():
            parts = [
                msgspec.structs.replace(part, topology_constraint=relaxed(part.topology_constraint))
                for part in group.spec.sub_groups or ()
            ]
            constraint = relaxed(group.spec.topology_constraint)
            state.apply(
                Kind.POD_GROUP, with_spec(group, topology_constraint=constraint, sub_groups=parts or None)
            )
        case LowerMinimum():
            state.apply(Kind.POD_GROUP, with_spec(group, min_member=remedy.minimum))
        case AddNodes():
            for node in remedy.nodes():
                state.apply(Kind.NODE, node)
        case _:
            raise AssertionError(remedy)


def with_spec(group: PodGroup, **fields: Any) -> PodGroup:
    return msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, **fields))


def raised(queue: Queue, field: str, wanted: Bounds) -> Queue:
    resources = queue.spec.resources
    assert resources is not None
    told: dict[str, Any] = {}
    for (name, unit), value in zip(_RESOURCES, wanted, strict=True):
        if value is not None:
            told[name] = msgspec.structs.replace(getattr(resources, name), **{field: value / unit})
    changed = msgspec.structs.replace(resources, **told)
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, resources=changed))


def freed(pod: Pod, remedy: DropConstraint | Tolerate) -> Pod:
    spec = pod.spec
    if isinstance(remedy, Tolerate):
        fields: dict[str, Any] = {"tolerations": [*(spec.tolerations or ()), remedy.toleration]}
    elif remedy.name == "node_selector":
        fields = {"node_selector": None}
    else:
        kept = {key: value for key, value in (spec.affinity or {}).items() if key != _AFFINITIES[remedy.name]}
        fields = {"affinity": kept}
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, **fields))


def relaxed(constraint: TopologyConstraint | None) -> TopologyConstraint | None:
    return constraint and msgspec.structs.replace(constraint, required_topology_level="")
