"""Workloads that grow while nobody may take their minimum: the API takes it, and no pod is left out.

Each case is a workload before and after, as its operator leaves it, and the group that it is after that.
"""

import pytest
import yaml

from kai.grouping.offline.preview import preview
from kai.grouping.options import GroupingOptions
from kai.model import names

SEMI = {names.PREEMPTIBILITY_LABEL: "semi-preemptible"}
LWS, KUBEFLOW = "leaderworkerset.sigs.k8s.io", "training.kubeflow.org"


def an_owner(api_version, kind, spec):
    meta = {"name": "w", "namespace": "n", "uid": "u", "labels": SEMI}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


def a_pod(owner, name, labels, *, node=""):
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": "w", "uid": "u"}
    meta = {"name": name, "namespace": "n", "uid": name, "labels": labels, "ownerReferences": [reference]}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "x"}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def leader_worker_set(*, ready, **template):
    spec = {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4, **template}}
    owner = an_owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    indices = (0, 1, 2, 3) if ready else (0,)
    return [
        owner,
        *(
            a_pod(
                owner,
                f"w-{index}",
                {f"{LWS}/group-index": "0", f"{LWS}/worker-index": str(index)},
                node="n1" if ready and index == 0 else "",
            )
            for index in indices
        ),
    ]


def ray_cluster(replicas):
    group = {"groupName": "a", "replicas": replicas, "minReplicas": 0, "maxReplicas": 9}
    owner = an_owner("ray.io/v1", "RayCluster", {"headGroupSpec": {}, "workerGroupSpecs": [group]})
    workers = [a_pod(owner, f"a-{number}", {"ray.io/group": "a"}) for number in range(replicas)]
    return [owner, a_pod(owner, "head", {"ray.io/group": "headgroup"}), *workers]


def job_set(*, replicas, parallelism):
    jobs = [{"name": "j", "replicas": replicas, "template": {"spec": {"parallelism": parallelism}}}]
    owner = an_owner("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})
    prefix = "jobset.sigs.k8s.io"
    pods = [
        a_pod(owner, f"j-{i}-{k}", {f"{prefix}/replicatedjob-name": "j", f"{prefix}/job-index": str(i)})
        for i in range(replicas)
        for k in range(parallelism)
    ]
    return [owner, *pods]


def pytorch_job(workers, *, segment=""):
    template = {"metadata": {"annotations": {names.SEGMENT_SIZE: segment}}} if segment else {}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template}}}
    owner = an_owner("kubeflow.org/v1", "PyTorchJob", spec)
    labels = [
        {f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": str(index)}
        for index in range(workers)
    ]
    return [owner, *(a_pod(owner, f"w-{index}", said) for index, said in enumerate(labels))]


def mpi_job(*, launched):
    roles = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    spec = {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": roles}
    owner = an_owner("kubeflow.org/v1", "MPIJob", spec)
    roles = ["worker", "worker", *(["launcher"] if launched else [])]
    labels = [{f"{KUBEFLOW}/job-name": "w", f"{KUBEFLOW}/job-role": role} for role in roles]
    return [owner, *(a_pod(owner, f"w-{number}", said) for number, said in enumerate(labels))]


GROWS = {
    "workers that wait for a leader": (
        leader_worker_set(ready=False),
        leader_worker_set(ready=True),
        "leader:1 workers:3",
    ),
    "segments of workers that wait for a leader": (
        leader_worker_set(ready=False),
        leader_worker_set(ready=True, subGroupPolicy={"subGroupSize": 2}),
        "segment-0:>2 segment-1:2 segment-0/leader:1 segment-0/workers:1",
    ),
    "a worker more": (ray_cluster(1), ray_cluster(2), "headgroup:1 a:1"),
    "the first worker": (ray_cluster(0), ray_cluster(2), "headgroup:1 a:2"),
    "a replica more, and larger ones": (
        job_set(replicas=1, parallelism=1),
        job_set(replicas=2, parallelism=2),
        "j:>2 j/j-replica-0:1 j/j-replica-1:2",
    ),
    "workers of a gang": (pytorch_job(2), pytorch_job(3), "worker:2"),
    "segments of a gang": (
        pytorch_job(3, segment="2"),
        pytorch_job(5, segment="2"),
        "worker:>3 worker/worker-0:2 worker/worker-1:1 worker/worker-2:1",
    ),
    "a launcher that waits for workers": (mpi_job(launched=False), mpi_job(launched=True), "2"),
}


@pytest.mark.parametrize(("before", "after", "tree"), GROWS.values(), ids=GROWS.keys())
async def test_what_grows_is_taken_by_the_api_and_has_all_its_pods(before, after, tree):
    first = await preview(yaml.safe_dump_all(before), GroupingOptions())
    assert first.warnings == ()

    grown = await preview(yaml.safe_dump_all([*after, *first.pod_groups]), GroupingOptions())

    assert grown.warnings == ()
    (group,) = {pod.pod_group for pod in grown.pods}
    assert group
    spec = (grown.pod_groups or first.pod_groups)[0]["spec"]
    assert spec["preemptibility"] == "semi-preemptible"
    assert _tree(spec) == tree


async def test_what_was_lowered_by_hand_stays_so():
    objects = pytorch_job(4)
    (group,) = (await preview(yaml.safe_dump_all(objects), GroupingOptions())).pod_groups
    group["spec"] |= {"minMember": 1, "subGroups": [{"name": "worker", "minMember": 1}]}
    again = await preview(yaml.safe_dump_all([*objects, group]), GroupingOptions())
    assert again.warnings == ()
    assert all(_tree(found["spec"]) == "worker:1" for found in again.pod_groups)


def _tree(spec):
    parts = [
        f"{part['parent'] + '/' if 'parent' in part else ''}{part['name']}:{_needed(part)}"
        for part in spec["subGroups"]
    ]
    return " ".join(parts) or str(spec["minMember"])


def _needed(part):
    return f">{part['minSubGroup']}" if "minSubGroup" in part else part["minMember"]
