"""Filters that depend on a class and on what a node is, not on what it holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from kai.engine.kernel.labels import NodeLabels
from kai.model.arrays import Mask
from kai.model.rules import taints
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.nodes import unavailable
from kai.snapshot.rows import Node

_BY_CLAIMS_ONLY = "node offers its GPUs by resource claims only"
_NO_PARTS = "node offers GPUs by resource claims, and no parts of GPUs therefore"
K = TypeVar("K", bound=Hashable)


class _Taint(NamedTuple):
    """A taint as a key: nodes that have the same ones are looked at together."""

    key: str
    value: str
    effect: str


class StaticFilters:
    """Masks over a fixed list of nodes; made anew when a node changes."""

    def __init__(self, nodes: Sequence[Node], *, enabled: bool, restricted: bool) -> None:
        self.nodes = nodes
        self.labels = NodeLabels(nodes)
        self._enabled = enabled
        self._restricted = restricted
        self.ready = self._each(lambda node: node.ready)
        #: Whether any node offers devices by resource claims, and whether any offers MIG devices.
        self._by_claims = any(node.dra_gpus for node in nodes)
        self._mig = any(node.mig for node in nodes)
        #: Rows of nodes that offer GPUs by device plugins as well as by claims.
        self.offering_both = [row for row, node in enumerate(nodes) if node.gpus > node.dra_gpus > 0]
        self.gpu_memory_mib = np.fromiter(
            (node.gpu_memory_mib for node in nodes), dtype=np.int64, count=len(nodes)
        )
        #: Which nodes offer GPUs by just these names.
        self._gpu_names: dict[frozenset[str], Mask] = {}
        self._taints: dict[tuple[_Taint, ...], Mask] = {}
        #: Which nodes have a taint that pods had better avoid.
        self.avoided: dict[_Taint, Mask] = {}
        for row, node in enumerate(nodes):
            if node.gpu_names:
                self._mark(self._gpu_names, node.gpu_names, row)
            all_taints = [_Taint(each.key, each.value, each.effect) for each in node.object.spec.taints or ()]
            repelling = tuple(taint for taint in all_taints if taint.effect in taints.REPELLING)
            if repelling:
                self._mark(self._taints, repelling, row)
            for taint in all_taints:
                if taint.effect == taints.AVOIDED:
                    self._mark(self.avoided, taint, row)

    def _mark(self, masks: dict[K, Mask], key: K, row: int) -> None:
        if key not in masks:
            masks[key] = np.zeros(len(self.nodes), dtype=bool)
        masks[key][row] = True

    def mask(self, cls: TaskClass) -> Mask:
        """Nodes that pass all static filters.

        Found anew each time, in time by nodes and by what the class demands: whoever asks keeps it.
        """
        mask = np.ones(len(self.nodes), dtype=bool)
        if self._enabled:
            for _, passed in self.verdicts(cls):
                mask &= passed
        return mask

    def verdicts(self, cls: TaskClass) -> Iterator[tuple[str, Mask]]:
        """Every filter that can reject this class: the reason, and the nodes that pass.

        The order is that in which they are told: a node counts under the first that rejects it.
        """
        if not self._enabled:
            return
        if not self.ready.all():
            for reason in sorted({why for node in self.nodes if (why := unavailable(node.object))}):
                yield reason, self._each(lambda node, reason=reason: unavailable(node.object) != reason)
        for reason, passed in self._resource_type(cls):
            yield reason, passed
        constraints = cls.constraints
        for found, tainted in self._taints.items():
            refused = taints.untolerated(found, constraints.tolerations)
            if refused is not None:
                yield f"node had untolerated taint {{{refused.key}: {refused.value}}}", ~tainted
        if constraints.node_selector:
            yield "node didn't match the pod's node selector", self.labels.selector(constraints.node_selector)
        required = (constraints.node_affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        if required:
            terms = required.get("nodeSelectorTerms") or ()
            yield "node didn't match the pod's node affinity", self.labels.terms(terms)
        if self._restricted:
            worker = "gpu_worker" if cls.for_gpus else "cpu_worker"
            yield (
                f"node is no {worker.replace('_', ' ')}",
                self._each(lambda node: bool(getattr(node, worker))),
            )

    @property
    def binding(self) -> bool:
        """Whether they are on."""
        return self._enabled

    @property
    def tainted(self) -> bool:
        """Whether any node repels pods that do not tolerate it."""
        return bool(self._taints)

    def affinity(self, cls: TaskClass) -> Mask:
        """Nodes that the class's selector and required node affinity allow, be filters on or off."""
        mask = self.labels.selector(cls.constraints.node_selector)
        required = (cls.constraints.node_affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        return mask & self.labels.terms(required.get("nodeSelectorTerms") or ()) if required else mask

    def tolerated(self, cls: TaskClass, *, of_state: bool | None = None) -> Mask:
        """Nodes whose taints the class tolerates, be filters on or off.

        Args:
            cls: of the pods.
            of_state: only taints that tell how a node is, which Kubernetes keeps, or only those that somebody
                put there.
        """
        mask = np.ones(len(self.nodes), dtype=bool)
        for found, tainted in self._taints.items():
            asked = [each for each in found if of_state in (None, taints.tells_of_state(each))]
            if taints.untolerated(asked, cls.constraints.tolerations) is not None:
                mask &= ~tainted
        return mask

    def _resource_type(self, cls: TaskClass) -> Iterator[tuple[str, Mask]]:
        if cls.legacy_mig:
            yield "legacy MIG requests are not supported", np.zeros(len(self.nodes), dtype=bool)
        if cls.cpu_only:
            return
        for offered, there in self._gpu_names.items():
            if not cls.gpu_names <= offered:
                yield f"node offers no {min(cls.gpu_names - offered)}", ~there
        if self._by_claims:
            if cls.shared:
                yield _NO_PARTS, self._each(lambda node: not node.dra_gpus)
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
        elif self._mig:
            # Cut by the strategy `single`, MIG devices are offered as GPUs: only parts of them are not given.
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
