"""Budgets for disruptions say how many of their pods may be evicted now."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kai_local.controllers.actions import Patch
from kai_local.controllers.disruption_budgets import meant_by, reconcile
from kai_local.controllers.objects import Workload
from kai_local.parts.objects import LocalPod

NOW = 1_800_000_000.0
Json = dict[str, Any]


def a_budget(status: Json | None = None, **spec: Any) -> Workload:
    metadata = {"name": "b", "namespace": "ns", "uid": "b", "resourceVersion": "7", "generation": 2}
    body = {"metadata": metadata, "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec}}
    return msgspec.convert({**body, "status": status or {}}, Workload)


def a_pod(
    name: str,
    *,
    ready: bool = True,
    deleted: bool = False,
    namespace: str = "ns",
    phase: str = "Running",
) -> LocalPod:
    body = {
        "metadata": {
            "name": name, "namespace": namespace, "uid": name, "labels": {"app": "a"},
            "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
        },
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }  # fmt: skip
    return msgspec.convert(body, LocalPod)


def written(budget: Workload, pods: list[LocalPod], now: float = NOW) -> Json:
    [patch] = reconcile(budget, pods, now).actions
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"] == {"resourceVersion": "7"}
    status: Json = patch.patch["status"]
    return status


FOUR = [a_pod("a"), a_pod("b"), a_pod("c", ready=False), a_pod("d", deleted=True)]


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 1}, 1, 1),
        ({"minAvailable": "50%"}, 2, 0),
        ({"maxUnavailable": 3}, 1, 1),
        ({"maxUnavailable": "100%"}, 0, 2),
        ({"maxUnavailable": 7}, 0, 2),
        ({}, 1, 1),
    ],
)
def test_as_many_may_go_as_are_healthy_beyond_those_that_have_to_be(
    spec: Json, desired: int, allowed: int
) -> None:
    status = written(a_budget(**spec), FOUR)
    assert (status["expectedPods"], status["currentHealthy"]) == (4, 2)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, allowed)
    assert status["observedGeneration"] == 2
    assert status["conditions"][0]["status"] == ("True" if allowed else "False")


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_pods_that_have_ended_stand_in_the_way_of_no_eviction(phase: str) -> None:
    pods = [a_pod("a"), a_pod("b"), a_pod("c"), a_pod("left", ready=False, phase=phase)]
    status = written(a_budget(maxUnavailable=1), pods)
    assert (status["expectedPods"], status["currentHealthy"]) == (3, 3)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (2, 1)


def test_nothing_is_written_where_nothing_has_changed() -> None:
    status = written(a_budget(minAvailable=1), FOUR)
    assert reconcile(a_budget(status, minAvailable=1), FOUR, NOW + 1).actions == []


def test_a_pod_whose_eviction_is_counted_is_not_healthy_until_it_is_seen_to_go_or_to_stay() -> None:
    told = {"disruptedPods": {"a": "2027-01-15T08:00:00Z", "gone": "2027-01-15T08:00:00Z"}}
    budget = a_budget(told, minAvailable=1)
    pods = [a_pod("a"), a_pod("b")]
    status = written(budget, pods)
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (1, 0)
    assert status["disruptedPods"] == {"a": "2027-01-15T08:00:00Z", "gone": None}
    assert reconcile(budget, pods, NOW).again_in == 120
    later = written(budget, pods, NOW + 120)
    assert (later["disruptionsAllowed"], later["disruptedPods"]) == (1, {"a": None, "gone": None})


def test_a_budget_means_the_pods_of_its_own_namespace_and_without_a_selector_none() -> None:
    assert meant_by(a_budget())(a_pod("a"))
    assert not meant_by(a_budget())(a_pod("a", namespace="other"))
    assert not meant_by(a_budget(selector=None))(a_pod("a"))
    assert meant_by(a_budget(selector={}))(a_pod("a"))
