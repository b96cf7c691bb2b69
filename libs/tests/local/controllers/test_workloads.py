"""Workload controllers, run against a world in memory until nothing is left to do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kai.kube.errors import Forbidden
from kai.kube.resources import PODS
from kai.model.objects import Node, NodeStatus, ObjectMeta, Taint
from kai.snapshot.times import rfc3339
from kai_local.controllers import daemon_sets, deployments, jobs, replica_sets, stateful_sets
from kai_local.controllers.actions import Adopt, Create, Delete, LetGo, Patch, Plan
from kai_local.controllers.actor import Actor
from kai_local.controllers.expectations import Expectations
from kai_local.controllers.job_counts import FINALIZER, last_failure
from kai_local.controllers.objects import Workload
from kai_local.parts.objects import LocalPod
from kai_local.parts.watches import controller_of

NOW = 1_800_000_000.0
Json = dict[str, Any]


def merge(into: Json, patch: Json) -> Json:
    result = dict(into)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result


class World:
    """Objects by (plural, name); applies what controllers plan."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.numbers = itertools.count(1)
        self.now = NOW
        self.writes = 0
        #: Whether pods that are deleted are still there until :meth:`end_pods`.
        self.lingering = False
        #: When a pod of a Job failed last.
        self.failed_at = 0.0

    def add(self, plural: str, body: Json) -> None:
        number = next(self.numbers)
        meta = {"namespace": "ns", "uid": f"uid-{number}", "generation": 1, **body["metadata"]}
        meta["creationTimestamp"] = f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}Z"
        if "name" not in meta:
            meta["name"] = f"{meta.pop('generateName')}{number}"
        key = (plural, meta["name"])
        if key not in self.objects:
            self.objects[key] = {**body, "metadata": meta}

    def get(self, plural: str, name: str) -> Workload:
        return msgspec.convert(self.objects[plural, name], Workload)

    def owned(self, plural: str, owner: str, kind: Any = LocalPod) -> list[Any]:
        found = [msgspec.convert(o, kind) for (p, _), o in self.objects.items() if p == plural]
        return [o for o in found if (ref := controller_of(o)) is not None and ref.uid == owner]

    def pods(self) -> list[LocalPod]:
        return [msgspec.convert(o, LocalPod) for (p, _), o in self.objects.items() if p == "pods"]

    def carry_out(self, plan: Plan) -> None:
        for action in plan.actions:
            self.writes += 1
            match action:
                case Create(resource, _, body):
                    self.add(resource.plural, body)
                case Delete(resource, _, name, uid, _, finalizer):
                    meta = self.objects[resource.plural, name]["metadata"]
                    assert meta["uid"] == uid
                    meta["finalizers"] = [one for one in meta.get("finalizers") or () if one != finalizer]
                    if meta["finalizers"] or (self.lingering and resource is PODS):
                        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                        continue
                    del self.objects[resource.plural, name]
                case Adopt(resource, _, name, _, _, _, finalizers):
                    self.objects[resource.plural, name]["metadata"]["finalizers"] = list(finalizers)
                case LetGo(resource, _, name, uid, finalizer):
                    meta = self.objects[resource.plural, name]["metadata"]
                    assert meta["uid"] == uid
                    meta["finalizers"].remove(finalizer)
                    if meta.get("deletionTimestamp") and not meta["finalizers"]:
                        del self.objects[resource.plural, name]
                case Patch(resource, _, name, patch, _):
                    self.objects[resource.plural, name] = merge(self.objects[resource.plural, name], patch)

    def step(self) -> int:
        """One round of all controllers; the number of writes."""
        before = self.writes
        for plural, name in list(self.objects):
            if (plural, name) not in self.objects or plural in ("pods", "persistentvolumeclaims", "nodes"):
                continue
            obj = self.get(plural, name)
            uid = obj.metadata.uid
            match plural:
                case "deployments":
                    owned = self.owned("replicasets", uid, Workload)
                    pods = [pod for one in owned for pod in self.owned("pods", one.metadata.uid)]
                    plan = deployments.reconcile(obj, owned, pods, self.now)
                case "replicasets":
                    plan = replica_sets.reconcile(obj, self.owned("pods", uid), self.now)
                case "statefulsets":
                    plan = stateful_sets.reconcile(obj, self.owned("pods", uid), self.now)
                case "jobs":
                    pods = self.owned("pods", uid)
                    self.failed_at = max(self.failed_at, last_failure(pods))
                    plan = jobs.reconcile(obj, pods, self.now, failed_at=self.failed_at)
                case _:
                    raise AssertionError(plural)
            self.carry_out(plan)
        return self.writes - before

    def settle(self, after_each: Callable[[], None] = lambda: None) -> None:
        for _ in range(200):
            wrote = self.step()
            after_each()
            if not wrote and not self.make_ready(1):
                return
        raise AssertionError("no rest after 200 rounds")

    def make_ready(self, most: int = 1000) -> int:
        """The kubelet's part: so many more pods are running and ready."""
        waiting = [p for p in self.pods() if not p.ready and not p.terminal][:most]
        for pod in waiting:
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            self.set_status(pod, {"phase": "Running", "conditions": [ready]})
        return len(waiting)

    def end_pods(self) -> None:
        """The kubelet's part: those that were deleted have ended."""
        self.objects = {
            key: body for key, body in self.objects.items() if not body["metadata"].get("deletionTimestamp")
        }

    def delete(self, pod: LocalPod) -> None:
        """Somebody deletes a pod: it is gone once no finalizer holds it."""
        if pod.metadata.finalizers:
            meta = self.objects["pods", pod.metadata.name]["metadata"]
            meta |= {"deletionTimestamp": rfc3339(self.now + 30), "deletionGracePeriodSeconds": 30}
        else:
            del self.objects["pods", pod.metadata.name]

    def set_status(self, pod: LocalPod, status: Json) -> None:
        self.objects["pods", pod.metadata.name]["status"] = status

    def end(self, pod: LocalPod, phase: str = "Succeeded") -> None:
        self.set_status(pod, {"phase": phase})


def a_template(image: str = "a:1") -> Json:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def a_deployment(world: World, replicas: int = 4, **strategy: Any) -> None:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": a_template()}
    world.add("deployments", {"metadata": {"name": "web"}, "spec": {**spec, "strategy": strategy}})


def change(world: World, plural: str, name: str, **spec: Any) -> None:
    obj = world.objects[plural, name]
    world.objects[plural, name] = merge(obj, {"spec": spec})
    world.objects[plural, name]["metadata"]["generation"] += 1


# --- deployments -------------------------------------------------------------------------------
def test_a_deployment_becomes_available() -> None:
    world = World()
    a_deployment(world, 3)
    world.settle()
    status = world.get("deployments", "web").status
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 3)
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Available": "True",
        "Progressing": "True",
    }
    assert all("pod-template-hash" in pod.labels for pod in world.pods())
    assert world.step() == 0


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "least"),
    [("25%", "25%", 5, 3), (1, 0, 5, 4), (0, 1, 4, 3), ("100%", "50%", 8, 2)],
)
def test_a_rolling_update_keeps_within_its_limits(
    surge: Any, unavailable: Any, most: int, least: int
) -> None:
    world = World()
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    a_deployment(world, 4, type="RollingUpdate", rollingUpdate=rolling)
    world.settle()
    change(world, "deployments", "web", template=a_template("a:2"))

    def check() -> None:
        assert len(world.pods()) <= most
        assert sum(pod.ready for pod in world.pods()) >= least

    world.settle(check)
    assert [pod.spec.containers[0].image for pod in world.pods()] == ["a:2"] * 4
    assert world.get("deployments", "web").annotations["deployment.kubernetes.io/revision"] == "2"


def test_a_rollback_brings_the_old_replica_set_back_as_the_latest() -> None:
    world = World()
    a_deployment(world, 2)
    world.settle()
    (first,) = [name for plural, name in world.objects if plural == "replicasets"]
    change(world, "deployments", "web", template=a_template("a:2"))
    world.settle()
    change(world, "deployments", "web", template=a_template("a:1"))
    world.settle()
    assert world.get("replicasets", first).spec["replicas"] == 2
    assert world.get("replicasets", first).annotations["deployment.kubernetes.io/revision"] == "3"


def test_recreate_never_mixes_two_templates() -> None:
    world = World()
    a_deployment(world, 3, type="Recreate")
    world.settle()
    change(world, "deployments", "web", template=a_template("a:2"))

    def check() -> None:
        assert len({pod.spec.containers[0].image for pod in world.pods()}) <= 1

    world.settle(check)
    assert [pod.spec.containers[0].image for pod in world.pods()] == ["a:2"] * 3


@pytest.mark.parametrize("template", ["new", "again"])
def test_recreate_waits_for_pods_that_are_still_ending(template: str) -> None:
    world = World()
    a_deployment(world, 1, type="Recreate")
    world.settle()
    if template == "again":  # there is a ReplicaSet already
        change(world, "deployments", "web", template=a_template("a:2"))
        world.settle()
    world.lingering = True
    (before,) = world.pods()
    after = "a:2" if template == "new" else "a:1"
    change(world, "deployments", "web", template=a_template(after))
    world.settle()
    assert [pod.metadata.name for pod in world.pods()] == [before.metadata.name]
    world.end_pods()
    world.settle()
    assert [pod.spec.containers[0].image for pod in world.pods()] == [after]


def test_scaling_down_gives_up_the_pods_that_do_least() -> None:
    world = World()
    a_deployment(world, 3)
    world.step()
    world.step()
    world.make_ready(2)
    change(world, "deployments", "web", replicas=2)
    world.step()
    world.step()
    assert [pod.ready for pod in world.pods()] == [True, True]


def test_a_paused_deployment_does_not_roll() -> None:
    world = World()
    a_deployment(world, 2)
    world.settle()
    change(world, "deployments", "web", template=a_template("a:2"), paused=True)
    world.settle()
    assert [pod.spec.containers[0].image for pod in world.pods()] == ["a:1"] * 2


def test_old_replica_sets_are_forgotten_beyond_the_history() -> None:
    world = World()
    a_deployment(world, 1)
    change(world, "deployments", "web", revisionHistoryLimit=1)
    for number in range(1, 5):
        change(world, "deployments", "web", template=a_template(f"a:{number}"))
        world.settle()
    assert len([name for plural, name in world.objects if plural == "replicasets"]) == 2


# --- stateful sets -----------------------------------------------------------------------------
def a_stateful_set(world: World, **spec: Any) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    body = {"replicas": 3, "serviceName": "db", "template": a_template(), "volumeClaimTemplates": claims}
    world.add("statefulsets", {"metadata": {"name": "db"}, "spec": {**body, **spec}})


def test_a_stateful_set_comes_up_one_by_one_with_its_claims() -> None:
    world = World()
    a_stateful_set(world)
    world.step()
    assert [pod.metadata.name for pod in world.pods()] == ["db-0"]
    world.settle()
    assert [pod.metadata.name for pod in world.pods()] == ["db-0", "db-1", "db-2"]
    assert ("persistentvolumeclaims", "data-db-2") in world.objects
    assert world.pods()[0].spec.volumes == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    ]
    assert world.get("statefulsets", "db").status["readyReplicas"] == 3


def test_a_parallel_stateful_set_comes_up_at_once() -> None:
    world = World()
    a_stateful_set(world, podManagementPolicy="Parallel")
    world.step()
    assert len(world.pods()) == 3


def test_a_stateful_set_shrinks_and_renews_from_the_top() -> None:
    world = World()
    a_stateful_set(world)
    world.settle()
    change(world, "statefulsets", "db", replicas=2, template=a_template("a:2"))
    images: list[list[str]] = []
    world.settle(lambda: images.append([pod.spec.containers[0].image for pod in world.pods()]))
    assert sorted(pod.metadata.name for pod in world.pods()) == ["db-0", "db-1"]
    assert ["a:1", "a:2"] in images
    assert images[-1] == ["a:2", "a:2"]


# --- jobs --------------------------------------------------------------------------------------
def a_job(world: World, **spec: Any) -> None:
    world.add(
        "jobs", {"metadata": {"name": "job"}, "spec": {"template": a_template(), "completions": 1, **spec}}
    )


def test_a_job_runs_as_many_as_may_run_until_enough_have_ended_well() -> None:
    world = World()
    a_job(world, completions=5, parallelism=2)
    ended = 0
    for _ in range(20):
        world.step()
        alive = [pod for pod in world.pods() if not pod.terminal]
        assert len(alive) <= 2
        assert ended + len(alive) <= 5
        if alive:
            world.end(alive[0])
            ended += 1
    status = world.get("jobs", "job").status
    assert (status["succeeded"], status["active"]) == (5, 0)
    assert {c["type"] for c in status["conditions"]} == {"SuccessCriteriaMet", "Complete"}
    assert status["completionTime"]


def test_the_pods_of_a_job_carry_its_name() -> None:
    world = World()
    a_job(world)
    world.step()
    (pod,) = world.pods()
    assert pod.labels["job-name"] == pod.labels["batch.kubernetes.io/job-name"] == "job"


def test_an_indexed_job_fills_the_indexes_that_are_missing() -> None:
    world = World()
    a_job(world, completions=3, parallelism=3, completionMode="Indexed")
    world.step()
    index = "batch.kubernetes.io/job-completion-index"
    assert [pod.annotations[index] for pod in world.pods()] == ["0", "1", "2"]
    assert {"name": "JOB_COMPLETION_INDEX"}.items() <= (world.pods()[0].spec.containers[0].env or [{}])[
        0
    ].items()
    world.end(world.pods()[0])
    world.end(world.pods()[2], "Failed")
    world.step()
    world.now += 3600
    world.step()
    assert [pod.annotations[index] for pod in world.pods() if not pod.terminal] == ["1", "2"]
    assert world.get("jobs", "job").status["completedIndexes"] == "0"


def test_a_job_that_fails_too_often_has_failed() -> None:
    world = World()
    a_job(world, backoffLimit=1)
    for _ in range(4):
        world.step()
        world.now += 3600
        for pod in world.pods():
            if not pod.terminal:
                world.end(pod, "Failed")
    status = world.get("jobs", "job").status
    assert status["failed"] == 2
    assert status["conditions"][-1]["reason"] == "BackoffLimitExceeded"


def test_a_deleted_pod_counts_as_a_failure() -> None:
    world = World()
    a_job(world, backoffLimit=0)
    world.step()
    world.make_ready()
    world.delete(world.pods()[0])
    world.step()
    status = world.get("jobs", "job").status
    assert status["failed"] == 1
    assert status["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    world.step()
    assert world.pods() == []


def test_a_deleted_pod_is_replaced_after_a_pause_though_it_is_gone() -> None:
    world = World()
    a_job(world)
    world.step()
    world.make_ready()
    world.delete(world.pods()[0])
    for _ in range(3):
        world.step()
    assert world.pods() == []
    assert world.get("jobs", "job").status["failed"] == 1
    world.now += 10
    world.step()
    assert len(world.pods()) == 1


def test_no_pod_is_made_again_for_those_that_ended_well_and_are_gone() -> None:
    world = World()
    a_job(world, completions=3)
    made = set()
    for _ in range(12):
        world.step()
        for pod in world.pods():
            made.add(pod.metadata.uid)
            if pod.terminal:
                world.delete(pod)
            else:
                world.end(pod)
    assert len(made) == 3
    assert world.get("jobs", "job").status["succeeded"] == 3


def test_a_pod_is_held_until_it_has_been_counted_and_counted_once() -> None:
    world = World()
    a_job(world, completions=2)
    world.step()
    world.end(world.pods()[0])
    uid = world.pods()[0].metadata.uid
    world.step()
    status = world.get("jobs", "job").status
    assert (status["succeeded"], status["uncountedTerminatedPods"]["succeeded"]) == (0, [uid])
    assert world.pods()[0].metadata.finalizers == [FINALIZER]
    world.step()
    assert not world.pods()[0].metadata.finalizers
    for _ in range(2):
        world.step()
        status = world.get("jobs", "job").status
        assert (status["succeeded"], status["uncountedTerminatedPods"]["succeeded"]) == (1, [])


def test_a_pod_that_was_let_go_and_not_deleted_is_held_again() -> None:
    world = World()
    a_job(world)
    world.step()
    (pod,) = world.pods()
    world.objects["pods", pod.metadata.name]["metadata"]["finalizers"] = []
    world.step()
    assert world.pods()[0].metadata.finalizers == [FINALIZER]


@pytest.mark.parametrize("ending", [{"activeDeadlineSeconds": 60}, {"suspend": True}])
def test_pods_that_the_controller_deletes_itself_do_not_count(ending: Json) -> None:
    world = World()
    a_job(world, parallelism=2, completions=2)
    world.step()
    world.now += 60
    change(world, "jobs", "job", **ending)
    for _ in range(3):
        world.step()
    assert world.pods() == []
    assert not world.get("jobs", "job").status["failed"]


def test_nothing_of_a_job_that_has_ended_or_is_deleted_is_held() -> None:
    world = World()
    a_job(world)
    world.step()
    world.end(world.pods()[0])
    world.step()
    world.step()
    assert not world.pods()[0].metadata.finalizers
    a_job(other := World())
    other.step()
    other.objects["jobs", "job"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    other.step()
    assert not other.pods()[0].metadata.finalizers


def a_policy(action: str, **match: Any) -> Json:
    return {"podFailurePolicy": {"rules": [{"action": action, **match}]}, "podReplacementPolicy": "Failed"}


DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_a_failure_that_the_job_ignores_does_not_count() -> None:
    world = World()
    a_job(world, backoffLimit=0, **a_policy("Ignore", **DISRUPTED))
    world.step()
    (pod,) = world.pods()
    world.set_status(pod, {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]})
    world.step()
    assert len([one for one in world.pods() if not one.terminal]) == 1
    assert not world.get("jobs", "job").status["failed"]
    (alive,) = [one for one in world.pods() if not one.terminal]
    world.end(alive, "Failed")
    world.step()
    assert world.get("jobs", "job").status["conditions"][-1]["reason"] == "BackoffLimitExceeded"


@pytest.mark.parametrize(
    ("exits", "ends"),
    [
        ({"operator": "In", "values": [42]}, True),
        ({"operator": "In", "values": [1]}, False),
        ({"operator": "NotIn", "values": [1]}, True),
        ({"operator": "In", "values": [42], "containerName": "other"}, False),
    ],
)
def test_a_failure_may_end_the_job_by_its_exit_code(exits: Json, ends: bool) -> None:
    world = World()
    a_job(world, **a_policy("FailJob", onExitCodes=exits))
    world.step()
    ended = {"name": "c", "state": {"terminated": {"exitCode": 42}}}
    world.set_status(world.pods()[0], {"phase": "Failed", "containerStatuses": [ended]})
    world.step()
    conditions = world.get("jobs", "job").status.get("conditions") or [{}]
    assert (conditions[-1].get("reason") == "PodFailurePolicy") is ends


def test_a_job_that_replaces_only_what_has_failed_waits_for_what_is_deleted() -> None:
    world = World()
    a_job(world, podReplacementPolicy="Failed")
    world.step()
    world.make_ready()
    world.delete(world.pods()[0])
    world.step()
    assert len(world.pods()) == 1
    assert not world.get("jobs", "job").status["failed"]
    world.end(world.pods()[0], "Failed")
    for _ in range(3):
        world.step()
        world.now += 3600
    assert [pod.terminating for pod in world.pods()] == [False]
    assert world.get("jobs", "job").status["failed"] == 1


@pytest.mark.parametrize(
    ("rule", "enough"),
    [
        ({"succeededIndexes": "1"}, [1]),
        ({"succeededCount": 2}, [0, 2]),
        ({"succeededIndexes": "0-1", "succeededCount": 1}, [1]),
    ],
)
def test_a_job_may_be_done_when_some_of_its_indexes_are(rule: Json, enough: list[int]) -> None:
    world = World()
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    a_job(world, **spec, successPolicy={"rules": [rule]})
    world.step()
    for place, index in enumerate(enough):
        assert not world.get("jobs", "job").status.get("conditions"), place
        world.end(world.pods()[index])
        world.step()
    conditions = world.get("jobs", "job").status["conditions"]
    assert {c["type"]: c["reason"] for c in conditions} == {
        "SuccessCriteriaMet": "SuccessPolicy",
        "Complete": "SuccessPolicy",
    }


EACH_INDEX = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}


def of_index(world: World, index: int) -> LocalPod:
    """The pod of an index that has not ended."""
    name = "batch.kubernetes.io/job-completion-index"
    found = [pod for pod in world.pods() if pod.annotations[name] == str(index) and not pod.terminal]
    (pod,) = found
    return pod


def fail(world: World, index: int) -> None:
    """The pod of an index fails, and enough time passes for the next."""
    world.end(of_index(world, index), "Failed")
    world.settle()
    world.now += 3600
    world.settle()


def test_an_index_that_fails_too_often_is_given_up_and_the_others_go_on() -> None:
    world = World()
    a_job(world, backoffLimit=2**31 - 1, **EACH_INDEX)
    world.settle()
    fail(world, 1)
    assert of_index(world, 1).annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
    fail(world, 0)
    fail(world, 1)
    status = world.get("jobs", "job").status
    assert (status["failedIndexes"], status["active"], status["failed"]) == ("1", 2, 3)
    assert not status.get("conditions")
    for index in (0, 2):
        world.end(of_index(world, index))
    world.settle()
    status = world.get("jobs", "job").status
    assert (status["completedIndexes"], status["failedIndexes"], status["succeeded"]) == ("0,2", "1", 2)
    assert status["conditions"][-1]["reason"] == "FailedIndexes"


def test_a_job_that_lost_more_indexes_than_it_may_has_failed() -> None:
    world = World()
    a_job(world, backoffLimit=2**31 - 1, **{**EACH_INDEX, "backoffLimitPerIndex": 0}, maxFailedIndexes=1)
    world.settle()
    fail(world, 0)
    assert not world.get("jobs", "job").status.get("conditions")
    fail(world, 2)
    status = world.get("jobs", "job").status
    assert (status["failedIndexes"], status["conditions"][-1]["reason"]) == (
        "0,2",
        "MaxFailedIndexesExceeded",
    )
    assert all(pod.terminal for pod in world.pods())


def test_a_rule_may_give_up_an_index_at_its_first_failure() -> None:
    world = World()
    rule = a_policy("FailIndex", onExitCodes={"operator": "In", "values": [42]})
    a_job(world, backoffLimit=2**31 - 1, **EACH_INDEX, **rule)
    world.settle()
    ended = {"name": "c", "state": {"terminated": {"exitCode": 42}}}
    world.set_status(of_index(world, 1), {"phase": "Failed", "containerStatuses": [ended]})
    world.settle()
    assert world.get("jobs", "job").status["failedIndexes"] == "1"


def test_the_failures_of_an_index_are_known_though_its_pods_are_deleted() -> None:
    world = World()
    a_job(world, backoffLimit=2**31 - 1, **EACH_INDEX)
    world.settle()
    failed = of_index(world, 1)
    world.end(failed, "Failed")
    world.step()
    world.delete(failed)
    world.step()
    world.now += 3600
    world.settle()
    assert failed.metadata.name not in [pod.metadata.name for pod in world.pods()]
    fail(world, 1)
    status = world.get("jobs", "job").status
    assert (status["failedIndexes"], status["failed"]) == ("1", 2)


def test_a_failed_pod_is_replaced_after_a_pause() -> None:
    world = World()
    a_job(world)
    world.step()
    (pod,) = world.pods()
    at = "2027-01-15T08:00:00Z"
    world.now = 1_800_000_001.0
    world.set_status(
        pod, {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"finishedAt": at}}}]}
    )
    job = world.get("jobs", "job")
    plan = jobs.reconcile(job, world.pods(), world.now)
    assert plan.again_in == pytest.approx(9)
    assert not any(isinstance(action, Create) for action in plan.actions)
    world.now += 10
    world.step()
    assert len(world.pods()) == 2


def test_a_suspended_job_has_no_pods() -> None:
    world = World()
    a_job(world, parallelism=2, completions=2)
    world.step()
    change(world, "jobs", "job", suspend=True)
    world.step()
    world.step()
    assert world.pods() == []
    assert world.get("jobs", "job").status["conditions"][0]["type"] == "Suspended"
    change(world, "jobs", "job", suspend=False)
    world.step()
    assert len(world.pods()) == 2


def test_a_job_ends_when_its_deadline_has_passed() -> None:
    world = World()
    a_job(world, activeDeadlineSeconds=60)
    world.step()
    plan = jobs.reconcile(world.get("jobs", "job"), world.pods(), NOW + 20)
    assert plan.again_in == 40
    world.now = NOW + 60
    world.step()
    assert world.get("jobs", "job").status["conditions"][-1]["reason"] == "DeadlineExceeded"
    assert world.pods() == []


def test_a_finished_job_is_deleted_when_its_time_is_over() -> None:
    world = World()
    a_job(world, ttlSecondsAfterFinished=30)
    world.step()
    world.end(world.pods()[0])
    world.step()
    assert jobs.reconcile(world.get("jobs", "job"), world.pods(), NOW + 10).again_in == 20
    world.now = NOW + 31
    world.step()
    assert ("jobs", "job") not in world.objects


# --- daemon sets -------------------------------------------------------------------------------
def test_a_daemon_set_has_one_pod_for_each_node() -> None:
    nodes = [Node(metadata=ObjectMeta(name=f"n{i}"), status=NodeStatus()) for i in range(3)]
    nodes[2].spec.unschedulable = True
    body = {"metadata": {"name": "d", "uid": "u"}, "spec": {"template": a_template()}}
    daemon_set = msgspec.convert(body, Workload)
    plan = daemon_sets.reconcile(daemon_set, [], nodes, NOW)
    bodies = [action.body for action in plan.actions if isinstance(action, Create)]
    pods = [
        msgspec.convert(merge(body, {"metadata": {"name": f"p{i}"}}), LocalPod)
        for i, body in enumerate(bodies)
    ]
    assert len(pods) == 3
    again = daemon_sets.reconcile(daemon_set, pods, nodes[:2], NOW)
    assert [action.name for action in again.actions if isinstance(action, Delete)] == ["p2"]


@pytest.mark.parametrize(("effect", "deleted"), [("NoSchedule", []), ("NoExecute", ["p"])])
def test_a_daemon_set_leaves_its_pod_where_a_taint_only_keeps_new_ones_away(
    effect: str, deleted: list[str]
) -> None:
    node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus())
    body = {"metadata": {"name": "d", "uid": "u"}, "spec": {"template": a_template()}}
    daemon_set = msgspec.convert(body, Workload)
    [made] = [
        action.body
        for action in daemon_sets.reconcile(daemon_set, [], [node], NOW).actions
        if isinstance(action, Create)
    ]
    pod = msgspec.convert(merge(made, {"metadata": {"name": "p"}}), LocalPod)
    node.spec.taints = [Taint(key="maintenance", effect=effect)]
    plan = daemon_sets.reconcile(daemon_set, [pod], [node], NOW)
    assert [action.name for action in plan.actions if isinstance(action, Delete)] == deleted
    assert not [action for action in plan.actions if isinstance(action, Create)]


async def test_whose_pod_is_refused_is_told():
    class Refusing:
        async def create(self, *_: Any, **__: Any) -> Json:
            raise Forbidden("pods is forbidden: no")

    told = []

    class Events:
        def emit(self, about: Any, *event: str) -> None:
            told.append((about.kind, about.name, *event))

    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    body = {"metadata": {"generateName": "r-", "ownerReferences": [owner]}}
    actor = Actor(Refusing(), Expectations(lambda: NOW), Events())
    with pytest.raises(Forbidden):
        await actor.carry_out([Create(PODS, "ns", body)], "u")
    [(kind, name, level, reason, why)] = told
    assert (kind, name, level, reason) == ("ReplicaSet", "r", "Warning", "FailedCreate")
    assert "pods is forbidden: no" in why
