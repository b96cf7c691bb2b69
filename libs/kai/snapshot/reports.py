"""What became of decisions, as those tell it who carry them out: data, to be kept and entered again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kai.model.ids import PodUid

if TYPE_CHECKING:
    from kai.snapshot.rows import PodFacts
    from kai.snapshot.state import ClusterState


class BindUnderWay(msgspec.Struct, frozen=True, tag=True):
    """A pod is being bound by a decision of an earlier leader."""

    uid: PodUid
    node: str

    def enter(self, state: ClusterState) -> None:
        """Let the state know, unless it knows more: that the pod has a node, or a newer decision about it."""
        facts = _facts(state, self.uid)
        if facts is not None and not (facts.node_name or facts.assumed_node):
            state.assume_bind(self.uid, self.node)


class BindDone(msgspec.Struct, frozen=True, tag=True):
    """A bind took effect."""

    uid: PodUid

    def enter(self, state: ClusterState) -> None:
        """Let the state know."""
        state.bind_done(self.uid)


class BindFailed(msgspec.Struct, frozen=True, tag=True):
    """A bind had no effect, and may be decided anew."""

    uid: PodUid
    #: Where an earlier leader would have had it; empty for a decision of the one that leads.
    node: str = ""

    def enter(self, state: ClusterState) -> None:
        """Let the state know, unless the pod is being bound to another node by now."""
        facts = _facts(state, self.uid)
        if facts is not None and self.node in ("", facts.assumed_node):
            state.bind_failed(self.uid)


class EvictionFailed(msgspec.Struct, frozen=True, tag=True):
    """An eviction had no effect, for a reason, at a moment in Unix seconds."""

    uid: PodUid
    why: str = ""
    at: float = 0.0

    def enter(self, state: ClusterState) -> None:
        """Let the state know; the pod's job is left alone for a while."""
        if self.uid in state.tasks:
            state.eviction_refusals.refused(self.uid, why=self.why, now=self.at)
        state.evict_failed(self.uid)


class PodRefused(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A node did not do what it promised for a pod of a namespace, at a moment in Unix seconds."""

    node: str
    namespace: str
    at: float
    #: Whether the pod asks for what no node of this kind grants, so that it says nothing for others.
    own_fault: bool = False

    def enter(self, state: ClusterState) -> None:
        """Let the state know; several in a row close the node to the namespace."""
        state.refusals.refused(self.node, namespace=self.namespace, now=self.at, own_fault=self.own_fault)


class PodRan(msgspec.Struct, frozen=True, tag=True):
    """A node that had refused pods, of whatever namespace, runs one of this namespace."""

    node: str
    namespace: str

    def enter(self, state: ClusterState) -> None:
        """Let the state know."""
        state.refusals.ran(self.node, namespace=self.namespace)


def _facts(state: ClusterState, uid: PodUid) -> PodFacts | None:
    task = state.tasks.get(uid)
    return task.facts if task is not None else None


Report: TypeAlias = BindUnderWay | BindDone | BindFailed | EvictionFailed | PodRefused | PodRan
