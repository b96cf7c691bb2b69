"""Which specification is in force, for processes that come later: a ConfigMap beside what it says.

Without it a new process that finds a Config which cannot be used would not know what to heal.
"""

from __future__ import annotations

import json
from typing import Final

from kai.kube.resources import CONFIG_MAPS, CONFIGS
from kai.model import names
from kai_operator.cache import Cache
from kai_operator.kinds import Manifest, Ref
from kai_operator.ownership import controller_of

_KEY: Final = "spec.json"


def remembered(manifest: Manifest, *, namespace: str) -> Manifest:
    """The ConfigMap that says what this Config or shard says."""
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": _name(manifest),
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": names.SCHEDULER_NAME},
        },
        "data": {_KEY: json.dumps(manifest.get("spec") or {}, sort_keys=True)},
    }


def recalled(manifest: Manifest, cache: Cache, *, namespace: str) -> Manifest | None:
    """This Config or shard as it was when it could be used; None where nobody knows."""
    found = cache.get(Ref(CONFIG_MAPS.kind, namespace, _name(manifest)))
    if found is None or (controller_of(found) or {}).get("uid") != manifest["metadata"]["uid"]:
        return None
    try:
        spec = json.loads((found.get("data") or {}).get(_KEY, ""))
    except ValueError:
        return None
    return {**manifest, "spec": spec} if isinstance(spec, dict) else None


def _name(manifest: Manifest) -> str:
    name = manifest["metadata"]["name"]
    return "kai-operator-config" if manifest["kind"] == CONFIGS.kind else f"kai-operator-shard-{name}"
