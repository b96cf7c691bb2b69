"""Binding one pod: prepare what it needs, bind it, tell of it. Every step may be done twice.

An ordinary pod costs one request (the bind, which carries its annotations) and one event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from kai.kube import errors
from kai.kube.client import KubeClient, PatchKind
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.ranks import Rank
from kai.kube.resources import NODES, PODS
from kai.kube.store import Store
from kai.model import condition_texts, names
from kai.model.claims import Grant
from kai.model.decisions import BindDecision, PodRef, ResourceType
from kai.model.objects import Node, Pod
from kai.model.rules.gpu_groups import is_gpu_group_label
from kai.model.rules.gpu_shares import GPU_CENTI
from kai.model.rules.taints import REPELLING, untolerated
from kai_binder.errors import BindError, BindFailed, GivenUp, Refused, Rejected
from kai_binder.objects import WatchedPod
from kai_binder.reservations import Reservations, group_labels
from kai_binder.work import BindPlugin, Work

_ATTEMPTS: Final = 3
_RETRY_SECONDS: Final = 0.5

_log = structlog.get_logger(__name__)


class PodBinder:
    """Does what a decision says. ``pods`` follows the pods of our scheduler."""

    def __init__(
        self,
        client: KubeClient,
        *,
        pods: Store[WatchedPod],
        reservations: Reservations,
        plugins: tuple[BindPlugin, ...],
        events: EventRecorder,
        node_pool_label: str,
        sync_soon: Callable[[str], None],
        tell_bound: bool = False,
    ) -> None:
        self._client = client
        self._pods = pods
        self._reservations = reservations
        self._plugins = plugins
        self._events = events
        self._node_pool_label = node_pool_label
        self._sync_soon = sync_soon
        self._tells_bound = tell_bound

    # --- preparing -----------------------------------------------------------------------------
    def is_ordinary(self, decision: BindDecision) -> bool:
        """Whether the bind itself is all there is to do, as far as the watch has told."""
        pod = self._watched(decision)
        return (
            pod is not None
            and not pod.has_claims
            and decision.resource_type is not ResourceType.FRACTION
            and not decision.claim_allocations
            and decision.extended_claim is None
        )

    async def prepare(self, decision: BindDecision) -> Work | None:
        """Everything short of the bind; None if nothing is to be done, or the pod is bound there already.

        Raises:
            BindError: it cannot be. What was done so far is left for :meth:`undo`.
        """
        if self.is_ordinary(decision):
            return None
        try:
            pod = await self._labelled(decision) or await self._read(decision)
            if pod.spec.node_name:
                return None
            work = Work(decision, pod)
            if work.fraction:
                await self._reserve(work)
            for plugin in self._plugins:
                if plugin.concerns(work):
                    await plugin.pre_bind(work)
        except errors.KubeError as error:
            raise _as_failure(error, decision) from error
        return work

    async def check(self, decision: BindDecision, work: Work | None) -> None:
        """That what was decided a while ago can still be: the node takes the pod, and holds its devices.

        ``work`` is what preparing gave.

        Raises:
            BindError: it cannot.
        """
        try:
            await self._check_open(decision)
            if work is not None and work.fraction:
                await self._check_held(work)
        except errors.KubeError as error:
            raise _as_failure(error, decision) from error

    async def _check_open(self, decision: BindDecision) -> None:
        node = await self._client.get(NODES, decision.node, type=Node)
        taints = [taint for taint in node.spec.taints or () if taint.effect in REPELLING]
        if not node.spec.unschedulable and not taints:
            return
        pod = await self._read(decision)
        if pod.spec.node_name:
            return
        if node.spec.unschedulable:
            raise BindFailed(f"node {decision.node} was cordoned while pod {pod.key} was prepared for it")
        if taint := untolerated(taints, pod.spec.tolerations or ()):
            raise BindFailed(
                f"node {decision.node} was given the taint {taint.key}:{taint.effect} while pod {pod.key} "
                "was prepared for it, which does not tolerate that"
            )

    async def _check_held(self, work: Work) -> None:
        decision = work.decision
        groups = dict(zip(decision.gpu_groups, work.devices, strict=True))
        for group, device in groups.items():
            grant = _grant(decision, len(groups))
            if (
                await self._reservations.renew(work.pod, node=decision.node, group=group, grant=grant)
                != device
            ):
                raise BindFailed(
                    f"device {device} of node {decision.node} is not held for pod {work.pod.key} any more: "
                    f"the reservation pod of GPU group {group} ended while the pod was prepared"
                )

    async def undo(self, decision: BindDecision) -> str:
        """Take back what preparing has done, or may have. A pod that is bound by now is left alone.

        The node that it is bound to, as was decided or not: that could have been made out no sooner. Empty if
        it is not bound.
        """
        try:
            pod = await self._read(decision)
            if pod.spec.node_name == decision.node:
                self._tell_bound(decision)
            if pod.spec.node_name:
                return pod.spec.node_name
            work = Work(decision, pod)
            for plugin in reversed(self._plugins):
                if plugin.concerns(work):
                    await plugin.rollback(work)
            if work.fraction:
                await self._release(work)
        except Rejected:
            self._sync_soon(decision.node)
        except (BindError, errors.KubeError) as error:
            # What is left runs out (claims), belongs to the pod (ConfigMaps), or is written anew (labels).
            _log.warning("bind not undone", pod=_key(decision), node=decision.node, reason=str(error))
        return ""

    async def _labelled(self, decision: BindDecision) -> Pod | None:
        """The decision's pod with its GPU groups on it, for which it need not be read.

        Only if it is as the watch has told, and not bound; None if it may be otherwise, or needs no label.
        """
        known = self._watched(decision)
        if known is None or known.spec.node_name or known.metadata.deletion_timestamp:
            return None
        shares = decision.resource_type is ResourceType.FRACTION and decision.gpu_groups
        changes = group_labels(decision.gpu_groups, known.labels) if shares else {}
        if not changes:
            return None
        meta = known.metadata
        only_so = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        try:
            labelled: Pod = await self._client.patch(
                PODS,
                meta.name,
                {"metadata": {**only_so, "labels": changes}},
                namespace=meta.namespace,
                type=Pod,
            )
        except (errors.NotFound, errors.Conflict, errors.Invalid):
            return None
        return labelled

    async def _reserve(self, work: Work) -> None:
        decision = work.decision
        if not decision.gpu_groups:
            raise BindFailed(f"the decision for pod {work.pod.key} names no GPU group")
        groups = sorted(set(decision.gpu_groups))
        devices = []
        for group in groups:
            device = await self._reservations.reserve(
                work.pod, node=decision.node, group=group, grant=_grant(decision, len(groups))
            )
            devices.append((group, device))
        by_group = dict(devices)
        work.devices = tuple(by_group[group] for group in decision.gpu_groups)
        await self._label(work.pod, group_labels(decision.gpu_groups, work.pod.labels))

    async def _release(self, work: Work) -> None:
        decision = work.decision
        await self._label(work.pod, dict.fromkeys(_group_keys(work.pod)))
        for group in decision.gpu_groups:
            await self._reservations.release_claim(work.pod, node=decision.node, group=group)
        self._sync_soon(decision.node)

    async def _label(self, pod: Pod, labels: dict[str, str | None]) -> None:
        if labels:
            meta = pod.metadata
            patch = {"metadata": {"uid": meta.uid, "labels": labels}}
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)

    # --- binding -------------------------------------------------------------------------------
    async def bind(self, decision: BindDecision) -> None:
        """The bind itself. Once this has begun its outcome is found out, whatever happens.

        Raises:
            BindError: the pod is not bound to that node.
        """
        try:
            await self._bind(decision)
        except errors.KubeError as error:
            raise _as_failure(error, decision) from error
        self._tell_bound(decision)

    async def _bind(self, decision: BindDecision) -> None:
        pod = decision.pod
        binding: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "annotations": _annotations(decision, self._watched(decision)),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
        }
        last: errors.KubeError | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_RETRY_SECONDS * attempt)
            try:
                await self._client.create_subresource(
                    PODS, pod.name, "binding", binding, namespace=pod.namespace
                )
            except errors.NotFound as error:
                raise Rejected(f"pod {_key(decision)} or its namespace is gone: {error}") from error
            except (
                errors.Conflict,
                errors.AlreadyExists,
                errors.TransportError,
                errors.ServerError,
            ) as error:
                # Bound already, another pod of that name, or an answer that was lost: look.
                last = error
                if await self._is_bound(decision):
                    return
            else:
                return
        assert last is not None
        raise last

    async def _is_bound(self, decision: BindDecision) -> bool:
        pod = await self._read(decision)
        if pod.spec.node_name and pod.spec.node_name != decision.node:
            raise BindFailed(f"pod {pod.key} is bound to node {pod.spec.node_name}, not {decision.node}")
        return bool(pod.spec.node_name)

    async def _read(self, decision: BindDecision) -> Pod:
        """The decision's pod as it is now.

        Raises:
            Rejected: it is gone, going, or another one by now.
        """
        ref = decision.pod
        try:
            pod = await self._client.get(PODS, ref.name, namespace=ref.namespace, type=Pod)
        except errors.NotFound:
            raise Rejected(f"pod {_key(decision)} is gone") from None
        if pod.metadata.uid != ref.uid:
            raise Rejected(f"pod {_key(decision)} is another one of the same name (uid {pod.metadata.uid})")
        if pod.metadata.deletion_timestamp and not pod.spec.node_name:
            raise Rejected(f"pod {_key(decision)} is being deleted")
        return pod

    def _watched(self, decision: BindDecision) -> WatchedPod | None:
        pod = self._pods.get(_key(decision))
        return pod if pod is not None and pod.metadata.uid == decision.pod.uid else None

    # --- telling -------------------------------------------------------------------------------
    def _tell_bound(self, decision: BindDecision) -> None:
        where = f"node {decision.node} at node-pool {decision.node_pool or 'default'}"
        text = f"Successfully assigned pod {_key(decision)} to {where}"
        self._events.emit(_reference(decision.pod), "Normal", "Scheduled", text)

    async def after_bind(self, decision: BindDecision, *, rank: Rank) -> None:
        """What can wait until the result has been told: marks of the pod, each a write of this rank."""
        pod = self._watched(decision)
        if pod is None:
            return
        try:
            if decision.node_pool and pod.labels.get(self._node_pool_label) != decision.node_pool:
                patch = {
                    "metadata": {
                        "uid": decision.pod.uid,
                        "labels": {self._node_pool_label: decision.node_pool},
                    }
                }
                await self._client.patch(
                    PODS, decision.pod.name, patch, namespace=decision.pod.namespace, rank=rank
                )
            if self._tells_bound or _failed_before(pod):
                await self._tell_of_success(decision, rank)
        except errors.KubeError as error:
            _log.info("pod bound, but not marked", pod=_key(decision), reason=str(error))

    async def _tell_of_success(self, decision: BindDecision, rank: Rank) -> None:
        """The condition, and where it is wanted the event, in the words of the original."""
        text = f"Pod bound successfully to node {decision.node}"
        if self._tells_bound:
            self._events.emit(_reference(decision.pod), "Normal", "Bound", text, action="Binding")
        await self._set_condition(decision, "True", "Bound", text, rank=rank)

    async def tell_failed(self, decision: BindDecision, reason: str) -> None:
        """A failure as an event and a condition of the pod."""
        self._events.emit(_reference(decision.pod), "Warning", "BindingError", reason)
        try:
            await self._set_condition(decision, "False", "BindingError", reason)
        except errors.KubeError as error:
            _log.info("failure not written to pod", pod=_key(decision), reason=str(error))

    async def _set_condition(
        self,
        decision: BindDecision,
        status: str,
        reason: str,
        message: str,
        *,
        rank: Rank = Rank.STATUS,
    ) -> None:
        condition = {
            "type": names.POD_BOUND,
            "status": status,
            "reason": reason,
            "message": condition_texts.bounded(message),
        }
        await self._client.patch(
            PODS,
            decision.pod.name,
            {"metadata": {"uid": decision.pod.uid}, "status": {"conditions": [condition]}},
            namespace=decision.pod.namespace,
            subresource="status",
            kind=PatchKind.STRATEGIC,
            rank=rank,
        )


def _annotations(decision: BindDecision, known: WatchedPod | None) -> dict[str, str]:
    """What the pod has to say once it is bound; its group only if it does not say so already.

    Policies of a release in which pods were all annotated before do not let a Binding say it.
    """
    found = {names.RECEIVED_RESOURCE_TYPE: decision.resource_type.annotation}
    group = decision.pod.pod_group.partition("/")[2]
    said = "" if known is None else known.annotations.get(names.POD_GROUP_ANNOTATION, "")
    if group and said != group:
        found[names.POD_GROUP_ANNOTATION] = group
    if decision.numa_zones:
        found[names.NUMA_PREDICTED] = msgspec.json.encode(decision.numa_zones).decode()
    return found


def _grant(decision: BindDecision, devices: int) -> Grant:
    """What the scheduler decided to give, which the pod's annotations may not say any more."""
    if decision.gpu_memory_mib:
        return Grant(devices, memory_mib=decision.gpu_memory_mib)
    return Grant(devices, portion_centi=round(decision.gpu_portion * GPU_CENTI))


def _failed_before(pod: WatchedPod) -> bool:
    """Whether it says that a bind of it failed."""
    return any(c.type == names.POD_BOUND and c.status == "False" for c in pod.status.conditions or ())


def _group_keys(pod: Pod) -> list[str]:
    return list(filter(is_gpu_group_label, pod.labels))


def _as_failure(error: errors.KubeError, decision: BindDecision) -> BindError:
    if isinstance(error, errors.Unauthorized):
        raise error
    if isinstance(error, errors.Forbidden):
        if errors.is_of_terminating(decision.pod.namespace, error):
            return GivenUp(f"the namespace of pod {_key(decision)} is being deleted")
        return Refused(str(error))
    return BindFailed(str(error))


def _reference(pod: PodRef) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _key(decision: BindDecision) -> str:
    return f"{decision.pod.namespace}/{decision.pod.name}"
