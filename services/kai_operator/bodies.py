"""What is sent to the API server for an object, and what of its answer counts.

An object is replaced as a whole, so that also what somebody added by hand disappears, which a patch would
leave. What the API server fills in by itself comes back with its answer, and is no difference from then on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kai_operator.kinds import MANAGED_BY, OPERATOR, Manifest

#: On pod templates: ``kubectl rollout restart``, which is not to be undone.
RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"
#: On webhook configurations: keys by which we select namespaces ourselves. The others are somebody else's.
SELECTED_KEYS: Final = "kai.scheduler/selected-by"
#: On a Prometheus: since when it is not asked for any more. The original writes and reads the same.
RETIRED: Final = "kai/deprecation-timestamp"
#: Of an earlier release, or of an earlier time. Not helm.sh/resource-policy: helm may be about to look
#: whether it has to delete.
_FORMER: Final = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace", RETIRED)
_HELM_LABELS: Final = ("helm.sh/chart",)
#: Given once by the cluster, and not to be changed.
_ASSIGNED: Final[Mapping[str, tuple[str, ...]]] = {
    "Service": ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"),
    "PersistentVolumeClaim": ("volumeName", "volumeMode", "storageClassName", "dataSource", "dataSourceRef"),
}
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


def prepared(wanted: Manifest, owner: dict[str, Any]) -> Manifest:
    """A manifest as it is to be in the cluster: with its owner, and whose operator keeps it."""
    meta = dict(wanted["metadata"])
    meta["labels"] = (meta.get("labels") or {}) | {MANAGED_BY: OPERATOR}
    meta["ownerReferences"] = [owner]
    if "webhooks" in wanted:
        meta["annotations"] = (meta.get("annotations") or {}) | {SELECTED_KEYS: _selected(wanted)}
    return {**wanted, "metadata": meta}


def digest(manifest: Manifest) -> bytes:
    """The same for equal manifests."""
    return hashlib.sha256(_ENCODER.encode(manifest)).digest()


def body(wanted: Manifest, live: Manifest) -> Manifest:
    """What replaces ``live``: what is wanted, with what others say of it that is theirs to say.

    Theirs are labels and annotations under other keys, what the cluster has assigned, the restart of pods;
    and of webhooks how long to wait, and which namespaces are spared.
    """
    meta, known = wanted["metadata"], live["metadata"]
    merged = {
        **wanted,
        "metadata": {
            **meta,
            "labels": _kept(known.get("labels"), _HELM_LABELS) | (meta.get("labels") or {}),
            "annotations": _kept(known.get("annotations"), _FORMER) | (meta.get("annotations") or {}),
            "resourceVersion": known["resourceVersion"],
            "uid": known["uid"],
        },
    }
    if finalizers := known.get("finalizers"):
        merged["metadata"]["finalizers"] = finalizers
    kind = wanted["kind"]
    if kind in _ASSIGNED:
        merged["spec"] = _with_assigned(wanted["spec"], live.get("spec") or {}, _ASSIGNED[kind])
    elif kind in ("Deployment", "DaemonSet"):
        merged["spec"] = _with_restart(wanted["spec"], live)
    elif kind == "Secret" and "type" in live:
        # Nobody can change it; what is in it is used by its keys.
        merged["type"] = live["type"]
    elif kind == "ServiceAccount":
        merged |= _with_pull_secrets(wanted, live)
    elif "webhooks" in wanted:
        merged["webhooks"] = _with_choices(wanted["webhooks"], live)
    if "status" in live:
        merged["status"] = live["status"]
    return merged


def form(live: Manifest, wanted: Manifest) -> Manifest:
    """What of an object is ours to decide, as it is now: two that are equal need no write."""
    meta, own = live["metadata"], wanted["metadata"]
    kept = {key: value for key, value in live.items() if key not in ("metadata", "status")}
    return kept | {
        "metadata": {
            "labels": _of(meta.get("labels"), own.get("labels")),
            "annotations": _of(meta.get("annotations"), own.get("annotations")),
            "former": [key for key in _FORMER if key in (meta.get("annotations") or {})],
            "ownerReferences": meta.get("ownerReferences") or [],
        }
    }


def _of(found: Mapping[str, str] | None, wanted: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (found or {}).items() if key in (wanted or {})}


def _kept(found: Mapping[str, str] | None, dropped: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in (found or {}).items() if key not in dropped}


def _with_assigned(spec: Manifest, live: Manifest, fields: tuple[str, ...]) -> Manifest:
    merged = {**{field: live[field] for field in fields if field in live}, **spec}
    if "ports" in spec and "ports" in live:
        merged["ports"] = _with_node_ports(spec["ports"], live["ports"])
    return merged


def _with_node_ports(ports: list[Manifest], live: list[Manifest]) -> list[Manifest]:
    known = {port.get("name", ""): port["nodePort"] for port in live if "nodePort" in port}
    return [
        {"nodePort": known[name], **port} if (name := port.get("name", "")) in known else port
        for port in ports
    ]


def _with_restart(spec: Manifest, live: Manifest) -> Manifest:
    found = live["spec"]["template"]["metadata"].get("annotations") or {}
    if RESTARTED not in found:
        return spec
    template = spec["template"]
    meta = template.get("metadata") or {}
    annotations = {RESTARTED: found[RESTARTED]} | (meta.get("annotations") or {})
    return {**spec, "template": {**template, "metadata": {**meta, "annotations": annotations}}}


def _with_pull_secrets(wanted: Manifest, live: Manifest) -> dict[str, Any]:
    """Some clusters add Secrets to every account."""
    merged: dict[str, Any] = {}
    if "secrets" in live:
        merged["secrets"] = live["secrets"]
    own = wanted.get("imagePullSecrets") or []
    added = [entry for entry in live.get("imagePullSecrets") or () if entry not in own]
    if added := [entry for entry in added if "-dockercfg-" in entry.get("name", "")]:
        merged["imagePullSecrets"] = [*own, *added]
    return merged


def _with_choices(webhooks: list[Manifest], live: Manifest) -> list[Manifest]:
    """Clouds add namespaces that webhooks must spare; administrators say how long to wait."""
    ours = ((live["metadata"].get("annotations") or {}).get(SELECTED_KEYS) or "").split(",")
    known = {webhook["name"]: webhook for webhook in live.get("webhooks") or ()}
    return [
        _with_choice(webhook, known[webhook["name"]], ours) if webhook["name"] in known else webhook
        for webhook in webhooks
    ]


def _with_choice(webhook: Manifest, live: Manifest, ours: list[str]) -> Manifest:
    chosen: Manifest = {key: live[key] for key in ("timeoutSeconds", "matchPolicy") if key in live}
    merged = {**chosen, **webhook}
    own = webhook.get("namespaceSelector") or {}
    expressions = own.get("matchExpressions") or []
    keys = {*ours, *(entry["key"] for entry in expressions)}
    found = (live.get("namespaceSelector") or {}).get("matchExpressions") or ()
    if added := [entry for entry in found if entry["key"] not in keys]:
        merged["namespaceSelector"] = {**own, "matchExpressions": [*expressions, *added]}
    return merged


def _selected(configuration: Manifest) -> str:
    selectors = [webhook.get("namespaceSelector") or {} for webhook in configuration["webhooks"]]
    keys = {entry["key"] for selector in selectors for entry in selector.get("matchExpressions") or ()}
    return ",".join(sorted(keys))
