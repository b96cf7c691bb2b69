"""Persistent volumes: claims exist, bound ones are reachable, others possible, and nodes have slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Filter, NodeFilter, PreFilter, Readiness, Tie, Ties
from kai.engine.plugins.predicates.leaving import others_on
from kai.engine.plugins.predicates.unbound_claims import UnboundClaims, on_one_node
from kai.model import quantity
from kai.model.arrays import Mask
from kai.model.rules.selectors import OneOf, label_selector, selects
from kai.model.rules.volumes import (
    is_made_for,
    selected_node,
    storage_bytes,
    waits_for_consumer,
)
from kai.model.words import listed
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.state import Kind
from kai.snapshot.status import OCCUPYING

Object = Mapping[str, Any]
_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
#: Labels that say where a volume is, and where a node says that which does not have the same label.
_ZONES: Final = {
    _ZONE: _ZONE,
    _REGION: _REGION,
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
#: Access mode of a volume that no second pod may use, not even on the same node.
_ONE_POD: Final = "ReadWriteOncePod"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class Volumes(PreFilter, Filter, NodeFilter, Readiness, Ties):
    """What upstream calls volume binding, volume zone, node volume limits and volume restrictions."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._objects = handle.objects
        self._masks: dict[str, Mask | None] = {}
        self._reserves = handle.flags.schedule_csi_storage

    def concerns(self, cls: TaskClass) -> bool:
        """Classes with persistent volume claims."""
        return bool(cls.constraints.volume_claims)

    def depends_on(self, task: Task) -> str:
        """The namespace, in which claims of the same names are others."""
        return task.namespace

    def _claims(self, task: Task) -> Iterator[tuple[str, Object | None]]:
        claims = self._objects[Kind.PERSISTENT_VOLUME_CLAIM]
        for name in task.cls.constraints.volume_claims:
            yield name, claims.get(f"{task.namespace}/{name}")

    def refuse(self, task: Task, job: Job) -> str | None:
        """Claims that do not exist, are another pod's, are lost, or are never bound while a pod waits."""
        del job
        own = frozenset(task.cls.constraints.own_claims)
        for name, claim in self._claims(task):
            if claim is None:
                return f"persistent volume claim {name!r} does not exist in namespace {task.namespace!r}"
            if (claim.get("metadata") or {}).get("deletionTimestamp"):
                return f"persistent volume claim {name!r} is being deleted"
            if name in own and not is_made_for(claim, task.uid):
                return (
                    f"persistent volume claim {name!r} was not made for the pod's ephemeral volume; "
                    "delete it unless it goes by itself"
                )
            if (claim.get("status") or {}).get("phase") == "Lost":
                return f"persistent volume claim {name!r} has lost its volume"
            bound = (claim.get("spec") or {}).get("volumeName")
            if bound and bound not in self._objects[Kind.PERSISTENT_VOLUME]:
                return f"persistent volume {bound!r} of claim {name!r} does not exist"
            if not bound and self._class_is_missing(claim):
                storage_class = claim["spec"]["storageClassName"]
                return f"storage class {storage_class!r} of persistent volume claim {name!r} does not exist"
            if not bound and not waits_for_consumer(self._class_of(claim)):
                return f"persistent volume claim {name!r} is not bound, and its class binds at once"
        return None

    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """Nodes that reach all volumes; none while another pod has one that only one may have."""
        if self._taken(task):
            nowhere = np.zeros(len(self._handle.nodes), dtype=bool)
            return nowhere, "another pod has the pod's volume for itself"
        found: Mask | None = None
        reasons: list[str] = []
        for name, claim in self._claims(task):
            mask = None if claim is None else self._mask_of(f"{task.namespace}/{name}", claim)
            if claim is not None and mask is not None:
                found = mask if found is None else found & mask
                if not mask.all():
                    reasons.append(self._why(name, claim, mask, namespace=task.namespace))
        if found is None:
            return None
        return found, f"node cannot reach the pod's volumes: {listed(reasons, between='; ')}"

    def check(self, task: Task, node: Node) -> str | None:
        """Slots for volumes of each driver, and room for those to be made beside those of others.

        Pods that are on their way out count as gone: :meth:`waits` sees to them.
        """
        if not self._has_room(task, node, leaving=False):
            return "node has no room for the pod's volumes beside those that are about to be made"
        if not self._has_slots(task, node, leaving=False):
            return "node has no slot left for the pod's volumes"
        if not self._has_volumes(task, node):
            return "node reaches no volume for each of the pod's claims"
        return None

    def waits(self, task: Task, node: Node) -> bool:
        """Whether a pod that is on its way out still has a volume that only one pod may have, or a slot or
        room that the pod needs.
        """
        return (
            self._is_left(task)
            or not self._has_slots(task, node, leaving=True)
            or not self._has_room(task, node, leaving=True)
        )

    def tie(self, first: Task, tasks: Sequence[Task]) -> Tie | None:
        """Pods that share a claim with the first one, which gets its volume for that one's node."""
        for name, claim in self._claims(first):
            others = [task for task in tasks if task is not first and self._uses(task, first.namespace, name)]
            if not others or claim is None or not self._is_to_be_bound(claim):
                continue
            key = f"{first.namespace}/{name}"
            if not self._is_provisioned(claim):
                return Tie(self._unbound.reaching_alike(key), others)
            if on_one_node(claim):
                return Tie(np.arange(len(self._handle.nodes)), others)
        return None

    @staticmethod
    def _uses(task: Task, namespace: str, name: str) -> bool:
        return task.namespace == namespace and name in task.cls.constraints.volume_claims

    def _is_left(self, task: Task) -> bool:
        """Whether somebody who is leaving still has a volume of the task that only one pod may have."""
        return any(other.releasing for other in self._rivals(task))

    def _taken(self, task: Task) -> bool:
        """Whether another pod has a volume of the task that only one pod may have."""
        return any(OCCUPYING[other.status] for other in self._rivals(task))

    def _rivals(self, task: Task) -> Iterator[Task]:
        """Other pods on nodes that use a volume of the task that only one pod may have."""
        exclusive = frozenset(
            name
            for name, claim in self._claims(task)
            if claim is not None and _ONE_POD in ((claim.get("spec") or {}).get("accessModes") or ())
        )
        if not exclusive:
            return
        for node in self._handle.nodes.nodes:
            for other in node.tasks.values():
                if (
                    other is not task
                    and other.namespace == task.namespace
                    and not exclusive.isdisjoint(other.cls.constraints.volume_claims)
                ):
                    yield other

    # --- claims ----------------------------------------------------------------------------------
    def _class_of(self, claim: Object) -> Object | None:
        name = (claim.get("spec") or {}).get("storageClassName")
        return self._objects[Kind.STORAGE_CLASS].get(str(name)) if name else None

    def _class_is_missing(self, claim: Object) -> bool:
        return bool((claim.get("spec") or {}).get("storageClassName")) and self._class_of(claim) is None

    def _mask_of(self, key: str, claim: Object) -> Mask | None:
        """Nodes that reach the claim's volume, or may have it once it is bound; None for all."""
        if key not in self._masks:
            self._masks[key] = self._lasting(claim)
        lasting = self._masks[key]
        if not self._is_to_be_bound(claim):
            return lasting
        settled = self._unbound.settled(key)
        if settled is None:
            open_rows = self._unbound.open_rows(key)
            return open_rows if lasting is None else open_rows | lasting
        if settled.volume is not None:
            return settled.volume.reached
        # Which nodes will reach what is made is known once it is there; who may use it from one only, now.
        return self._only(settled.node.name) if on_one_node(claim) else lasting

    def _lasting(self, claim: Object) -> Mask | None:
        """What no placement changes: where the volume is, or is being made, or can be made."""
        bound = (claim.get("spec") or {}).get("volumeName")
        if bound:
            return self._of_volume(self._objects[Kind.PERSISTENT_VOLUME].get(bound) or {})
        if not self._is_provisioned(claim):
            return None
        if chosen := selected_node(claim):
            return self._only(chosen)
        return self._of_provisioner(self._class_of(claim) or {}, claim)

    @cached_property
    def _unbound(self) -> UnboundClaims:
        return UnboundClaims(self._handle, waits=self._is_to_be_bound, reached=self._of_volume)

    def _is_to_be_bound(self, claim: Object) -> bool:
        """Whether the claim gets its volume for whichever pod is the first to use it."""
        if (claim.get("spec") or {}).get("volumeName"):
            return False
        return not (self._is_provisioned(claim) and selected_node(claim))

    def _has_volumes(self, task: Task, node: Node) -> bool:
        """Whether there is a volume for each of the claims for which none is made."""
        keys = [
            key
            for name, claim in self._claims(task)
            if claim is not None
            and self._is_to_be_bound(claim)
            and not self._is_provisioned(claim)
            and self._unbound.settled(key := f"{task.namespace}/{name}") is None
        ]
        # Of one alone the nodes were looked at before.
        return len(keys) < 2 or self._unbound.has_volumes(keys, node)

    def _is_provisioned(self, claim: Object) -> bool:
        """Whether somebody makes volumes of the claim's class."""
        storage = self._class_of(claim) or {}
        return bool(storage.get("provisioner", _NO_PROVISIONER) != _NO_PROVISIONER)

    def _why(self, name: str, claim: Object, mask: Mask, *, namespace: str) -> str:
        """Why a claim keeps its pods to the nodes of ``mask``."""
        of = f"claim {name!r}"
        if bound := (claim.get("spec") or {}).get("volumeName"):
            rows = np.flatnonzero(mask)
            where = (
                f"node {self._handle.nodes.nodes[rows[0]].name}" if len(rows) == 1 else f"{len(rows)} nodes"
            )
            return f"persistent volume {bound!r} of {of} is reached from {where} only"
        if (chosen := selected_node(claim)) and self._is_provisioned(claim):
            return f"the volume of {of} is being made for node {chosen}"
        if self._is_to_be_bound(claim) and (settled := self._unbound.settled(f"{namespace}/{name}")):
            return f"{of} gets its volume for another pod, on node {settled.node.name}"
        return f"no volume for {of} can be had there"

    def _only(self, name: str) -> Mask:
        """The node for which a volume is being made: whether others will reach it is not known yet."""
        found = np.zeros(len(self._handle.nodes), dtype=bool)
        node = self._handle.nodes.by_name.get(name)
        if node is not None:
            found[node.row] = True
        return found

    def _of_volume(self, volume: Object) -> Mask | None:
        labels = self._handle.filters.labels
        masks: list[Mask] = []
        required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
        if required:
            masks.append(labels.terms(required.get("nodeSelectorTerms") or ()))
        if (inside := self._in_zones((volume.get("metadata") or {}).get("labels") or {})) is not None:
            masks.append(inside)
        return np.logical_and.reduce(masks) if masks else None

    def _in_zones(self, said: Mapping[str, str]) -> Mask | None:
        """Nodes where a volume with these labels is, as in kube-scheduler; None if they name no zone.

        A node that says nothing of zones is in all of them: a cluster of one need not label its nodes.
        """
        labels, masks = self._handle.filters.labels, list[Mask]()
        for key, instead in _ZONES.items():
            if zones := said.get(key):
                # A volume that is in several zones has their names with two underscores between them.
                allowed = OneOf(frozenset(zones.split("__")))
                unsaid = labels.column(key)[0] < 0
                masks.append(np.where(unsaid, labels.where(instead, allowed), labels.where(key, allowed)))
        if not masks:
            return None
        nowhere = np.logical_and.reduce([labels.column(key)[0] < 0 for key in _ZONES])
        return np.asarray(np.logical_and.reduce(masks) | nowhere, dtype=bool)

    def _of_provisioner(self, storage: Object, claim: Object) -> Mask:
        """Nodes on which the class may make a volume."""
        labels, count = self._handle.filters.labels, len(self._handle.nodes)
        found = np.ones(count, dtype=bool)
        allowed = storage.get("allowedTopologies") or ()
        if allowed:
            found[:] = False
            for term in allowed:
                inside = np.ones(count, dtype=bool)
                for each in term.get("matchLabelExpressions") or ():
                    values = set(each.get("values") or ())
                    inside &= labels.where(each.get("key", ""), lambda value, values=values: value in values)  # type: ignore[misc]
                found |= inside
        driver = self._objects[Kind.CSI_DRIVER].get(str(storage.get("provisioner")))
        if driver is not None and (driver.get("spec") or {}).get("storageCapacity"):
            found &= self._with_capacity(storage, claim)
        return found

    def _with_capacity(self, storage: Object, claim: Object) -> Mask:
        wanted = storage_bytes(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
        name = (storage.get("metadata") or {}).get("name")
        nodes = self._handle.nodes.nodes
        found = np.zeros(len(nodes), dtype=bool)
        for capacity in self._objects[Kind.CSI_STORAGE_CAPACITY].values():
            if capacity.get("storageClassName") != name:
                continue
            # As in Kubernetes: the sum of all that is free need not be free for one volume.
            room = capacity.get("maximumVolumeSize") or capacity.get("capacity") or "0"
            if quantity.whole(room) >= wanted:
                topology = capacity.get("nodeTopology")
                inside = label_selector(topology)
                found |= np.fromiter((inside(n.object.labels) for n in nodes), dtype=bool, count=len(nodes))
        return found

    def _has_room(self, task: Task, node: Node, *, leaving: bool) -> bool:
        """Whether volumes that are to be made fit beside those of others, be it of ``leaving`` ones too."""
        for name, wanted in (self._to_make(task) if self._reserves else {}).items():
            if not any(
                quantity.whole(each.get("capacity") or "0")
                >= wanted + self._promised(name, each, task, leaving=leaving)
                for each in self._objects[Kind.CSI_STORAGE_CAPACITY].values()
                if each.get("storageClassName") == name
                and selects(each.get("nodeTopology"), node.object.labels)
            ):
                return False
        return True

    def _promised(self, name: str, capacity: Object, task: Task, *, leaving: bool) -> int:
        """Bytes that other pods already placed where the capacity is will take from it."""
        inside = label_selector(capacity.get("nodeTopology"))
        return sum(
            self._to_make(other).get(name, 0)
            for node in self._handle.nodes.nodes
            if inside(node.object.labels)
            for other in others_on(node, task, leaving=leaving)
            if other.cls.constraints.volume_claims
        )

    def _to_make(self, task: Task) -> dict[str, int]:
        """Bytes by storage class of claims not bound yet, where the driver tells its capacity."""
        found: dict[str, int] = {}
        for _, claim in self._claims(task):
            if claim is None or (claim.get("spec") or {}).get("volumeName"):
                continue
            storage = self._class_of(claim) or {}
            driver = self._objects[Kind.CSI_DRIVER].get(str(storage.get("provisioner"))) or {}
            if (driver.get("spec") or {}).get("storageCapacity"):
                name = str((storage.get("metadata") or {}).get("name"))
                wanted = storage_bytes(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
                found[name] = found.get(name, 0) + wanted
        return found

    # --- limits ----------------------------------------------------------------------------------
    def _has_slots(self, task: Task, node: Node, *, leaving: bool) -> bool:
        """Whether the node can attach the volumes beside those of others, be it of ``leaving`` ones too."""
        limits = self._limits(node)
        if not limits:
            return True
        used: dict[str, set[str]] = {}
        for other in others_on(node, task, leaving=leaving):
            if other.cls.constraints.volume_claims:
                for driver, volumes in self._volumes(other).items():
                    used.setdefault(driver, set()).update(volumes)
        return all(
            driver not in limits or len(used.get(driver, set()) | volumes) <= limits[driver]
            for driver, volumes in self._volumes(task).items()
        )

    def _limits(self, node: Node) -> dict[str, int]:
        csi_node = self._objects[Kind.CSI_NODE].get(node.name)
        drivers = ((csi_node or {}).get("spec") or {}).get("drivers") or ()
        return {
            each["name"]: int(each["allocatable"]["count"])
            for each in drivers
            if (each.get("allocatable") or {}).get("count") is not None
        }

    def _volumes(self, task: Task) -> dict[str, set[str]]:
        """Volumes of a pod by driver; a claim that is not bound counts by its own name."""
        found: dict[str, set[str]] = {}
        for name, claim in self._claims(task):
            if claim is None:
                continue
            bound = (claim.get("spec") or {}).get("volumeName", "")
            volume = self._objects[Kind.PERSISTENT_VOLUME].get(bound) or {}
            driver = ((volume.get("spec") or {}).get("csi") or {}).get("driver")
            if not bound:
                driver = (self._class_of(claim) or {}).get("provisioner")
            if driver:
                found.setdefault(driver, set()).add(bound or f"{task.namespace}/{name}")
        return found
