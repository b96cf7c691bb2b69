"""What the server decides about an object on its own: its birth, its parts, the way it goes."""

import random
import uuid
from typing import Final

from kai.model.rules.device_claims import device_of
from kai.model.rules.phases import has_ended
from kai_local.apiserver import errors
from kai_local.apiserver.calls.requests import DeleteOptions, Target
from kai_local.apiserver.clock import Clock, seconds_of
from kai_local.apiserver.errors import Obj
from kai_local.apiserver.kinds.catalogue import Resource

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
#: The subresource of pods by which containers are added to one that runs.
EPHEMERAL: Final = "ephemeralcontainers"
_CLAIMS: Final = ("resource.k8s.io", "resourceclaims")
_NAMESPACES: Final = ("", "namespaces")
#: What holds a namespace until its contents are gone.
_CONTENTS: Final = "kubernetes"
_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_OWNED: Final = (
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
    "managedFields",
)
#: created with the status that their creator gives them
_KEEPS_STATUS: Final = frozenset({"Node", "CSINode", "APIService"})

_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def place(target: Target, metadata: Obj) -> None:
    """Put a new object where the request says. Raises ApiFailure (400) when it says otherwise itself."""
    namespace = metadata.get("namespace", "")
    if not target.resource.namespaced:
        metadata.pop("namespace", None)
    elif namespace and namespace != target.namespace:
        raise errors.bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request"
            f" ({namespace} against {target.namespace})"
        )
    else:
        metadata["namespace"] = target.namespace


def give_birth(resource: Resource, obj: Obj, clock: Clock) -> None:
    """What only the server writes into a new object."""
    metadata = obj["metadata"]
    for key in _SERVER_OWNED:
        metadata.pop(key, None)
    if not metadata.get("name") and metadata.get("generateName"):
        suffix = "".join(random.choices(_SUFFIX_ALPHABET, k=5))  # noqa: S311
        metadata["name"] = metadata["generateName"][:58] + suffix
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = clock.stamp()
    if resource.generation or resource.custom:
        metadata["generation"] = 1
    if resource.has_status and resource.kind not in _KEEPS_STATUS:
        obj.pop("status", None)
    if resource.key == _NAMESPACES and _CONTENTS not in (finalizers := obj["spec"]["finalizers"]):
        obj["spec"]["finalizers"] = [*finalizers, _CONTENTS]
    if resource.key == ("", "pods") and obj["spec"].get("schedulingGates"):
        obj["status"] = {"conditions": [_GATED | {"lastTransitionTime": clock.stamp()}]}


def restrict(resource: Resource, subresource: str, new: Obj, old: Obj) -> Obj:
    """The main resource does not write the status, a subresource nothing but its part."""
    if subresource == "status":
        if resource.custom:
            status = {"status": new["status"]} if "status" in new else {}
            return {**{key: value for key, value in old.items() if key != "status"}, **status}
        kept = {**new}
        if "spec" in old:
            kept["spec"] = old["spec"]
        if resource.key == _CLAIMS and "status" in kept:
            kept["status"] = _without_given_back(kept["status"] or {}, old.get("status") or {})
        return kept
    if subresource == EPHEMERAL:
        return {**old, "metadata": {**new["metadata"]}, "spec": with_ephemeral(old["spec"], new["spec"])}
    if resource.has_status and not subresource:
        kept = {**new}
        kept.pop("status", None)
        if "status" in old:
            kept["status"] = old["status"]
        if resource.key == _NAMESPACES and "spec" in old:
            kept["spec"] = old["spec"]  # its finalizers, which it loses by a subresource of their own
        return kept
    return new


def _without_given_back(status: Obj, before: Obj) -> Obj:
    """The status of a resource claim without what was told of devices that it has no more."""
    gone = _allocated(before) - _allocated(status)
    told = [each for each in status.get("devices") or () if device_of(each) not in gone]
    bare = {key: value for key, value in status.items() if key != "devices"}
    return {**bare, "devices": told} if told else bare


def _allocated(status: Obj) -> set[tuple[str, str, str]]:
    devices = (status.get("allocation") or {}).get("devices") or {}
    return set(map(device_of, devices.get("results") or ()))


def with_ephemeral(spec: Obj, other: Obj) -> Obj:
    """The spec of a pod with the ephemeral containers of another."""
    kept = {key: value for key, value in spec.items() if key != "ephemeralContainers"}
    if other.get("ephemeralContainers"):
        kept["ephemeralContainers"] = other["ephemeralContainers"]
    return kept


def spec_changed(new: Obj, old: Obj) -> bool:
    """Whether anything differs but metadata and status."""
    ignored = ("metadata", "status", "apiVersion", "kind")
    return any(new.get(key) != old.get(key) for key in new.keys() | old.keys() if key not in ignored)


def going(resource: Resource, obj: Obj, options: DeleteOptions, clock: Clock) -> Obj:
    """The object once this deletion has begun; the object itself when the deletion changes nothing."""
    if resource.key == ("", "pods"):
        return _pod_going(resource, obj, options, clock)
    metadata = obj["metadata"]
    finalizers = _deletion_finalizers(resource, metadata, options.propagation)
    held = bool(finalizers) or (resource.kind == "Namespace" and bool(obj["spec"].get("finalizers")))
    marked = _marked(metadata, 0, clock) if held and "deletionTimestamp" not in metadata else metadata
    marked = _with_finalizers(marked, finalizers)
    if resource.kind == "Namespace":
        marked.pop("deletionGracePeriodSeconds", None)
    return obj if marked == metadata else {**obj, "metadata": marked}


def _pod_going(resource: Resource, pod: Obj, options: DeleteOptions, clock: Clock) -> Obj:
    """Pods have time to end. A later deletion can only shorten it."""
    metadata, asked = pod["metadata"], options.grace_seconds
    if asked is not None and asked < 0:
        asked = 1
    if "deletionTimestamp" in metadata:
        left = metadata.get("deletionGracePeriodSeconds", 0)
        if asked is None or asked >= left:
            return pod
        end = clock.text(seconds_of(metadata["deletionTimestamp"]) - left + asked)
        shorter = {"deletionTimestamp": end, "deletionGracePeriodSeconds": asked}
        return {**pod, "metadata": {**metadata, **shorter}}
    marked = _marked(metadata, _grace_seconds(pod, asked), clock)
    finalizers = _deletion_finalizers(resource, metadata, options.propagation)
    return {**pod, "metadata": _with_finalizers(marked, finalizers)}


def _grace_seconds(pod: Obj, asked: int | None) -> int:
    """Seconds that a pod may still live: only one that a node has taken does."""
    spec = pod["spec"]
    if not spec.get("nodeName") or has_ended(pod.get("status", {}).get("phase", "")):
        return 0
    return int(asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30))


def _marked(metadata: Obj, grace: int, clock: Clock) -> Obj:
    """The metadata of an object whose deletion begins now."""
    marked = {**metadata, "deletionTimestamp": clock.stamp(grace), "deletionGracePeriodSeconds": grace}
    if "generation" in marked:
        marked["generation"] += 1
    return marked


def _with_finalizers(metadata: Obj, finalizers: list[str]) -> Obj:
    bare = {key: value for key, value in metadata.items() if key != "finalizers"}
    return {**bare, "finalizers": finalizers} if finalizers else bare


def is_held(resource: Resource, obj: Obj) -> bool:
    """Whether something besides finalizers still holds an object that is going."""
    if resource.kind == "Namespace":
        return bool(obj.get("spec", {}).get("finalizers"))
    return bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _deletion_finalizers(resource: Resource, metadata: Obj, propagation: str | None) -> list[str]:
    """The finalizers of an object once its deletion with this policy begins."""
    if propagation is None and resource.orphan_by_default:
        propagation = "Orphan"
    finalizers = [
        item
        for item in metadata.get("finalizers") or ()
        if propagation is None or item not in (FOREGROUND, ORPHAN)
    ]
    if propagation == "Foreground":
        finalizers.append(FOREGROUND)
    elif propagation == "Orphan":
        finalizers.append(ORPHAN)
    return finalizers
