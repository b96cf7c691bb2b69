"""Where the pods of a component go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kai.operands.manifests import Manifest, without_empty
from kai.operands.spec.everywhere import GlobalSpec

_APART: Final = "podAntiAffinity"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_WEIGHT: Final = 100


def affinity(app: str, own: Mapping[str, Any], everywhere: GlobalSpec, *, replicas: int) -> Manifest:
    """Each section of a component's own, else of all; if nobody says where replicas go, they are spread."""
    merged = {**everywhere.affinity, **own}
    return merged if _APART in merged else {**merged, _APART: _spread(app, everywhere, replicas)}


def must_be_apart(affinity: Mapping[str, Any]) -> bool:
    """Whether nodes with some other pod are out of question, be it one of its own."""
    return bool((affinity.get(_APART) or {}).get(_REQUIRED))


def _spread(app: str, everywhere: GlobalSpec, replicas: int) -> Manifest:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    spread: Manifest = {_PREFERRED: [{"weight": _WEIGHT, "podAffinityTerm": term}]}
    # A single one has nobody to be apart from but its successor, before which it would have to end.
    if everywhere.require_default_pod_anti_affinity_term and replicas > 1:
        spread[_REQUIRED] = [term]
    return spread


def of_deployment(everywhere: GlobalSpec) -> Manifest:
    """Fields of a pod's spec that are the same in all Deployments, and those of a Prometheus of that name."""
    return without_empty(
        nodeSelector=dict(everywhere.node_selector),
        tolerations=list(everywhere.tolerations),
        priorityClassName=everywhere.priority_class_name,
        imagePullSecrets=pull_secrets(everywhere),
    )


def pull_secrets(everywhere: GlobalSpec) -> list[Manifest]:
    """The secrets by which images are pulled."""
    return [{"name": name} for name in everywhere.pull_secrets]
