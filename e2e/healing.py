"""What the operator makes, how somebody may spoil it, and how one sees that it is whole again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from e2e.harness import Cluster
from kai.kube.resources import CONFIGS, SCHEDULING_SHARDS, SECRETS, Resource
from kai.operands import (
    CONFIG_NAME,
    PASSWORD_SECRET,
    ConfigSpec,
    Facts,
    certificates_of,
    operands_of_config,
    operands_of_shard,
    read_config,
    read_shard,
)
from kai_operator.memory import remembered

Manifest = dict[str, Any]

#: What a Config owns, or a shard, is the operator's.
OWNERS: Final = (CONFIGS.kind, SCHEDULING_SHARDS.kind)
_MADE_BY_US: Final = "app.kubernetes.io/managed-by=kai-operator"
#: What the cluster gives to each object anew, or one of its controllers writes.
_GIVEN: Final[Mapping[str, tuple[str, ...]]] = {
    "Service": ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"),
    "PersistentVolumeClaim": ("volumeName",),
}
#: Changes by hand that restart nothing. All objects are taken away from the operator, and from its watches.
_ANYWAY: Final[Manifest] = {
    "metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}, "ownerReferences": None}
}
_BY_HAND: Final[Mapping[str, Manifest]] = {
    "ConfigMap": {"data": {"by": "hand"}},
    "DaemonSet": {"spec": {"minReadySeconds": 1}},
    "EndpointSlice": {"endpoints": [{"addresses": ["192.0.2.1"]}]},
    "Deployment": {"spec": {"minReadySeconds": 1}},
    "MutatingWebhookConfiguration": {"webhooks": None},
    "NetworkPolicy": {"spec": {"ingress": [{}]}},
    "PodDisruptionBudget": {"spec": {"maxUnavailable": 7}},
    "Prometheus": {"spec": {"replicas": 7}},
    "Secret": {"data": {"by": "aGFuZA=="}},
    "Service": {"spec": {"sessionAffinity": "ClientIP"}},
    "ServiceAccount": {"imagePullSecrets": [{"name": "by-hand"}]},
    "ServiceMonitor": {"spec": {"endpoints": []}},
    "ValidatingWebhookConfiguration": {"webhooks": None},
    "VerticalPodAutoscaler": {"spec": {"updatePolicy": {"updateMode": "Off"}}},
}


def by_hand(kind: str) -> Manifest:
    """A merge patch that changes what the operator decides about an object of a kind."""
    return {**_BY_HAND.get(kind, {}), **_ANYWAY}


def operands(config: Manifest, shards: Iterable[Manifest], facts: Facts) -> list[Manifest]:
    """What the operator makes of these: by the function that it goes by, the Secrets, which it fills, and by
    what it remembers them.
    """
    spec, shards = read_config(config), list(shards)
    read = [read_shard(shard, spec) for shard in shards]
    made = operands_of_config(spec, facts, read)
    for shard in read:
        made += operands_of_shard(spec, shard, facts)
    place = {"namespace": spec.namespace}
    secrets = [
        {"apiVersion": "v1", "kind": SECRETS.kind, "metadata": {"name": name, **place}}
        for name in _secrets(spec)
    ]
    said = [{**config, "kind": CONFIGS.kind}]
    said += [{**shard, "kind": SCHEDULING_SHARDS.kind} for shard in shards]
    return [*made, *secrets, *(remembered(each, **place) for each in said)]


def _secrets(spec: ConfigSpec) -> list[str]:
    certificates = [name for hosts in certificates_of(spec).values() for name in hosts]
    return [*certificates, *([PASSWORD_SECRET] if spec.redis.ours else [])]


def kinds(manifests: Iterable[Manifest]) -> list[tuple[str, str]]:
    """Version and kind of all, Secrets last: where one is made anew others change."""
    found = {(each["apiVersion"], each["kind"]) for each in manifests}
    return sorted(found, key=lambda one: (one[1] == SECRETS.kind, one))


def usual() -> list[Manifest]:
    """Those of an installation whose Config says nothing, with one shard."""
    config = {"metadata": {"name": CONFIG_NAME}, "spec": {}}
    shard = {"metadata": {"name": "default"}, "spec": {}}
    return operands(config, [shard], Facts())


def place(manifest: Manifest) -> tuple[str, str]:
    """Namespace and name."""
    return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def decided(manifest: Manifest) -> Manifest:
    """What the operator decides about an object: not who it is, nor what keys and certificates are in it."""
    meta, kind = manifest["metadata"], manifest["kind"]
    content = {key: value for key, value in manifest.items() if key not in ("metadata", "status")}
    if kind == SECRETS.kind:
        content["data"] = sorted(manifest.get("data") or ())
    if kind in _GIVEN:
        content["spec"] = {key: value for key, value in manifest["spec"].items() if key not in _GIVEN[kind]}
    if "webhooks" in manifest:
        content["webhooks"] = [_without_authority(webhook) for webhook in manifest["webhooks"] or ()]
    return {"labels": meta.get("labels"), "owners": meta.get("ownerReferences"), **content}


def _without_authority(webhook: Manifest) -> Manifest:
    client = webhook["clientConfig"]
    return {**webhook, "clientConfig": {**client, "caBundle": bool(client.get("caBundle"))}}


async def resource_of(cluster: Cluster, api_version: str, kind: str) -> Resource:
    """Where objects of a kind are."""
    found = await cluster.client.discover(api_version, kind)
    assert found is not None, f"the server does not know {api_version} {kind}"
    return found


async def there(cluster: Cluster, resource: Resource) -> dict[tuple[str, str], Manifest]:
    """Objects of a kind that the operator has made, by place."""
    listed = await cluster.client.list(resource, label_selector=_MADE_BY_US)
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {place(each): {**kind, **each} for each in listed if _owned(each)}


def _owned(manifest: Manifest) -> bool:
    owners = manifest["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] in OWNERS and owner.get("controller") for owner in owners)


async def asked_for(cluster: Cluster, kind: str) -> set[tuple[str, str]]:
    """Where objects of a kind are to be, by what Config and shards say now."""
    config = await cluster.client.get(CONFIGS, CONFIG_NAME)
    shards = await cluster.client.list(SCHEDULING_SHARDS)
    return {place(each) for each in operands(config, shards, Facts()) if each["kind"] == kind}


def stray(manifest: Manifest) -> Manifest:
    """The same under a name that nobody asked for, so that nothing runs of it."""
    meta = manifest["metadata"]
    kept = {key: meta[key] for key in ("namespace", "labels", "ownerReferences") if key in meta}
    copy = {key: value for key, value in decided(manifest).items() if key not in ("labels", "owners")}
    if "replicas" in copy.get("spec", {}):
        copy["spec"] = {**copy["spec"], "replicas": 0}
    if "webhooks" in manifest:
        copy["webhooks"] = []
    return {**copy, "metadata": {**kept, "name": f"{meta['name']}-stray"}}
