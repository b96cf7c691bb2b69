"""What is told of objects of which operators make pods, before there is any pod."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from kai.advice.facts import Capacity, Facts
from kai.advice.finding import Code
from kai.advice.objects import findings
from kai.model.objects import Queue
from kai.workloads.making import OF_OPERATORS

QUEUE = "kai.scheduler/queue"
GPU = "nvidia.com/gpu"
#: Two nodes of eight GPUs.
FACTS = Facts(
    queues={name: msgspec.convert({"metadata": {"name": name}}, Queue) for name in ("team", "default-queue")},
    priority_classes={"train", "build", "inference"},
    capacity=Capacity(
        nodes=2,
        largest={"cpu": 64, "memory": 2**39, "pods": 110, GPU: 8},
        total={"cpu": 128, "memory": 2**40, "pods": 220, GPU: 16},
    ),
    device_classes={},
    namespaces={"ns": {}},
)


def a_template(gpus, *, scheduler="kai-scheduler", labels=None, annotations=None, **spec):
    limits = {GPU: gpus} if gpus else {}
    return {
        "metadata": {"labels": labels or {}, "annotations": annotations or {}},
        "spec": {
            **({"schedulerName": scheduler} if scheduler else {}),
            "containers": [{"name": "main", "resources": {"limits": limits}}],
            **spec,
        },
    }


def an_object(api_version, kind, *, labels=None, annotations=None, **spec):
    said = {QUEUE: "team"} if labels is None else labels
    metadata = {"name": "x", "labels": said, "annotations": annotations or {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def a_pytorch_job(*, workers=2, template=None, masters=0, labels=None, annotations=None, **spec):
    template = template or a_template(8)
    roles = {"Worker": {"replicas": workers, "template": template}}
    if masters:
        roles["Master"] = {"replicas": masters, "template": a_template(8)}
    said = {"labels": labels, "annotations": annotations}
    return an_object("kubeflow.org/v1", "PyTorchJob", **said, pytorchReplicaSpecs=roles, **spec)


def an_mpi_job(workers, **spec):
    roles = {
        "Launcher": {"replicas": 1, "template": a_template(0)},
        "Worker": {"replicas": workers, "template": a_template(8)},
    }
    return an_object("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs=roles, **spec)


def a_ray_spec(replicas, least, *, scheduler="kai-scheduler"):
    group = {
        "groupName": "workers",
        "replicas": replicas,
        "minReplicas": least,
        "template": a_template(8, scheduler=scheduler),
    }
    return {
        "headGroupSpec": {"template": a_template(0, scheduler=scheduler)},
        "workerGroupSpecs": [group],
    }


def a_job_set(replicas, *, depends=False, **spec):
    driver = {"name": "driver", "template": {"spec": {"template": a_template(0)}}}
    workers = {
        "name": "workers",
        "replicas": replicas,
        "template": {"spec": {"parallelism": 2, "completions": 2, "template": a_template(8)}},
        **({"dependsOn": [{"name": "driver", "status": "Ready"}]} if depends else {}),
    }
    return an_object("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[driver, workers], **spec)


def a_leader_worker_set(size, replicas=3):
    template = {"size": size, "workerTemplate": a_template(8)}
    api_version = "leaderworkerset.x-k8s.io/v1"
    return an_object(api_version, "LeaderWorkerSet", replicas=replicas, leaderWorkerTemplate=template)


def a_clique_set(replicas, least):
    spec = {"replicas": replicas, "minAvailable": least, "podSpec": a_template(4)["spec"]}
    template = {"cliques": [{"name": "decode", "spec": spec}]}
    return an_object("grove.io/v1alpha1", "PodCliqueSet", replicas=1, template=template)


def told(body, facts=FACTS):
    where, found = asyncio.run(findings(body["kind"], body, "ns", facts))
    return list(dict.fromkeys((each.code, each.about(where)) for each in found))


#: Case -> the object, how many start together, and what they ask for.
TOO_LARGE = {
    "a PyTorchJob": (a_pytorch_job(workers=59, masters=1), 60, 480),
    "a PyTorchJob by its policy": (
        a_pytorch_job(workers=2, runPolicy={"schedulingPolicy": {"minAvailable": 3}}),
        3,
        24,
    ),
    "a PyTorchJob in segments": (
        a_pytorch_job(
            workers=4, template=a_template(8, annotations={"kai.scheduler/segment-size": "2"}), masters=1
        ),
        5,
        40,
    ),
    "an MPIJob, whose launcher asks for none": (an_mpi_job(3), 4, 24),
    "a Ray cluster": (an_object("ray.io/v1", "RayCluster", **a_ray_spec(9, 3)), 4, 24),
    "a Ray job": (an_object("ray.io/v1", "RayJob", rayClusterSpec=a_ray_spec(9, 3)), 4, 24),
    "a Ray service": (an_object("ray.io/v1", "RayService", rayClusterConfig=a_ray_spec(3, 0)), 4, 24),
    "a Ray cluster on which its operator writes the scheduler": (
        an_object("ray.io/v1", "RayCluster", **a_ray_spec(9, 3, scheduler="")),
        4,
        24,
    ),
    "a JobSet": (a_job_set(2), 5, 32),
    "a LeaderWorkerSet": (a_leader_worker_set(3), 3, 24),
    "a set of cliques": (a_clique_set(9, 5), 5, 20),
}


@pytest.mark.parametrize(("body", "pods", "gpus"), TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_a_gang_that_the_cluster_never_had_room_for_is_told(body, pods, gpus):
    words = f"{pods} pods that start together ask for {gpus} {GPU}, the cluster never had more than 16 {GPU}"
    where = f"{body['kind'].lower()} ns/x"
    assert told(body) == [(Code.GANG_TOO_LARGE, f"{where}: {words} [GangTooLarge]")]


QUIET = {
    "a gang that fits": a_pytorch_job(workers=2),
    "more workers than it needs": a_pytorch_job(workers=60, elasticPolicy={"minReplicas": 2}),
    "more Ray workers than it needs": an_object("ray.io/v1", "RayCluster", **a_ray_spec(60, 2)),
    "jobs that come one after the other": a_job_set(2, startupPolicy={"startupPolicyOrder": "InOrder"}),
    "jobs that wait for others": a_job_set(2, depends=True),
    "gangs that fit one at a time": a_leader_worker_set(2, replicas=60),
    "cliques beyond their least": a_clique_set(60, 4),
    "a pod of another scheduler": a_pytorch_job(
        workers=60, template=a_template(8, scheduler="default-scheduler"), labels={}
    ),
    "a pod of nobody, without a queue": a_pytorch_job(
        workers=60, template=a_template(8, scheduler=""), labels={}
    ),
    "the annotation of a JobSet": a_job_set(1)
    | {"metadata": {"name": "x", "annotations": {"kai.scheduler/batch-min-member": "1"}}},
    "a suspended job": a_pytorch_job(workers=60, runPolicy={"suspend": True}),
    "a role that operators refuse": a_pytorch_job(workers=0),
    "more pods than are looked at": a_pytorch_job(workers=10**9),
    "more labels than anybody writes": a_pytorch_job(
        workers=60, template=a_template(8, labels={f"label-{number}": "x" for number in range(201)})
    ),
    "more annotations than anybody writes": a_pytorch_job(
        workers=60, annotations={f"example.com/{number}": "x" for number in range(201)}
    ),
    "a role of a name that is none": an_object(
        "kubeflow.org/v1",
        "TFJob",
        tfReplicaSpecs={"w" * 254: {"replicas": 60, "template": a_template(8)}},
    ),
    "more than anybody reads": a_pytorch_job(workers=60, template=a_template(8, tolerations=[{}] * 5_000)),
    "pods by a runtime that nobody shows": an_object(
        "trainer.kubeflow.org/v1alpha1", "TrainJob", runtimeRef={"name": "torch"}
    ),
}


@pytest.mark.parametrize("body", QUIET.values(), ids=QUIET.keys())
def test_what_is_in_order_or_not_known_is_told_nothing(body):
    assert told(body) == []


#: Case -> the object, the code, words.
SLIPS = {
    "an annotation of a template": (
        a_pytorch_job(template=a_template(1, annotations={"gpu-fractoin": "0.5"})),
        Code.MISSPELT_KEY,
        "pytorchjob ns/x: annotation gpu-fractoin is not known and ignored",
    ),
    "an annotation of the object": (
        a_pytorch_job(annotations={"kai.scheduler/topologie": "t"}),
        Code.MISSPELT_KEY,
        "annotation kai.scheduler/topologie is not known and ignored",
    ),
    "a queue": (
        a_pytorch_job(labels={QUEUE: "taem"}),
        Code.UNKNOWN_QUEUE,
        'queue "taem" does not exist (did you mean "team"?)',
    ),
    "the queue of a suspended job": (
        a_pytorch_job(labels={QUEUE: "taem"}, runPolicy={"suspend": True}),
        Code.UNKNOWN_QUEUE,
        'queue "taem" does not exist',
    ),
    "a queue that the rule of its kind finds": (
        an_object(
            "nvidia.com/v1alpha1",
            "DynamoGraphDeployment",
            labels={},
            services={"Decode": {"replicas": 1, "extraPodSpec": {"mainContainer": {"image": "x"}}}},
        ),
        Code.UNKNOWN_QUEUE,
        'queue "dynamo" does not exist',
    ),
    "a priority class": (
        a_pytorch_job(labels={QUEUE: "team", "priorityClassName": "urgent"}),
        Code.UNKNOWN_PRIORITY_CLASS,
        'priority class of label priorityClassName "urgent" does not exist',
    ),
    "the name of the scheduler": (
        a_pytorch_job(template=a_template(1, scheduler="kai-schedular")),
        Code.MISSPELT_SCHEDULER,
        'schedulerName "kai-schedular" is not known here; did you mean "kai-scheduler"?',
    ),
    "no scheduler beside a queue": (
        a_pytorch_job(template=a_template(8, scheduler="")),
        Code.OTHER_SCHEDULER,
        f"label {QUEUE} has no effect: its schedulerName is not kai-scheduler",
    ),
    "more GPUs than a node has": (
        an_object("serving.knative.dev/v1", "Service", template=a_template(9)),
        Code.NO_SUCH_NODE,
        f"one pod asks for 9 {GPU}, the largest node has 8 {GPU}",
    ),
}


@pytest.mark.parametrize(("body", "code", "words"), SLIPS.values(), ids=SLIPS.keys())
def test_a_slip_is_told_once_however_many_pods_would_have_it(body, code, words):
    ((found, text),) = told(body)
    assert found == code
    assert words in text


def test_devices_behind_a_class_are_not_counted():
    classes = {"gpu.nvidia.com": (GPU,)}
    assert told(a_pytorch_job(workers=60), replace(FACTS, device_classes=classes)) == []


def test_without_nodes_there_is_no_measure():
    assert told(a_pytorch_job(workers=60), replace(FACTS, capacity=None)) == []


def test_of_kinds_that_nobody_knows_nothing_is_said():
    assert told(an_object("example.com/v1", "PyTorchJob", labels={QUEUE: "taem"})) == []


@pytest.mark.parametrize(("group", "kind"), sorted(OF_OPERATORS))
@pytest.mark.parametrize("spec", [{}, None, [], {"template": None, "replicas": "many"}], ids=str)
def test_an_object_that_says_nothing_is_told_nothing(group, kind, spec):
    body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    assert told(body) == []
