"""What each kind of mistake is told as, and that what is in order is told nothing."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from kai.advice import queues as queue_advice
from kai.advice.facts import Capacity, Facts
from kai.advice.finding import Code
from kai.advice.objects import findings
from kai.model.objects import Queue

DOCS = Path(__file__).parents[3] / "docs" / "warnings.md"
NODES = Capacity(
    nodes=4,
    largest={"cpu": 64, "memory": 512 * 2**30, "pods": 110, "nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 7},
    total={"cpu": 256, "memory": 2048 * 2**30, "pods": 440, "nvidia.com/gpu": 32},
    gpu_memory_mib=81559,
    label_keys={"kubernetes.io/hostname", "topology.example.com/rack"},
)
UNBOUND = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def a_queue(name="team", parent="", *, labels=None, **resources):
    amounts = {kind: UNBOUND | resources.get(kind, {}) for kind in ("cpu", "gpu", "memory")}
    spec = {"resources": amounts, **({"parentQueue": parent} if parent else {})}
    return {"kind": "Queue", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def opened(name, access, parent=""):
    """A queue that says who may use it."""
    body = a_queue(name, parent)
    body["spec"]["access"] = access
    return body


def typed(queue):
    return msgspec.convert(queue, Queue)


QUEUES = {
    queue["metadata"]["name"]: typed(queue)
    for queue in (
        a_queue("org", gpu={"quota": 8}, labels={"kai.scheduler/node-pool": ""}),
        a_queue("team-a", "org", gpu={"quota": 5}),
        a_queue("default-parent-queue"),
        a_queue("default-queue", "default-parent-queue"),
        opened("closed", {"namespaces": ["ns-b"]}),
    )
}
FACTS = Facts(
    queues=QUEUES,
    priority_classes={"train", "build", "inference"},
    capacity=NODES,
    device_classes={"fast": ("deviceclass.resource.kubernetes.io/fast", "example.com/fast")},
    namespaces={"ns": {}, "ns-a": {"team": "a"}, "ns-b": {"team": "b"}},
)


def a_template(*, labels=None, annotations=None, limits=None, scheduler="kai-scheduler", **spec):
    containers = [{"name": "main", "resources": {"limits": limits or {}}}]
    return {
        "metadata": {
            "labels": {"kai.scheduler/queue": "team-a"} | (labels or {}),
            "annotations": annotations or {},
        },
        "spec": {"schedulerName": scheduler, "containers": containers, **spec},
    }


def a_pod(**template):
    body = a_template(**template)
    return {"kind": "Pod", "metadata": {"name": "p"} | body["metadata"], "spec": body["spec"]}


def a_job(*, template=None, annotations=None, labels=None, **spec):
    metadata = {"name": "j", "annotations": annotations or {}, "labels": labels or {}}
    return {"kind": "Job", "metadata": metadata, "spec": {"template": template or a_template(), **spec}}


def a_cron_job(job, *, annotations=None, labels=None):
    return {
        "kind": "CronJob",
        "metadata": {"name": "c", "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"jobTemplate": {"metadata": job["metadata"], "spec": job["spec"]}},
    }


def a_deployment(**template):
    return {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 2, "template": a_template(**template)},
    }


def a_daemon_set(*, labels=None, **template):
    return {
        "kind": "DaemonSet",
        "metadata": {"name": "d", "labels": labels or {}},
        "spec": {"template": a_template(**template)},
    }


def a_group(**spec):
    return {
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"queue": "team-a", "minMember": 1, **spec},
    }


def a_topology(*labels):
    levels = [{"nodeLabel": label} for label in labels]
    return {"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": levels}}


def told(body, facts=FACTS):
    where, found = asyncio.run(findings(body["kind"], body, "ns", facts))
    return [(each.code, each.about(where)) for each in found]


HALF = {"gpu-fraction": "0.5"}
NOBODYS_TEMPLATE = {"spec": {"containers": []}}
NOT_A_QUEUE = a_queue("speech", "org", gpu={"quota": 1}, labels={"kai.scheduler/node-pool": "b"})

#: Case -> code, the object, words of the warning.
CASES = {
    "an annotation with a slip": (
        Code.MISSPELT_KEY,
        a_pod(annotations={"gpu-fractoin": "0.5"}),
        "annotation gpu-fractoin is not known and ignored; did you mean annotation gpu-fraction?",
    ),
    "an annotation of a template": (
        Code.MISSPELT_KEY,
        a_deployment(annotations={"gpu_memory": "4096"}),
        "deployment ns/d: annotation gpu_memory is not known",
    ),
    "a label with a slip": (
        Code.MISSPELT_KEY,
        a_pod(labels={"priorityclassname": "train"}),
        "did you mean label priorityClassName?",
    ),
    "a key of ours that there is not": (
        Code.MISSPELT_KEY,
        a_pod(labels={"kai.scheduler/colour": "red"}),
        "kai.scheduler/colour is not known and ignored; nothing reads it",
    ),
    "a queue label with a slip": (
        Code.MISSPELT_KEY,
        a_job(labels={"kai.scheduler/qeue": "team-a"}),
        "did you mean label kai.scheduler/queue?",
    ),
    "an annotation as a label": (
        Code.MISPLACED_KEY,
        a_pod(labels={"gpu-fraction": "0.5"}),
        "label gpu-fraction is ignored; it has to be an annotation",
    ),
    "a label as an annotation": (
        Code.MISPLACED_KEY,
        a_pod(annotations={"kai.scheduler/queue": "team-a"}),
        "it has to be a label",
    ),
    "a batch size on the pods": (
        Code.MISPLACED_KEY,
        a_pod(annotations={"kai.scheduler/batch-min-member": "2"}),
        "set it on the Job itself",
    ),
    "a fraction on the Job": (
        Code.MISPLACED_KEY,
        a_job(annotations=HALF),
        "annotation gpu-fraction is ignored on a Job; set it in spec.template.metadata",
    ),
    "a fraction on a CronJob's Job": (
        Code.UNKNOWN_QUEUE,
        a_cron_job(a_job(template=a_template(labels={"kai.scheduler/queue": "nowhere"}))),
        'cronjob ns/c: queue "nowhere" does not exist',
    ),
    "a queue on a CronJob, whose Jobs are in the one of their pods": (
        Code.MISPLACED_KEY,
        a_cron_job(a_job(), labels={"kai.scheduler/queue": "default-queue"}),
        (
            "cronjob ns/c: label kai.scheduler/queue is ignored on a CronJob; "
            "set it in spec.jobTemplate.metadata"
        ),
    ),
    "a queue on a CronJob's Job that is another than the pods'": (
        Code.IGNORED_VALUE,
        a_cron_job(a_job(labels={"kai.scheduler/queue": "default-queue"})),
        'its own counts: "default-queue"',
    ),
    "a queue on a DaemonSet, whose pods are each on their own": (
        Code.MISPLACED_KEY,
        a_daemon_set(labels={"kai.scheduler/queue": "default-queue"}),
        "label kai.scheduler/queue is ignored on a DaemonSet; set it in spec.template.metadata",
    ),
    "a priority on a CronJob": (
        Code.MISPLACED_KEY,
        a_cron_job(a_job(), labels={"priorityClassName": "build"}),
        "label priorityClassName is ignored on a CronJob; set it in spec.jobTemplate.metadata",
    ),
    "a topology on a CronJob": (
        Code.MISPLACED_KEY,
        a_cron_job(a_job(), annotations={"kai.scheduler/topology": "dc"}),
        "annotation kai.scheduler/topology is ignored on a CronJob",
    ),
    "a batch size on a CronJob": (
        Code.MISPLACED_KEY,
        a_cron_job(a_job(), annotations={"kai.scheduler/batch-min-member": "2"}),
        "is ignored on a CronJob and what it makes, of which one pod is enough; create a Job for a gang",
    ),
    "a batch size on a CronJob's Job": (
        Code.MISPLACED_KEY,
        a_cron_job(a_job(annotations={"kai.scheduler/batch-min-member": "2"})),
        "is ignored on a CronJob and what it makes",
    ),
    "a batch size on what a Deployment makes": (
        Code.MISPLACED_KEY,
        a_deployment(annotations={"kai.scheduler/batch-min-member": "2"}),
        "is ignored on a Deployment and what it makes",
    ),
    "a forgotten scheduler below a CronJob": (
        Code.OTHER_SCHEDULER,
        a_cron_job(
            {**a_job(labels={"kai.scheduler/queue": "team-a"}), "spec": {"template": NOBODYS_TEMPLATE}}
        ),
        "label kai.scheduler/queue has no effect",
    ),
    "mps neither true nor false": (
        Code.IGNORED_VALUE,
        a_pod(annotations={**HALF, "mps": "yes"}),
        'mps "yes"',
    ),
    "a delay without a unit": (
        Code.IGNORED_VALUE,
        a_pod(annotations={"kai.scheduler/preemption-delay": "5"}),
        "for example 5m",
    ),
    "a negative delay": (
        Code.IGNORED_VALUE,
        a_pod(annotations={"kai.scheduler/preemption-delay": "-5m"}),
        "for example 5m",
    ),
    "a grace period in words": (
        Code.IGNORED_VALUE,
        a_pod(annotations={"kai.scheduler/staleness-grace-period": "long"}),
        "for example 60s",
    ),
    "a segment of one": (
        Code.IGNORED_VALUE,
        a_job(annotations={"kai.scheduler/segment-size": "1"}),
        "above 1",
    ),
    "a half-true skip": (
        Code.IGNORED_VALUE,
        a_pod(annotations={"kai.scheduler/skip-podgrouper": "True"}),
        'exactly "true"',
    ),
    "a task priority in words": (
        Code.IGNORED_VALUE,
        a_pod(labels={"kai.scheduler/task-priority": "high"}),
        "whole number",
    ),
    "an unknown preemptibility": (
        Code.IGNORED_VALUE,
        a_pod(labels={"kai.scheduler/preemptibility": "never"}),
        '"never" is ignored',
    ),
    "a container name without a share": (
        Code.NO_EFFECT,
        a_pod(annotations={"gpu-fraction-container-name": "main"}),
        "has no effect without gpu-fraction or gpu-memory",
    ),
    "a scheduler with a slip": (
        Code.MISSPELT_SCHEDULER,
        a_pod(scheduler="kai-schedular"),
        'did you mean "kai-scheduler"?',
    ),
    "a forgotten scheduler": (
        Code.OTHER_SCHEDULER,
        a_job(template=a_template(scheduler="")),
        "label kai.scheduler/queue has no effect",
    ),
    "more than two decimals": (
        Code.ROUNDED_FRACTION,
        a_pod(annotations={"gpu-fraction": "0.333"}),
        "counts as 0.33",
    ),
    "less than a hundredth": (
        Code.ROUNDED_FRACTION,
        a_pod(annotations={"gpu-fraction": "0.001"}),
        "counts as 0.01",
    ),
    "a share and a mig device": (
        Code.CHARGED_TWICE,
        a_pod(annotations=HALF, limits={"nvidia.com/mig-1g.10gb": "1"}),
        "both are charged",
    ),
    "more GPUs than any node has": (
        Code.NO_SUCH_NODE,
        a_pod(limits={"nvidia.com/gpu": "16"}),
        "one pod asks for 16 nvidia.com/gpu, the largest node has 8 nvidia.com/gpu",
    ),
    "more memory than any node has": (
        Code.NO_SUCH_NODE,
        a_deployment(limits={"memory": "1Ti"}),
        "one pod asks for 1024 GiB of memory, the largest node has 512 GiB",
    ),
    "more memory than could be told without an exponent": (
        Code.NO_SUCH_NODE,
        a_deployment(limits={"memory": "900Ti"}),
        "one pod asks for 921600 GiB of memory",
    ),
    "more GPUs than any node has while an init container runs beside a sidecar": (
        Code.NO_SUCH_NODE,
        a_pod(
            limits={"nvidia.com/gpu": "1"},
            initContainers=[
                {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "4"}}},
                {"name": "init", "resources": {"limits": {"nvidia.com/gpu": "6"}}},
            ],
        ),
        "one pod asks for 10 nvidia.com/gpu, the largest node has 8 nvidia.com/gpu",
    ),
    "a mig profile that no node has": (
        Code.NO_SUCH_NODE,
        a_pod(limits={"nvidia.com/mig-7g.80gb": "1"}),
        "nvidia.com/mig-7g.80gb, which no node offers; nodes offer nvidia.com/mig-1g.10gb",
    ),
    "a resource that no node offers and behind which there is no device class": (
        Code.NO_SUCH_NODE,
        a_pod(limits={"example.com/slow": "1"}),
        "it asks for example.com/slow, which no node offers",
    ),
    "parts of more devices than any node has": (
        Code.NO_SUCH_NODE,
        a_pod(annotations={**HALF, "gpu-fraction-num-devices": "9"}),
        "gpu-fraction-num-devices is 9, the largest node has 8 GPUs",
    ),
    "more memory than any GPU has": (
        Code.NO_SUCH_NODE,
        a_pod(annotations={"gpu-memory": "100000"}),
        "the largest GPU has 81559 MiB",
    ),
    "a gang larger than the cluster": (
        Code.GANG_TOO_LARGE,
        a_job(
            annotations={"kai.scheduler/batch-min-member": "5"},
            template=a_template(limits={"nvidia.com/gpu": "8"}),
            parallelism=5,
        ),
        "5 pods that start together ask for 40 nvidia.com/gpu, the cluster never had more than 32",
    ),
    "a gang larger than its Job": (
        Code.GANG_TOO_LARGE,
        a_job(annotations={"kai.scheduler/batch-min-member": "5"}, parallelism=4),
        "batch-min-member is 5 but parallelism 4",
    ),
    "a pod group larger than the cluster": (
        Code.GANG_TOO_LARGE,
        a_group(minMember=500),
        "podgroup ns/g: 500 pods that start together ask for 500 pods",
    ),
    "subgroups larger than the cluster": (
        Code.GANG_TOO_LARGE,
        a_group(minMember=None, subGroups=[{"name": n, "minMember": 300} for n in "ab"]),
        "600 pods",
    ),
    "subgroups where there are none": (
        Code.GANG_TOO_LARGE,
        a_group(minSubGroup=1),
        "spec.minSubGroup (1) exceeds the number of direct child SubGroups (0)",
    ),
    "more children than there are": (
        Code.GANG_TOO_LARGE,
        a_group(
            minMember=None,
            subGroups=[{"name": "a", "minSubGroup": 2}, {"name": "b", "minMember": 1, "parent": "a"}],
        ),
        'subgroup "a": minSubGroup (2) exceeds the number of direct child SubGroups (1)',
    ),
    "more subgroups than there are": (
        Code.GANG_TOO_LARGE,
        a_group(minMember=None, minSubGroup=2, subGroups=[{"name": "a", "minMember": 1}]),
        "spec.minSubGroup (2) exceeds the number of direct child SubGroups (1)",
    ),
    "an empty queue label": (
        Code.NO_QUEUE,
        a_pod(labels={"kai.scheduler/queue": ""}),
        "label kai.scheduler/queue is empty",
    ),
    "a pod group without a queue": (Code.NO_QUEUE, a_group(queue=""), "spec.queue is empty"),
    "a queue that does not exist": (
        Code.UNKNOWN_QUEUE,
        a_pod(labels={"kai.scheduler/queue": "tean-a"}),
        'queue "tean-a" does not exist (did you mean "team-a"?)',
    ),
    "a queue that is no leaf": (
        Code.QUEUE_NOT_LEAF,
        a_group(queue="org"),
        'queue "org" has queues below it (team-a)',
    ),
    "an unknown priority label": (
        Code.UNKNOWN_PRIORITY_CLASS,
        a_job(labels={"priorityClassName": "trian"}),
        'priority class of label priorityClassName "trian" does not exist (did you mean "train"?)',
    ),
    "an unknown priority class in a template": (
        Code.UNKNOWN_PRIORITY_CLASS,
        a_deployment(priorityClassName="urgent"),
        'spec.priorityClassName of its pods "urgent" does not exist',
    ),
    "an unknown priority class of a pod group": (
        Code.UNKNOWN_PRIORITY_CLASS,
        a_group(priorityClassName="urgent"),
        'spec.priorityClassName "urgent" does not exist',
    ),
    "pods above subgroups": (
        Code.PODS_ABOVE_SUBGROUPS,
        a_group(
            minMember=None,
            subGroups=[{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1, "parent": "a"}],
        ),
        'subgroup "a": minMember is set but pods belong to the subgroups below it',
    ),
    "a backoff that there is not": (Code.UNSUPPORTED_BACKOFF, a_group(schedulingBackoff=5), "counts as -1"),
    "a parent with a slip": (
        Code.UNKNOWN_PARENT,
        a_queue("team-b", "orgg"),
        'spec.parentQueue "orgg" does not exist (did you mean "org"?)',
    ),
    "a node pool apart from the parent's": (
        Code.OTHER_NODE_POOL,
        NOT_A_QUEUE,
        'label kai.scheduler/node-pool is "b" but "" on its parent org',
    ),
    "a negative quota": (
        Code.NEGATIVE_AMOUNT,
        a_queue(gpu={"quota": -2}),
        "spec.resources.gpu.quota is -2; write -1 for no bound",
    ),
    "a negative weight": (
        Code.NEGATIVE_WEIGHT,
        a_queue(gpu={"overQuotaWeight": -1}),
        "spec.resources.gpu.overQuotaWeight is -1 and counts as 0",
    ),
    "a limit of nothing": (Code.NOTHING_ALLOWED, a_queue(cpu={"limit": 0}), "may use no cpu at all"),
    "a limit below the quota": (
        Code.LIMIT_BELOW_QUOTA,
        a_queue(gpu={"quota": 5, "limit": 2}),
        "limit 2 is below the quota 5",
    ),
    "memory in gigabytes": (
        Code.WRONG_UNIT,
        a_queue(memory={"quota": 64}),
        "spec.resources.memory.quota is in MB, so 64 is 64 MB; 64 GB are 64000, 64 GiB are 68719",
    ),
    "memory in bytes": (
        Code.WRONG_UNIT,
        a_queue(memory={"limit": 68719476736}),
        "spec.resources.memory.limit is in MB, so 68719476736 is 68.72 PB; as bytes it would be 68719.5",
    ),
    "cores in place of millicores": (Code.WRONG_UNIT, a_queue(cpu={"quota": 128}), "128 cores are 128000"),
    "a quota above the parent's": (
        Code.QUOTA_ABOVE_PARENT,
        a_queue("team-b", "org", gpu={"quota": 9}),
        "gpu quota 9 is more than the 8 of its parent org",
    ),
    "a quota below a child's": (
        Code.QUOTA_ABOVE_PARENT,
        a_queue("org", gpu={"quota": 4}),
        "gpu quota 4 is less than the 5 of its child team-a",
    ),
    "children that want too much together": (
        Code.CHILDREN_ABOVE_QUOTA,
        a_queue("team-b", "org", gpu={"quota": 4}),
        "gpu quotas of the children of org sum up to 9, over its 8",
    ),
    "a queue that is open to no namespace": (
        Code.NOBODY_ADMITTED,
        opened("team-b", {"namespaceSelector": {"matchLabels": {"team": "bb"}}}),
        "spec.access admits namespaces with labels team=bb, and there is no such namespace",
    ),
    "a queue that is open to nobody": (
        Code.NOBODY_ADMITTED,
        opened("team-b", {}),
        "spec.access is empty, so nobody may use it; list namespaces, or remove it",
    ),
    "a queue that is open to those whom its parent keeps out": (
        Code.NOBODY_ADMITTED,
        opened("team-b", {"namespaces": ["ns-a"]}, "closed"),
        "no namespace is admitted by its spec.access and by those of the queues above it alike",
    ),
    "a level of no node": (
        Code.UNKNOWN_NODE_LABEL,
        a_topology("topology.example.com/rak", "kubernetes.io/hostname"),
        (
            "topology t: no node has the label topology.example.com/rak of spec.levels; "
            "did you mean topology.example.com/rack?"
        ),
    ),
}


@pytest.mark.parametrize(("code", "body", "words"), CASES.values(), ids=CASES.keys())
def test_a_mistake_is_told_with_its_code_and_nothing_else_is(code, body, words):
    found = told(body)
    assert [each for each, _ in found] == [code], found
    assert words in found[0][1]
    assert found[0][1].endswith(f"[{code}]")


QUIET = {
    "a queue that is open to a namespace": opened("team-b", {"namespaces": ["ns-b", "not-yet"]}),
    "a queue that is open to a service account": opened("team-b", {"serviceAccounts": ["ns-b/trainer"]}),
    "a pod": a_pod(limits={"nvidia.com/gpu": "8", "memory": "512Gi", "cpu": "64"}),
    "a part of a GPU": a_pod(annotations={**HALF, "gpu-fraction-num-devices": "8", "mps": "true"}),
    "GPU memory": a_pod(annotations={"gpu-memory": "81559"}),
    "a Job as a gang": a_job(
        annotations={"kai.scheduler/batch-min-member": "4"},
        template=a_template(limits={"nvidia.com/gpu": "8"}),
        parallelism=4,
    ),
    "a CronJob": a_cron_job(a_job(labels={"kai.scheduler/queue": "team-a", "priorityClassName": "train"})),
    "a CronJob with what its Jobs say": a_cron_job(
        a_job(labels={"priorityClassName": "train"}),
        labels={"kai.scheduler/queue": "team-a", "priorityClassName": "train"},
    ),
    "periods": a_pod(
        annotations={
            "kai.scheduler/preemption-delay": "1m30s",
            "kai.scheduler/staleness-grace-period": "-1s",
            "kai.scheduler/segment-size": "4",
            "kai.scheduler/skip-podgrouper": "true",
        }
    ),
    "labels and annotations of others": a_deployment(
        labels={"app": "x", "gpu-type": "h100", "queue": "y"},
        annotations={"sidecar.istio.io/inject": "false", "gpu-something": "1"},
    ),
    "what our own processes write": a_pod(
        annotations={
            "pod-group-name": "g",
            "received-resource-type": "Fraction",
            "kai.scheduler/numa-placement-predicted": "0",
        },
        labels={"runai-gpu-group": "x", "kai.scheduler/subgroup-name": "a"},
    ),
    "a pod of another scheduler": a_pod(
        scheduler="volcano", annotations={"gpu-fractoin": "1"}, limits={"nvidia.com/gpu": "99"}
    ),
    "no queue where there is a default": {
        **a_pod(),
        "metadata": {"name": "p"},
    },
    "a queue": a_queue("team-b", "org", gpu={"quota": 3, "limit": 8, "overQuotaWeight": 0}),
    "a queue with its old form among the others": a_queue("team-a", "org", gpu={"quota": 8}),
    "a queue without GPUs": a_queue("cpus", gpu={"quota": 0, "limit": 0, "overQuotaWeight": 0}),
    "amounts that are meant": a_queue(memory={"quota": 64000}, cpu={"quota": 1000, "limit": 256000}),
    "half a terabyte": a_queue(memory={"quota": 549755}),
    "a pod group": a_group(minMember=440),
    "a topology": a_topology("topology.example.com/rack", "kubernetes.io/hostname"),
}


@pytest.mark.parametrize("body", QUIET.values(), ids=QUIET.keys())
def test_what_is_in_order_is_told_nothing(body):
    assert told(body) == []


@pytest.mark.parametrize(
    "body",
    [
        a_pod(labels={"kai.scheduler/queue": "nowhere"}, limits={"nvidia.com/gpu": "99"}),
        a_job(labels={"priorityClassName": "urgent"}),
        a_group(queue="nowhere", minMember=100_000),
        a_queue("team-b", "nowhere", gpu={"quota": 9}),
        a_topology("nowhere"),
    ],
)
def test_of_what_is_not_known_nothing_is_said(body):
    assert told(body, Facts()) == []


@pytest.mark.parametrize(
    ("own", "above", "warned"),
    [(-1, -1, False), (5, -1, False), (-1, 5, True), (5, 5, False), (-7, -1, False)],
)
def test_no_bound_is_infinity_wherever_quotas_are_compared(own, above, warned):
    facts = replace(FACTS, queues={"org": typed(a_queue("org", gpu={"quota": above}))})
    found = [code for code, _ in told(a_queue("team", "org", gpu={"quota": own}), facts)]
    assert (Code.QUOTA_ABOVE_PARENT in found) is warned


@pytest.mark.parametrize("kind", ["gpu", "cpu", "memory"])
def test_siblings_that_want_too_much_together_are_counted_with_the_new_value(kind):
    known = [("org", "", 9000), ("a", "org", 6000), ("b", "org", 3000)]
    queues = {name: typed(a_queue(name, parent, **{kind: {"quota": n}})) for name, parent, n in known}
    facts = replace(FACTS, queues=queues)
    assert told(a_queue("b", "org", **{kind: {"quota": 3000}}), facts) == []
    ((code, text),) = told(a_queue("b", "org", **{kind: {"quota": 4000}}), facts)
    assert code == Code.CHILDREN_ABOVE_QUOTA
    assert f"{kind} quotas of the children of org sum up to 10000, over its 9000" in text


def test_a_queue_label_of_pods_beside_another_of_their_workload_is_ignored():
    template = a_template(labels={"kai.scheduler/queue": "temm-a"})
    ((code, text),) = told(a_job(labels={"kai.scheduler/queue": "team-a"}, template=template))
    assert code == Code.IGNORED_VALUE
    assert 'label kai.scheduler/queue "temm-a" of its pods is ignored, its own counts: "team-a"' in text
    template = a_template(labels={"kai.scheduler/queue": "team-a"})
    assert told(a_job(labels={"kai.scheduler/queue": "team-a"}, template=template)) == []


def test_without_a_default_queue_a_label_is_missing():
    pod = {**a_pod(), "metadata": {"name": "p"}}
    named = {name: queue for name, queue in QUEUES.items() if name != "default-queue"}
    ((code, text),) = told(pod, replace(FACTS, queues=named))
    assert code == Code.NO_QUEUE
    assert "there is no default-queue to stand in" in text


def test_a_cluster_without_nodes_is_no_measure():
    assert told(a_pod(limits={"nvidia.com/gpu": "99"}), replace(FACTS, capacity=Capacity())) == []


@pytest.mark.parametrize("resource", ["example.com/fast", "deviceclass.resource.kubernetes.io/fast"])
def test_what_a_device_class_stands_behind_nodes_need_not_offer(resource):
    assert told(a_pod(limits={resource: "2"}), FACTS) == []
    assert told(a_pod(limits={resource: "2"}), replace(FACTS, device_classes={})) != []


def test_how_many_devices_a_class_has_is_not_known():
    some = replace(FACTS, device_classes={"gpu.nvidia.com": ("nvidia.com/gpu",)})
    gang = a_job(
        annotations={"kai.scheduler/batch-min-member": "50"},
        template=a_template(limits={"nvidia.com/gpu": "10"}),
        parallelism=50,
    )
    assert told(gang, some) == []
    assert len(told(gang, FACTS)) == 2


def test_before_device_classes_are_known_only_what_they_cannot_be_behind_is_judged():
    unknown = replace(FACTS, device_classes=None)
    assert told(a_pod(limits={"example.com/slow": "1", "nvidia.com/gpu": "99"}), unknown) == []
    assert told(a_pod(limits={"cpu": "99"}), unknown) != []


def test_a_part_of_a_gpu_needs_gpus():
    cpus = Capacity(nodes=1, largest={"cpu": 4}, total={"cpu": 4})
    ((code, text),) = told(a_pod(annotations=HALF), replace(FACTS, capacity=cpus))
    assert code == Code.NO_SUCH_NODE
    assert "no node offers GPUs" in text


# --- deletion of queues ------------------------------------------------------------------------
def deleted(name, below=(), **status):
    queue = typed({**a_queue(name), "status": status})
    return [(each.code, each.text) for each in queue_advice.deletion(queue, below)]


def test_a_parent_that_is_deleted_leaves_orphans():
    queues = [typed(a_queue("org")), typed(a_queue("b", "org")), typed(a_queue("a", "org"))]
    below = queue_advice.children("org", queues)
    assert deleted("org", below) == [
        (
            Code.PARENT_DELETED,
            (
                "it is the parent of a, b, where nothing is scheduled without it; "
                "delete those too or give them another spec.parentQueue"
            ),
        )
    ]


def test_many_children_are_not_all_listed():
    ((_, text),) = deleted("org", [f"q{i}" for i in range(8)])
    assert "q0, q1, q2, q3, q4 and 3 more" in text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"allocated": {"nvidia.com/gpu": "8", "cpu": "4500m"}}, "holds 4500m cpu, 8 nvidia.com/gpu"),
        ({"allocated": {"cpu": "1"}, "requested": {"cpu": "4"}}, "holds 1 cpu"),
        ({"allocated": {"cpu": "0"}, "requested": {"cpu": "4"}}, "waits for 4 cpu"),
    ],
    ids=["running", "running and waiting", "waiting"],
)
def test_work_in_a_queue_that_is_deleted_is_abandoned(status, words):
    ((code, text),) = deleted("team", **status)
    assert code == Code.WORK_ABANDONED
    assert f"work in it {words}" in text


def test_of_leaves_and_broken_queues_without_work_nothing_is_said():
    assert not queue_advice.children("leaf", [typed(a_queue("org")), typed(a_queue("leaf", "org"))])
    assert not queue_advice.children("self", [typed(a_queue("self", "self"))])
    assert deleted("leaf") == []


# --- documentation -----------------------------------------------------------------------------
def test_every_code_is_documented_and_every_documented_code_exists():
    rows = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)
    assert rows == [str(code) for code in Code]


def test_every_code_has_a_case():
    shown = {code for code, _, _ in CASES.values()} | {Code.PARENT_DELETED, Code.WORK_ABANDONED}
    assert shown == set(Code)
