"""Objects without a controller are taken over by the workload whose selector means them, others released."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kai.kube.resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Resource
from kai_local.controllers.adoption import adoptions, releases
from kai_local.controllers.objects import Workload
from kai_local.parts.objects import LocalPod

Json = dict[str, Any]
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def a_workload(**metadata: Any) -> Workload:
    body = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "w", **metadata},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    return msgspec.convert(body, Workload)


def a_pod(name: str = "web-0", phase: str = "Running", **metadata: Any) -> LocalPod:
    metadata = {"name": name, "namespace": "ns", "uid": "p", "labels": {"app": "web"}, **metadata}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase}}, LocalPod)


def test_an_orphan_becomes_a_child_as_it_was_seen() -> None:
    [adopted] = adoptions(REPLICA_SETS, a_workload(), [a_pod(resourceVersion="7")])
    assert (adopted.uid, adopted.version) == ("p", "7")
    assert adopted.owner == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "w",
        "controller": True,
        "blockOwnerDeletion": True,
    }


@pytest.mark.parametrize(
    ("resource", "pod"),
    [
        (REPLICA_SETS, a_pod(labels={"app": "other"})),
        (REPLICA_SETS, a_pod(phase="Failed")),
        (REPLICA_SETS, a_pod(**DELETED)),
        (STATEFUL_SETS, a_pod("other-0")),
    ],
)
def test_what_is_not_meant_or_has_ended_stays_alone(resource: Resource, pod: LocalPod) -> None:
    assert adoptions(resource, a_workload(), [pod]) == []


def test_a_workload_that_is_deleted_takes_nothing_over() -> None:
    assert adoptions(REPLICA_SETS, a_workload(**DELETED), [a_pod()]) == []


def test_a_deployment_takes_replica_sets_over() -> None:
    orphan = a_workload(name="web-1", uid="r", labels={"app": "web"})
    assert [adopted.name for adopted in adoptions(DEPLOYMENTS, a_workload(), [orphan])] == ["web-1"]


@pytest.mark.parametrize(
    ("workload", "labels", "released"),
    [
        (a_workload(), {"app": "web"}, []),
        (a_workload(), {"app": "mine"}, [("p", "w")]),
        (a_workload(**DELETED), {"app": "mine"}, []),
    ],
)
def test_a_child_that_its_workload_no_longer_means_is_released(
    workload: Workload, labels: Json, released: list[tuple[str, str]]
) -> None:
    found = releases(REPLICA_SETS, workload, [a_pod(labels=labels)])
    assert [(one.uid, one.owner) for one in found] == released
