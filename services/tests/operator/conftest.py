"""A small product to be installed, and builders."""

import copy
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from kai_operator.product import Needs, Unusable

NAMESPACE = "kai-scheduler"
LABELS = {"app.kubernetes.io/part-of": "kai-scheduler"}
OWNER = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "Config",
    "name": "kai-config",
    "uid": "uid-config",
    "controller": True,
    "blockOwnerDeletion": True,
}


def manifest(kind, name, *, api_version="v1", namespace=NAMESPACE, labels=None, annotations=None, **rest):
    metadata = {"name": name, "labels": {**LABELS, **(labels or {})}}
    if namespace:
        metadata["namespace"] = namespace
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def a_config_map(name="settings", **data):
    return manifest("ConfigMap", name, data=data)


def a_deployment(name="binder", *, replicas=1, image="kai:1", args=(), node_selector=None):
    container = {"name": name, "image": image, "args": list(args)}
    spec = {"containers": [container]} | ({"nodeSelector": node_selector} if node_selector else {})
    template = {"metadata": {"labels": {"app": name, **LABELS}}, "spec": spec}
    return manifest(
        "Deployment",
        name,
        api_version="apps/v1",
        labels={"app": name},
        spec={"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    )


def a_service(name="admission", *, port=443, selector=True):
    ports = [{"name": "webhook", "port": port, "targetPort": 9443, "protocol": "TCP"}]
    return manifest(
        "Service", name, spec={"ports": ports} | ({"selector": {"app": name}} if selector else {})
    )


def a_webhook(*, bundle="Q0E=", keys=("kubernetes.io/metadata.name",)):
    expressions = [{"key": key, "operator": "Exists"} for key in keys]
    return manifest(
        "ValidatingWebhookConfiguration",
        "validating",
        api_version="admissionregistration.k8s.io/v1",
        namespace="",
        webhooks=[
            {
                "name": "pods.kai.svc",
                "clientConfig": {
                    "service": {"name": "admission", "namespace": NAMESPACE, "path": "/x", "port": 443},
                    "caBundle": bundle,
                },
                "rules": [
                    {
                        "apiGroups": ["example.com"],
                        "apiVersions": ["v1"],
                        "resources": ["things"],
                        "operations": ["CREATE"],
                        "scope": "Namespaced",
                    }
                ],
                "namespaceSelector": {"matchExpressions": expressions},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    )


def an_account(name, namespace=NAMESPACE):
    return manifest("ServiceAccount", name, namespace=namespace)


@dataclass
class MadeUp:
    """A product whose Config says what of it there shall be: ``maps``, ``deployment``, ``certificates``.

    A shard has a ConfigMap and a Deployment named after it.
    """

    more: list = field(default_factory=list)
    prometheus: object = None
    lifetime: timedelta = timedelta(days=365)
    missing_words: list = field(default_factory=list)
    explode_for: str = ""
    remark: str = ""

    def read_config(self, found):
        return self._read(found, {"namespace", "maps", "deployment", "certificates", "passwords", "theirs"})

    def read_shard(self, found, config):
        return {**self._read(found, {"partitionLabelValue", "args"}), "name": found["metadata"]["name"]}

    def rivals(self, shards, config):
        pools = {}
        for shard in shards:
            pools.setdefault(shard.get("partitionLabelValue", ""), []).append(shard["name"])
        return {late: f"wants what {first} has" for first, *others in pools.values() for late in others}

    def secrets(self):
        return "admission-tls", "kai-redis"

    def needs(self, config):
        return Needs(
            namespace=NAMESPACE,
            certificates=config.get("certificates", {}),
            passwords=config.get("passwords", {}),
            filled_by_others=frozenset(config.get("theirs", ())),
            lifetime=self.lifetime,
            renew_before=self.lifetime / 3,
            authority_lifetime=self.lifetime,
            prometheus=self.prometheus,
        )

    def missing(self, config, found):
        return self.missing_words

    def remarks(self, config, shard):
        return [self.remark] if self.remark else []

    def of_config(self, config, shards, found):
        objects = [a_config_map(name, **data) for name, data in config.get("maps", {}).items()]
        if (deployment := config.get("deployment")) is not None:
            objects += [a_deployment(**deployment), an_account(deployment.get("name", "binder"))]
        if "webhooks" in found.trust:
            import base64

            objects.append(a_webhook(bundle=base64.b64encode(found.trust["webhooks"].encode()).decode()))
        return [*objects, *copy.deepcopy(self.more)]

    def of_shard(self, config, shard, found):
        if shard["name"] == self.explode_for:
            raise RuntimeError("a defect")
        name = f"kai-scheduler-{shard['name']}"
        return [a_config_map(name, pool=shard.get("partitionLabelValue", "")), a_deployment(name)]

    def scheduler_name(self, config):
        return "kai-scheduler"

    def lease_of(self, config, shard):
        pool = shard.get("partitionLabelValue", "")
        return f"kai-scheduler-{pool}" if pool else "kai-scheduler"

    @staticmethod
    def _read(found, known):
        spec = found.get("spec") or {}
        if problems := [f"spec.{key} is not known" for key in sorted(spec.keys() - known)]:
            raise Unusable(problems)
        return spec


class Builders:
    namespace, owner, labels = NAMESPACE, OWNER, LABELS
    manifest = staticmethod(manifest)
    config_map = staticmethod(a_config_map)
    deployment = staticmethod(a_deployment)
    service = staticmethod(a_service)
    webhook = staticmethod(a_webhook)
    account = staticmethod(an_account)
    product = MadeUp

    @staticmethod
    def live(wanted, *, version="7", uid="uid-x", owner=OWNER, **changes):
        """As a server would give it."""
        found = copy.deepcopy(wanted)
        found["metadata"] |= {"resourceVersion": version, "uid": uid}
        if owner is not None:
            found["metadata"]["ownerReferences"] = [owner]
        return found | changes


@pytest.fixture
def build():
    return Builders
