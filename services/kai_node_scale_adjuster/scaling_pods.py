"""The pod that asks for whole GPUs in place of one that asks for parts.

No scheduler places it: a cluster autoscaler goes by its condition alone, and of a GPU that was just freed it
would take what our scheduler gives somebody else at that moment, whom the node then refuses for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kai.model import names
from kai.model.objects import Json, PullPolicy, ResourceList
from kai.model.requests import pod_requests
from kai.model.resource_lists import amounts, rendered
from kai_node_scale_adjuster.objects import WaitingPod, label_value

CONTAINER: Final = "scaling-pod"
#: What it runs should somebody place it all the same; another image may do as it likes with it.
PROGRAM: Final = ("python", "-m", "kai_scaling_pod")
#: Requests that may be below their limits; of everything else both have to be the same.
_ELASTIC: Final = ("cpu", "memory", "ephemeral-storage")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
#: Of a term: labels of the pod that says it.
_KEYS: Final = ("matchLabelKeys", "mismatchLabelKeys")
_SECURITY: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
#: Which user that is, the image says, or a cluster that gives out user ids and takes no others.
_POD_SECURITY: Final[dict[str, Any]] = {
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingTemplate:
    """What all scaling pods have in common."""

    namespace: str = names.SCALE_ADJUST_NAMESPACE
    image: str = ""
    image_pull_policy: PullPolicy = "IfNotPresent"
    app_label: str = names.SCALING_POD_APP
    service_account: str = "scaling-pod"

    def manifest(self, waiting: WaitingPod, name: str) -> dict[str, Any]:
        """The pod that fits where ``waiting`` fits, apart from that it takes whole devices."""
        meta, spec = waiting.pod.metadata, waiting.pod.spec
        copied = {
            "affinity": _affinity(spec.affinity, meta.namespace),
            "tolerations": msgspec.to_builtins(spec.tolerations) if spec.tolerations else None,
            "nodeSelector": spec.node_selector,
        }
        return {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {
                    names.APP_LABEL: self.app_label,
                    names.SHARED_GPU_POD_NAME: label_value(meta.name),
                    names.SHARED_GPU_POD_NAMESPACE: meta.namespace,
                },
                "annotations": {names.SCALING_FOR: f"{waiting.uid} {waiting.key}"},
            },
            "spec": {
                **{key: value for key, value in copied.items() if value},
                "schedulerName": names.SCALING_POD_SCHEDULER,
                "restartPolicy": "OnFailure",
                "serviceAccountName": self.service_account,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": _POD_SECURITY,
                "containers": [self._container(waiting)],
            },
        }

    def _container(self, waiting: WaitingPod) -> dict[str, Any]:
        return {
            "name": CONTAINER,
            "image": self.image,
            "imagePullPolicy": self.image_pull_policy,
            "args": list(PROGRAM),
            "resources": _resources(waiting),
            "securityContext": _SECURITY,
        }


def _affinity(affinity: Json | None, namespace: str) -> Json:
    """The same affinity, said by another pod from another namespace.

    What names no namespace means the pod's own. Keys to match stand for labels of who says it; the API server
    has put those into the selectors already, and would again where both pods have such a label.
    """
    said = dict(affinity or {})
    for kind in ("podAffinity", "podAntiAffinity"):
        if not isinstance(said.get(kind), dict):
            continue
        terms = said[kind] = dict(said[kind])
        if required := terms.get(_REQUIRED):
            terms[_REQUIRED] = [_of_namespace(term, namespace) for term in required]
        if preferred := terms.get(_PREFERRED):
            terms[_PREFERRED] = [
                {**each, "podAffinityTerm": _of_namespace(each.get("podAffinityTerm") or {}, namespace)}
                for each in preferred
            ]
    return said


def _of_namespace(term: Json, namespace: str) -> Json:
    said = {key: value for key, value in term.items() if key not in _KEYS}
    if not said.get("namespaces") and said.get("namespaceSelector") is None:
        said["namespaces"] = [namespace]
    return said


def _resources(waiting: WaitingPod) -> dict[str, ResourceList]:
    """Whole devices, and all else that the pod asks its node for."""
    asked = pod_requests(waiting.pod, amounts)
    requests = rendered({key: amount for key, amount in sorted(asked.items()) if amount})
    requests[names.NVIDIA_GPU] = str(waiting.share.devices)
    return {
        "requests": requests,
        "limits": {key: text for key, text in requests.items() if key not in _ELASTIC},
    }
