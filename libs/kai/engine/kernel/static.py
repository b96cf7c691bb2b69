"""Filters that depend on a class and on what a node is, not on what it holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from kai.engine.kernel.labels import Mask, NodeLabels
from kai.model.objects import Taint, Toleration
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.nodes import unavailable
from kai.snapshot.rows import Node

_EFFECTS = ("NoSchedule", "NoExecute")
_BY_CLAIMS_ONLY = "node offers its GPUs by resource claims only"
Key = TypeVar("Key", bound=Hashable)


class StaticFilters:
    """Masks over a fixed list of nodes; made anew when a node changes."""

    def __init__(self, nodes: Sequence[Node], *, enabled: bool, restricted: bool) -> None:
        self.nodes = nodes
        self.labels = NodeLabels(nodes)
        self._enabled = enabled
        self._restricted = restricted
        self.ready = self._each(lambda node: node.ready)
        self.gpu_memory = np.fromiter((node.gpu_memory for node in nodes), dtype=np.int64, count=len(nodes))
        self._taints: dict[tuple[tuple[str, str, str], ...], Mask] = {}
        #: Which nodes have a taint, by key and value, that pods had better avoid.
        self.avoided: dict[tuple[str, str], Mask] = {}
        for row, node in enumerate(nodes):
            taints = node.object.spec.taints or ()
            key = tuple((t.key, t.value, t.effect) for t in taints if t.effect in _EFFECTS)
            if key:
                self._mark(self._taints, key, row)
            for taint in taints:
                if taint.effect == "PreferNoSchedule":
                    self._mark(self.avoided, (taint.key, taint.value), row)

    def _mark(self, masks: dict[Key, Mask], key: Key, row: int) -> None:
        if key not in masks:
            masks[key] = np.zeros(len(self.nodes), dtype=bool)
        masks[key][row] = True

    def mask(self, cls: TaskClass) -> Mask:
        """Nodes that pass all static filters."""
        mask = np.ones(len(self.nodes), dtype=bool)
        if self._enabled:
            for _, passed in self.verdicts(cls):
                mask &= passed
        return mask

    def verdicts(self, cls: TaskClass) -> Iterator[tuple[str, Mask]]:
        """Every filter that can reject this class: the reason, and the nodes that pass."""
        if not self._enabled:
            return
        if not self.ready.all():
            for reason in sorted({why for node in self.nodes if (why := unavailable(node.object))}):
                yield reason, self._each(lambda node, reason=reason: unavailable(node.object) != reason)
        for reason, passed in self._resource_type(cls):
            yield reason, passed
        constraints = cls.constraints
        for taints, tainted in self._taints.items():
            refused = _untolerated(taints, constraints.tolerations)
            if refused is not None:
                yield f"node had untolerated taint {{{refused.key}: {refused.value}}}", ~tainted
        if constraints.node_selector:
            yield "node didn't match the pod's node selector", self.labels.selector(constraints.node_selector)
        required = (constraints.node_affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        if required:
            terms = required.get("nodeSelectorTerms") or ()
            yield "node didn't match the pod's node affinity", self.labels.terms(terms)
        if self._restricted:
            worker = "cpu_worker" if cls.cpu_only else "gpu_worker"
            yield (
                f"node is no {worker.replace('_', ' ')}",
                self._each(lambda node: bool(getattr(node, worker))),
            )

    def affinity(self, cls: TaskClass) -> Mask:
        """Nodes that the class's selector and required node affinity allow."""
        mask = self.labels.selector(cls.constraints.node_selector)
        required = (cls.constraints.node_affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        return mask & self.labels.terms(required.get("nodeSelectorTerms") or ()) if required else mask

    def tolerated(self, cls: TaskClass) -> Mask:
        """Nodes whose taints the class tolerates."""
        mask = np.ones(len(self.nodes), dtype=bool)
        for taints, tainted in self._taints.items():
            if _untolerated(taints, cls.constraints.tolerations) is not None:
                mask &= ~tainted
        return mask

    def _resource_type(self, cls: TaskClass) -> Iterator[tuple[str, Mask]]:
        if cls.legacy_mig:
            yield "legacy MIG requests are not supported", np.zeros(len(self.nodes), dtype=bool)
        if cls.cpu_only:
            return
        if any(node.dra_gpus for node in self.nodes):
            if cls.shared:
                yield _BY_CLAIMS_ONLY, self._each(lambda node: not node.dra_gpus)
            elif cls.kind is GpuKind.WHOLE:
                yield (
                    _BY_CLAIMS_ONLY,
                    self._each(lambda node: not node.dra_gpus or node.askable_gpus >= cls.devices),
                )
        if cls.kind is GpuKind.MIG:
            yield "node has no MIG devices", self._each(lambda node: node.mig)
            yield (
                "node's MIG strategy is single",
                self._each(lambda node: not node.mig or node.mig_strategy != "single"),
            )
        elif any(node.mig for node in self.nodes):
            yield (
                "node's GPUs are MIG devices",
                self._each(
                    lambda node: (
                        not (
                            node.mig
                            and (
                                node.mig_strategy == "mixed" or (node.mig_strategy == "single" and cls.shared)
                            )
                        )
                    )
                ),
            )
        if cls.kind is GpuKind.MEMORY:
            yield "node's GPU memory is unknown", self._each(lambda node: node.gpu_memory_known)

    def _each(self, passes: object) -> Mask:
        assert callable(passes)
        return np.fromiter((passes(node) for node in self.nodes), dtype=bool, count=len(self.nodes))


def _untolerated(taints: Sequence[tuple[str, str, str]], tolerations: Sequence[Toleration]) -> Taint | None:
    for key, value, effect in taints:
        if not any(tolerates(toleration, key, value, effect) for toleration in tolerations):
            return Taint(key=key, value=value, effect=effect)
    return None


def tolerates(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == value
