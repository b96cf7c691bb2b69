"""Builders of what the controller sees."""

import msgspec
import pytest

from kai.model.decisions import Outcome, PodGroupOutcome
from kai.model.objects import PodGroup
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.facts import PodRecord, watched_group, watched_pod

NODE_POOL_LABEL = "kai.scheduler/node-pool"


def pod_json(
    name="worker",
    *,
    group="train",
    phase="Pending",
    node="",
    bound=False,
    requests=None,
    annotations=None,
    claims=None,
    claim_statuses=None,
    version=1,
    conditions=None,
    uid="",
    going=False,
):
    conditions = list(conditions or [])
    if bound:
        conditions.append({"type": "PodScheduled", "status": "True"})
    annotations = {**({"pod-group-name": group} if group else {}), **(annotations or {})}
    requests = [{"cpu": "1"}] if requests is None else requests
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "annotations": annotations,
            **({"deletionTimestamp": "2026-11-21T10:00:00Z"} if going else {}),
        },
        "spec": {
            "nodeName": node or ("n1" if bound else ""),
            "containers": [
                {"name": str(i), "resources": {"requests": each}} for i, each in enumerate(requests)
            ],
            **({"resourceClaims": claims} if claims else {}),
        },
        "status": {
            "phase": phase,
            "conditions": conditions,
            **({"resourceClaimStatuses": claim_statuses} if claim_statuses else {}),
        },
    }


def group_json(
    name="train", *, spec=None, status=None, annotations=None, labels=None, version=1, owners=(), uid=""
):
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "annotations": annotations or {},
            "labels": labels or {},
            "ownerReferences": list(owners),
        },
        "spec": {"queue": "q", **(spec or {})},
        "status": status or {},
    }


class Builders:
    pod_json = staticmethod(pod_json)
    group_json = staticmethod(group_json)

    @staticmethod
    def pod(*args, **options):
        return msgspec.convert(pod_json(*args, **options), PodRecord)

    @staticmethod
    def facts(**options):
        return watched_pod(Builders.pod(**options))

    @staticmethod
    def group(*args, **options):
        return msgspec.convert(group_json(*args, **options), PodGroup)

    @staticmethod
    def watched_group(*args, **options):
        return watched_group(Builders.group(*args, **options), node_pool_label_key=NODE_POOL_LABEL)

    @staticmethod
    def outcome(kind=Outcome.UNSCHEDULABLE, **fields):
        return PodGroupOutcome(**{"pod_group": "team/train", "outcome": kind, "message": "no room", **fields})

    @staticmethod
    def cluster(concern=lambda key: None):
        return Cluster(node_pool_label_key=NODE_POOL_LABEL, concern=concern)


@pytest.fixture
def build():
    return Builders
