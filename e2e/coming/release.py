"""The release of the original as helm knows it, and what its operator makes: names and kinds.

Of their content there is what an upgrade could trip over.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.coming.original import RESERVATIONS, SYSTEM
from kai.kube.resources import CONFIGS, SCHEDULING_SHARDS
from kai.model import names
from kai.runtime import certificates
from kai_operator.ownership import owner_reference

Json = dict[str, Any]
_CORE: Final[Json] = {"apiVersion": "v1"}
_RBAC: Final[Json] = {"apiVersion": "rbac.authorization.k8s.io/v1"}
#: Role -> account, both in every release of it.
_ROLES: Final = {
    "kai-admission": "admission",
    "kai-binder": "binder",
    "kai-node-scale-adjuster": "node-scale-adjuster",
    "kai-operator": "kai-operator",
    "kai-podgroup-controller": "podgroup-controller",
    "kai-podgrouper": "pod-grouper",
    "kai-scheduler": "scheduler",
    "queuecontroller": "queue-controller",
}
PROGRAMS: Final = ("admission", "binder", "pod-grouper", "podgroup-controller", "queue-controller")

#: Secret of a webhook -> the Service whose name is in its certificate.
_WEBHOOKS: Final = {
    "kai-admission-webhook-tls-secret": "admission",
    "podgroup-webhook-tls-secret": "podgroup-controller",
    "queue-webhook-tls-secret": "queue-controller",
}


def a_chart(folder: Path) -> Path:
    """Its chart in this folder; what reservations need is part of it only where that is not there yet."""
    (folder / "templates").mkdir(parents=True)
    about = {"apiVersion": "v2", "name": "kai-scheduler", "version": "0.17.0"}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about))
    always = "\n---\n".join(map(yaml.safe_dump, _always()))
    once = "".join(
        f'{{{{- if not (lookup "v1" "{each["kind"]}" "{place}" "{RESERVATIONS}") }}}}\n'
        f"---\n{yaml.safe_dump(each)}{{{{- end }}}}\n"
        for each, place in _once()
    )
    (folder / "templates" / "all.yaml").write_text(f"{always}{once}")
    return folder


def _always() -> Iterator[Json]:
    for role, account in _ROLES.items():
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
        yield {**_RBAC, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}
        yield {
            **_RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}],
        }
    yield {**_CORE, "kind": "ServiceAccount", "metadata": {"name": "kai-operator", "namespace": SYSTEM}}
    yield _deployment("kai-operator", "kai-operator")
    yield {
        "apiVersion": names.CONFIG_API_VERSION,
        "kind": "SchedulingShard",
        "metadata": {"name": names.DEFAULT_SHARD, "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {"placementStrategy": {"gpu": "spread", "cpu": "spread"}, "partitionLabelValue": ""},
    }


def _once() -> Iterator[tuple[Json, str]]:
    keep = {"helm.sh/resource-policy": "keep"}
    yield {**_CORE, "kind": "Namespace", "metadata": {"name": RESERVATIONS, "annotations": keep}}, ""
    account = {"name": names.RESERVATION_SERVICE_ACCOUNT, "namespace": RESERVATIONS}
    yield {**_CORE, "kind": "ServiceAccount", "metadata": account}, RESERVATIONS


def of_its_operator(config: Json, shard: Json) -> list[Json]:
    """What its operator makes of these two, as far as ours has objects of the same names."""
    made = [(name, name, config) for name in PROGRAMS]
    made.append((f"{names.SCHEDULER_NAME}-{names.DEFAULT_SHARD}", "scheduler", shard))
    operands = [each for name, account, owner in made for each in _operand(name, account, owner)]
    return [*operands, *(_pair(name, service, config) for name, service in _WEBHOOKS.items())]


def _operand(name: str, account: str, owner: Json) -> Iterator[Json]:
    for each in (
        {**_CORE, "kind": "ServiceAccount", "metadata": {"name": account, "namespace": SYSTEM}},
        _deployment(name, account),
    ):
        yield _owned(each, name, owner)


def _pair(name: str, service: str, config: Json) -> Json:
    """Of no type, and signed by itself: there is no authority beside it."""
    pair = certificates.new_authority(f"{service}.{SYSTEM}.svc", now=datetime.now(UTC))
    data = {"tls.crt": pair.certificate, "tls.key": pair.key}
    secret = {
        **_CORE,
        "kind": "Secret",
        "metadata": {"name": name, "namespace": SYSTEM},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    return _owned(secret, name, config)


def _owned(manifest: Json, app: str, owner: Json) -> Json:
    kind = next(each for each in (CONFIGS, SCHEDULING_SHARDS) if each.kind == owner["kind"])
    meta = owner["metadata"]
    owned = {
        "labels": {"app": app, "app.kubernetes.io/managed-by": "kai-operator"},
        "ownerReferences": [owner_reference(kind, meta["name"], meta["uid"])],
    }
    return {**manifest, "metadata": {**manifest["metadata"], **owned}}


def _deployment(name: str, account: str) -> Json:
    container = {"name": name, "image": f"registry.example.com/kai/{name}:v0.17.0"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": {"app": name}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"serviceAccountName": account, "containers": [container]},
            },
        },
    }
