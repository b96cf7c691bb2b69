"""Which nodes could take pods if they were empty, and what keeps them from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kai.answers.answer import Code, Reason
from kai.answers.standing import Finding
from kai.engine.framework.session import Session
from kai.engine.reasons.amounts import amount_text
from kai.model.arrays import Mask
from kai.model.objects import Taint, Toleration
from kai.model.quantity import integer
from kai.model.rules import taints
from kai.model.rules.gpus import is_gpu
from kai.model.words import counted, listed
from kai.snapshot.classes import Constraints, GpuKind, TaskClass
from kai.snapshot.nodes import unavailable
from kai.snapshot.resources import GPU, NOBODY, PODS
from kai.snapshot.rows import Job, Node, PodSet, SubGroupSet, Task
from kai.snapshot.state import Kind

_ANY_TAINT: Final = (Toleration(operator="Exists"),)


def nodes_allowed(session: Session, job: Job, tasks: Sequence[Task]) -> Finding:
    """At least one node could take each of the pods if it were empty."""
    if not len(session.nodes):
        return Reason(code=Code.NO_NODES, text="the cluster has no nodes", amounts={"nodes": 0})
    if (missing := _topology(session, job)) is not None:
        return missing
    able = len(session.nodes)
    for task in one_of_each_class(tasks):
        masks = Masks.of(session, task.cls)
        if not masks.capable.any():
            return _too_large(session, task)
        concerned = session.concerned(task.cls)
        for pre_filter in concerned.pre_filters if concerned is not None else ():
            if why := pre_filter.refuse(task, job):
                return Reason(
                    code=Code.PREREQUISITE, text=f"pod {task.name}: {why}", amounts={"pod": task.name}
                )
        number = int((masks.allowed & masks.capable).sum())
        if not number:
            return _refused(session, task, masks)
        able = min(able, number)
    return f"{able} of {counted(len(session.nodes), 'node')} could take a pod if they were empty"


def one_of_each_class(tasks: Sequence[Task]) -> list[Task]:
    """One pod for each class, in order."""
    return list({task.cls.id: task for task in reversed(tasks)}.values())[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks:
    """``[nodes]`` of each what it is about; a node that passes all can take a pod of the class if empty."""

    #: Ready, not cordoned, and without what Kubernetes puts on nodes that are neither.
    available: Mask
    #: Taints that somebody put on it.
    tolerated: Mask
    selected: Mask
    affine: Mask
    #: Of the right kind: GPUs as a whole, in parts, by claims, MIG.
    suited: Mask
    #: It has as much as a pod asks for.
    capable: Mask

    @classmethod
    def of(cls, session: Session, wanted: TaskClass) -> Masks:
        """Those of a class."""
        static, constraints = session.static, wanted.constraints
        every = np.ones(len(session.nodes), dtype=bool)
        if not session.predicates:
            return cls(
                available=every, tolerated=every, selected=every, affine=every, suited=every,
                capable=_capable(session, wanted),
            )  # fmt: skip
        selected = static.labels.selector(constraints.node_selector)
        plain = replace(wanted, constraints=Constraints(tolerations=_ANY_TAINT))
        only_affinity = replace(wanted, constraints=Constraints(node_affinity=constraints.node_affinity))
        return cls(
            available=static.ready & static.tolerated(wanted, of_state=True),
            tolerated=static.tolerated(wanted, of_state=False),
            selected=selected,
            affine=static.affinity(only_affinity),
            suited=static.mask(plain) | ~static.ready,
            capable=_capable(session, wanted),
        )

    @property
    def allowed(self) -> Mask:
        """Nodes that pass all but what depends on amounts."""
        allowed: Mask = self.available & self.tolerated & self.selected & self.affine & self.suited
        return allowed


def _capable(session: Session, cls: TaskClass) -> Mask:
    table = session.nodes.allocatable
    capable = np.ones(len(session.nodes), dtype=bool)
    for column, amount in cls.items:
        if column != PODS:
            capable &= table[:, column] >= amount
    if cls.shared:
        capable &= table[:, GPU] >= cls.devices
        if cls.kind is GpuKind.MEMORY:
            capable &= session.static.gpu_memory_mib >= cls.gpu_memory_mib
    return capable


def _topology(session: Session, job: Job) -> Reason | None:
    topologies = session.state.objects[Kind.TOPOLOGY]
    for constraint in filter(None, (member.constraint for member in _members(job.root))):
        wanted = [
            each for each in (constraint.required_topology_level, constraint.preferred_topology_level) if each
        ]
        if not wanted:
            continue
        topology = topologies.get(constraint.topology)
        if topology is None:
            there = f"there are {listed(sorted(topologies))}" if topologies else "there are none"
            text = f"topology {constraint.topology!r} does not exist; {there}"
            return Reason(
                code=Code.TOPOLOGY_MISSING, text=text,
                amounts={"topology": constraint.topology, "topologies": sorted(topologies)},
            )  # fmt: skip
        levels = [name for level in topology.spec.levels for name in (level.node_label, level.alias) if name]
        for level in wanted:
            if level not in levels:
                text = f"topology {constraint.topology!r} has no level {level!r}; it has {listed(levels)}"
                return Reason(
                    code=Code.TOPOLOGY_MISSING, text=text,
                    amounts={"topology": constraint.topology, "level": level, "levels": levels},
                )  # fmt: skip
    return None


def _members(group: SubGroupSet) -> list[PodSet | SubGroupSet]:
    found: list[PodSet | SubGroupSet] = [group]
    for member in group.members:
        found += _members(member) if isinstance(member, SubGroupSet) else [member]
    return found


# --- what keeps a pod from all nodes ---------------------------------------------------------------
def _refused(session: Session, task: Task, masks: Masks) -> Reason:
    parts: dict[Code, Mask] = {
        Code.NODES_UNAVAILABLE: masks.available,
        Code.TAINTED: masks.tolerated,
        Code.NODE_SELECTOR: masks.selected,
        Code.NODE_AFFINITY: masks.affine,
        Code.NODES_REFUSE: masks.suited,
    }
    others = {
        code: np.logical_and.reduce(
            [masks.capable, *(each for other, each in parts.items() if other is not code)]
        )
        for code in parts
    }
    # What nobody has comes first, then what keeps the pod from nodes that pass all else.
    unmet = [
        code
        for code in (Code.NODE_SELECTOR, Code.NODE_AFFINITY)
        if not parts[code].any() and others[code].any()
    ]
    alone = [
        code
        for code in (
            Code.TAINTED,
            Code.NODES_UNAVAILABLE,
            Code.NODE_SELECTOR,
            Code.NODE_AFFINITY,
            Code.NODES_REFUSE,
        )
        if others[code].any()
    ]
    found = [*unmet, *alone]
    if found:
        return _one(session, task, found[0], others[found[0]])
    return _several(session, task, parts)


def _one(session: Session, task: Task, code: Code, nodes: Mask) -> Reason:
    """Just this keeps a pod from some nodes, which would do otherwise."""
    rows = np.flatnonzero(nodes)
    names = [session.nodes.nodes[row].name for row in rows.tolist()]
    would = f"{counted(len(names), 'node')} ({listed(names)}) would do but for"
    text, more = _obstacle(session, task, code, rows.tolist())
    return Reason(
        code=code, text=f"{would} {text}", amounts={"nodes": len(session.nodes), "wouldDo": names, **more}
    )


def _several(session: Session, task: Task, parts: dict[Code, Mask]) -> Reason:
    """Nodes are refused for more than one reason each."""
    counts = {code: int((~mask).sum()) for code, mask in parts.items() if not mask.all()}
    texts = {
        Code.NODES_UNAVAILABLE: "are not ready or cordoned",
        Code.TAINTED: "have taints that the pod does not tolerate",
        Code.NODE_SELECTOR: f"do not have {selector_text(task.cls.constraints)}",
        Code.NODE_AFFINITY: "do not match its node affinity",
        Code.NODES_REFUSE: "have other kinds of GPUs",
    }
    total = len(session.nodes)
    text = "no node passes everything that it asks: " + ", ".join(
        f"{number} of {total} {texts[code]}" for code, number in counts.items()
    )
    return Reason(
        code=Code.NODES_REFUSE,
        text=text,
        amounts={"nodes": total, **{str(code): n for code, n in counts.items()}},
    )


def selector_text(constraints: Constraints) -> str:
    """``the label pool=a``."""
    labels = [f"{key}={value}" for key, value in constraints.node_selector]
    return f"the label{'s' if len(labels) > 1 else ''} {', '.join(labels)}"


def _obstacle(session: Session, task: Task, code: Code, rows: list[int]) -> tuple[str, dict[str, object]]:
    nodes = [session.nodes.nodes[row] for row in rows]
    constraints = task.cls.constraints
    match code:
        case Code.TAINTED:
            found = sorted(
                {
                    f"{refused.key}{'=' + refused.value if refused.value else ''}:{refused.effect}"
                    for node in nodes
                    if (refused := taints.untolerated(_put_on(node), constraints.tolerations))
                }
            )
            kept = f" and has {selector_text(constraints)}" if constraints.node_selector else ""
            text = f"the taint {listed(found)}, which pod {task.name} does not tolerate"
            if kept:
                text += f"; it asks for {selector_text(constraints)}"
            return text, {"taints": found}
        case Code.NODES_UNAVAILABLE:
            why = sorted({_unavailable(node, constraints) for node in nodes})
            return f"that they take no pods now: {listed(why)}", {"why": why}
        case Code.NODE_SELECTOR:
            nobody = [
                f"{key}={value}"
                for key, value in constraints.node_selector
                if not session.static.labels.selector(((key, value),)).any()
            ]
            text = f"the node selector of pod {task.name}: "
            text += (
                f"no node has the label {listed(nobody)}"
                if nobody
                else f"they lack {selector_text(constraints)}"
            )
            return text, {"selector": dict(constraints.node_selector)}
        case Code.NODE_AFFINITY:
            return f"the required node affinity of pod {task.name}, which they do not match", {}
        case _:
            kinds = _suited(session, task.cls)
            return f"their kind: {kinds[0] if kinds else 'they have another kind of GPUs'}", {}


def _put_on(node: Node) -> list[Taint]:
    return [each for each in node.object.spec.taints or () if not taints.tells_of_state(each)]


def _unavailable(node: Node, constraints: Constraints) -> str:
    """A taint stays for some seconds after its cause."""
    if why := unavailable(node.object):
        return why
    found = taints.untolerated(node.object.spec.taints or (), constraints.tolerations)
    return f"node has the taint {found.key} still" if found is not None else "node is not ready"


def _suited(session: Session, cls: TaskClass) -> list[str]:
    plain = replace(cls, constraints=Constraints(tolerations=_ANY_TAINT))
    return [why for why, passed in session.static.verdicts(plain) if not passed[session.static.ready].any()]


def _too_large(session: Session, task: Task) -> Reason:
    """No node has what a pod asks for, even if it were empty."""
    table, resources, cls = session.nodes.allocatable, session.state.resources, task.cls
    for column, amount in cls.items:
        most = int(table[:, column].max())
        if column == PODS or most >= amount:
            continue
        name, each = next(iter(resources.named_amounts(column, amount=amount, unoffered=cls.unoffered)))
        unit = resources.unit(name)
        wanted = amount_text(column, each, name=name, unit=unit)
        if promising := [node for node in session.nodes.nodes if _promised(node, name) >= each]:
            return _unreported(task, wanted, promising)
        if column == NOBODY or not most:
            text = f"pod {task.name} asks for {wanted}, and no node offers {name}"
            return Reason(code=Code.NOT_OFFERED, text=text, amounts={"resource": name, "asked": each / unit})
        row = int(table[:, column].argmax())
        node = session.nodes.nodes[row].name
        largest = amount_text(column, most, name=name, unit=unit)
        text = f"pod {task.name} asks for {wanted}; the largest node, {node}, has {largest}"
        return Reason(
            code=Code.TOO_LARGE,
            text=text,
            amounts={"resource": name, "asked": each / unit, "largest": most / unit, "node": node},
        )
    if cls.shared and cls.kind is GpuKind.MEMORY:
        most_mib = int(session.static.gpu_memory_mib[table[:, GPU] >= max(cls.devices, 1)].max(initial=0))
        text = f"pod {task.name} asks for {cls.gpu_memory_mib} MiB of a GPU; the largest has {most_mib} MiB"
        return Reason(
            code=Code.TOO_LARGE,
            text=text,
            amounts={"resource": "gpu-memory", "asked": cls.gpu_memory_mib, "largest": most_mib},
        )
    text = f"pod {task.name} asks for more of several resources together than any node has"
    return Reason(code=Code.TOO_LARGE, text=text, amounts={"resource": "several"})


def _promised(node: Node, name: str) -> int:
    """How many devices a node has by its capacity and labels, whatever it offers of them now."""
    capacity = node.object.status.capacity or {}
    if name == "gpu":  # the column of all makes together
        told = [integer(text) or 0 for each, text in capacity.items() if is_gpu(each)]
        return max([node.gpu_count, *told])
    return integer(capacity.get(name, "")) or 0 if "/" in name else 0


def _unreported(task: Task, wanted: str, nodes: Sequence[Node]) -> Reason:
    """Device plugins start after their node, and are replaced while it stays."""
    names = [node.name for node in nodes]
    text = (
        f"pod {task.name} asks for {wanted}, and no node offers as much now; by its capacity or labels "
        f"{counted(len(names), 'node')} ({listed(names)}) should: look whether the device plugin runs there"
    )
    why = "its device plugin offers less than the node has"
    return Reason(code=Code.NODES_UNAVAILABLE, text=text, amounts={"wouldDo": names, "why": [why]})
