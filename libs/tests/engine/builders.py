"""How tests of the engine say a world, run a cycle over it, and read what was decided.

    state = a_state(a_node("n", gpus=2), a_job("old", gpus=2, on="n"), a_job("new", gpus=1))
    assert decided(state, config("allocate")).binds == {}

A world is objects of the API, ``(kind, object)`` for those that are plain JSON, and lists of these. What a
world does not say is usual: the priorities that are shipped, and a queue ``team`` below ``top``. Objects of
the API come from :mod:`kai.bench.objects`; whoever tests the engine takes them from here.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kai.bench.objects import (
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    usual_priorities,
)
from kai.config import PluginOption
from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.model.decisions import CycleResult, PodGroupOutcome
from kai.model.objects import (
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    PodResourceClaim,
    PriorityClass,
    Queue,
    SubGroup,
    Topology,
    TopologyConstraint,
    TopologyLevel,
    TopologySpec,
)
from kai.snapshot.kinds import StateParams
from kai.snapshot.rows import Job, Task
from kai.snapshot.state import ClusterState, Kind

__all__ = [
    "NOW",
    "SLICE",
    "Case",
    "Objects",
    "Part",
    "a_constraint",
    "a_group",
    "a_job",
    "a_node",
    "a_pod",
    "a_priority_class",
    "a_queue",
    "a_running",
    "a_single",
    "a_state",
    "a_topology",
    "add",
    "bound",
    "bound_keys",
    "claiming",
    "config",
    "cycle",
    "decided",
    "job_of",
    "leaving",
    "nodes",
    "one_node",
    "outcomes",
    "running",
    "slices",
    "table",
    "taker",
    "task_of",
    "urgent",
    "usual_priorities",
    "without",
    "world_of",
]

Objects = list[tuple[Kind, object]]
NOW = 1_900_000_000.0
SLICE = "nvidia.com/mig-1g.5gb"
_KINDS = {
    Node: Kind.NODE,
    Pod: Kind.POD,
    PodGroup: Kind.POD_GROUP,
    PriorityClass: Kind.PRIORITY_CLASS,
    Queue: Kind.QUEUE,
    Topology: Kind.TOPOLOGY,
}
#: What runs began so long ago, if nothing is said.
_RUNNING_SECONDS = 500


# --- a world -------------------------------------------------------------------------------------
def world_of(*things: Any) -> list[tuple[Kind, Any]]:
    """All objects of a world, each with its kind; nothing usual is added."""
    return list(_flat(things))


def _flat(things: Iterable[Any]) -> Iterator[tuple[Kind, Any]]:
    for each in things:
        kind = _KINDS.get(type(each))
        if kind is not None:
            yield kind, each
        elif isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], Kind):
            yield each
        else:
            yield from _flat(each)


def a_state(*things: Any, params: StateParams | None = None) -> ClusterState:
    """The state of a world, and what is usual where it says nothing else."""
    objects = world_of(*things)
    queues = [obj for kind, obj in objects if kind is Kind.QUEUE]
    names = {queue.metadata.name for queue in queues}
    usual: list[Any] = [*usual_priorities()]
    if not queues:
        usual += [a_queue("top"), a_queue("team", parent="top")]
    elif "top" not in names and any(queue.spec.parent_queue == "top" for queue in queues):
        usual.append(a_queue("top"))
    state = ClusterState(params)
    add(state, usual, objects)
    return state


def add(state: ClusterState, *things: Any) -> None:
    """Let the state know more, or something new about what it knows."""
    for kind, obj in _flat(things):
        state.apply(kind, obj)


def one_node(*things: Any, gpus: int = 8, params: StateParams | None = None) -> ClusterState:
    """The state of a world with one node ``n``."""
    return a_state(a_node("n", gpus=gpus), *things, params=params)


def nodes(count: int, **options: Any) -> list[Node]:
    """Equal nodes ``n0``, ``n1`` …"""
    return [a_node(f"n{number}", **options) for number in range(count)]


@dataclass(frozen=True)
class Part:
    """A subgroup: how many pods it needs, where its pods run (``""`` waits), and how many there are."""

    name: str
    min_member: int | None = 1
    on: str | Collection[str] = ()
    pods: int | None = None
    parent: str = ""
    constraint: TopologyConstraint | None = None
    min_sub_group: int | None = None
    pod: Mapping[str, Any] = field(default_factory=dict)


def a_job(
    name: str,
    *parts: Part,
    queue: str = "team",
    pods: int | None = None,
    on: str | Collection[str] = (),
    min_member: int | None = None,
    priority: str = "train",
    namespace: str = "default",
    created: float = 0,
    started: float | None = None,
    group: Mapping[str, Any] | None = None,
    **pod: Any,
) -> list[Any]:
    """A pod group and its pods ``name-0``, ``name-1`` …, or ``name-part-0`` … of its parts.

    ``on`` are the nodes on which pods run, one for each (``""`` waits); further ones up to ``pods`` wait.
    All are needed unless ``min_member`` says how many. ``group`` are further fields of the pod group,
    ``pod`` those of each pod. What runs began a while ago, unless ``started`` says when.
    """
    if parts:
        placed = [
            (f"{name}-{part.name}-{number}", node, {"sub_group": part.name, **part.pod})
            for part in parts
            for number, node in enumerate(
                _nodes_of(part.on, part.pods, least=0 if part.min_member is None else 1)
            )
        ]
        minimum = None
    else:
        where = _nodes_of(on, pods, least=1)
        placed = [(f"{name}-{number}", node, {}) for number, node in enumerate(where)]
        minimum = len(where) if min_member is None else min_member
    if started is None:
        started = NOW - _RUNNING_SECONDS if any(node for _, node, _ in placed) else 0
    made = a_group(
        name,
        queue=queue,
        min_member=minimum,
        priority=priority,
        namespace=namespace,
        created=created,
        started=started,
        sub_groups=[_sub_group(part) for part in parts] or None,
        **(group or {}),
    )
    members = [
        a_pod(pod_name, group=name, namespace=namespace, node=node, **{**pod, **own})
        for pod_name, node, own in placed
    ]
    return [made, *members]


def _nodes_of(on: str | Collection[str], pods: int | None, *, least: int) -> list[str]:
    where = [on] if isinstance(on, str) else list(on)
    count = max(len(where), least) if pods is None else pods
    return (where + [""] * count)[:count]


def _sub_group(part: Part) -> SubGroup:
    return SubGroup(
        name=part.name,
        min_member=part.min_member,
        parent=part.parent or None,
        topology_constraint=part.constraint,
        min_sub_group=part.min_sub_group,
    )


def a_single(
    name: str,
    *,
    queue: str = "team",
    on: str = "",
    priority: str = "train",
    namespace: str = "default",
    created: float = 0,
    **pod: Any,
) -> list[Any]:
    """A pod group and its only pod, which is called like it; where it runs, it has done so for a while."""
    started = NOW - _RUNNING_SECONDS if on else 0
    return [
        a_group(name, queue=queue, priority=priority, namespace=namespace, created=created, started=started),
        a_pod(name, group=name, namespace=namespace, node=on, **pod),
    ]


def a_running(name: str, *, on: str | Collection[str] = "n0", gpus: int = 1, **job: Any) -> list[Any]:
    """A job that runs."""
    return a_job(name, on=on, gpus=gpus, **job)


def running(count: int, **job: Any) -> list[list[Any]]:
    """Jobs ``r0``, ``r1`` … that run; the last is the youngest, unless ``created`` says otherwise."""
    return [a_running(f"r{number}", **{"created": number, **job}) for number in range(count)]


def urgent(name: str = "u", **job: Any) -> list[Any]:
    """A job that waits, is younger than those that run, and is of a higher priority."""
    return a_job(name, **{"gpus": 1, "priority": "build", "created": 100, **job})


def taker(pods: int = 1, **job: Any) -> list[Any]:
    """An urgent job for which others are to make room."""
    return urgent("taker", pods=pods, **job)


def leaving(name: str, **job: Any) -> list[Any]:
    """A job whose pods are on their way out."""
    return a_job(name, deleted=NOW - 5, **job)


def slices(job: list[Any], count: int = 1) -> list[Any]:
    """The same job, whose pods ask for MIG devices."""
    for each in job[1:]:
        each.spec.containers[0].resources.requests[SLICE] = str(count)
    return job


def claiming(*claims: str) -> dict[str, Any]:
    """What the specification of a pod says that uses these resource claims."""
    return {"resource_claims": [PodResourceClaim(name=each, resource_claim_name=each) for each in claims]}


def a_topology(*levels: str, name: str = "tree") -> Topology:
    """Domains by labels of nodes, the widest first."""
    return Topology(
        metadata=ObjectMeta(name=name),
        spec=TopologySpec(levels=[TopologyLevel(node_label=each) for each in levels]),
    )


def a_constraint(required: str = "", *, preferred: str = "", name: str = "tree") -> TopologyConstraint:
    """To be within one domain of a level."""
    return TopologyConstraint(
        topology=name, required_topology_level=required, preferred_topology_level=preferred
    )


# --- a cycle -------------------------------------------------------------------------------------
def config(
    *actions: str,
    off: Collection[str] = (),
    told: Mapping[str, Mapping[str, str]] | None = None,
    **more: Any,
) -> SchedulerConfig:
    """The default configuration with just these actions (all, if none is named).

    Without the plugins that are ``off``; ``told`` are arguments of plugins by name. The rest are fields of
    the configuration, or of :class:`EngineParams`.
    """
    params = {key: more.pop(key) for key in list(more) if key in EngineParams.__dataclass_fields__}
    found = SchedulerConfig(params=EngineParams(**params), **more)
    plugins = tuple(
        PluginOption(each.name, dict(told[each.name])) if told and each.name in told else each
        for each in found.plugins
        if each.name not in off
    )
    return replace(found, plugins=plugins, **({"actions": actions} if actions else {}))


def without(*off: str) -> SchedulerConfig:
    """The default configuration without some plugins."""
    return config(off=off)


@dataclass(frozen=True)
class Decided:
    """What a cycle decided, by names of pods: who goes where, who has to go, who waits where."""

    binds: Mapping[str, str] = field(default_factory=dict)
    evicts: Collection[str] = frozenset()
    waits: Mapping[str, str] = field(default_factory=dict)


def decided(state: ClusterState, by: SchedulerConfig | None = None, *, now: float = NOW) -> Decided:
    """Run one cycle; the state is sound afterwards."""
    return read(cycle(state, by, now=now))


def cycle(state: ClusterState, by: SchedulerConfig | None = None, *, now: float = NOW) -> CycleResult:
    """Run one cycle; the state is sound afterwards."""
    result = Engine(by).run(state, now)
    state.check()
    return result


def read(result: CycleResult) -> Decided:
    """What was decided, by names of pods."""
    return Decided(
        binds=bound(result),
        evicts=frozenset(each.pod.name for each in result.evictions),
        waits={each.pod.name: each.node for each in result.nominations},
    )


def bound(result: CycleResult) -> dict[str, str]:
    """Nodes of the pods that are bound, by name, in the order in which that was decided."""
    return {each.pod.name: each.node for each in result.binds}


def bound_keys(result: CycleResult) -> list[str]:
    """The pods that are bound, by namespace and name."""
    return sorted(f"{each.pod.namespace}/{each.pod.name}" for each in result.binds)


def outcomes(result: CycleResult) -> dict[str, PodGroupOutcome]:
    """What was found about pod groups, by name."""
    return {each.pod_group.partition("/")[2]: each for each in result.outcomes}


def job_of(state: ClusterState, name: str) -> Job:
    """A job of the namespace ``default``."""
    return state.jobs[f"default/{name}"]


def task_of(state: ClusterState, name: str) -> Task:
    """A pod of the namespace ``default``."""
    task = state.task(f"default/{name}")
    assert task is not None, name
    return task


# --- tables ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Case:
    """A world, and all that a cycle decides about it; ``says`` are parts of what jobs are told."""

    name: str
    world: Any
    binds: Mapping[str, str] = field(default_factory=dict)
    evicts: Collection[str] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)
    by: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, *actions: str) -> None:
        """Run the actions over the world and compare; ``by`` are arguments of :func:`config`."""
        result = cycle(a_state(self.world), config(*actions, **self.by))
        expected = Decided(dict(self.binds), frozenset(self.evicts), dict(self.waits))
        assert read(result) == expected
        assert len(result.evictions) == len(self.evicts)
        told = outcomes(result)
        for job, words in self.says.items():
            assert words in told[job].message


def table(*cases: Case) -> Any:
    """Parametrizes a test with ``case``; names of cases are unique."""
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("case", cases, ids=names)
