"""What became of decisions, as those tell it who carry them out: data, to be kept and entered again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kai.model.ids import PodUid

if TYPE_CHECKING:
    from kai.snapshot.state import ClusterState


class BindUnderWay(msgspec.Struct, frozen=True, tag=True):
    """A pod is being bound by a decision of an earlier leader."""

    uid: PodUid
    node: str

    def enter(self, state: ClusterState) -> None:
        """Let the state know."""
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

    def enter(self, state: ClusterState) -> None:
        """Let the state know."""
        state.bind_failed(self.uid)


class EvictionFailed(msgspec.Struct, frozen=True, tag=True):
    """An eviction had no effect."""

    uid: PodUid

    def enter(self, state: ClusterState) -> None:
        """Let the state know."""
        state.evict_failed(self.uid)


class PodRefused(msgspec.Struct, frozen=True, tag=True):
    """A node did not do what it promised for a pod of a namespace, at a moment in Unix seconds."""

    node: str
    namespace: str
    at: float

    def enter(self, state: ClusterState) -> None:
        """Let the state know; several in a row close the node to the namespace."""
        state.refusals.refused(self.node, namespace=self.namespace, now=self.at)


class PodRan(msgspec.Struct, frozen=True, tag=True):
    """A node runs a pod of a namespace whose pods it had refused."""

    node: str
    namespace: str

    def enter(self, state: ClusterState) -> None:
        """Let the state know."""
        state.refusals.ran(self.node, namespace=self.namespace)


Report: TypeAlias = BindUnderWay | BindDone | BindFailed | EvictionFailed | PodRefused | PodRan
