"""Work of all forms that users bring, drawn from a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.manifests import a_claim, a_group, a_job, a_pod, a_template, members, with_volume
from e2e.soak import site
from kai.model import names

Json = dict[str, Any]

_CLASSES = ("", "", "", "train", "build-preemptible", "build", "inference")
_TERMINATE_SECONDS = "kai.local/terminate-seconds"
_RUN_SECONDS, _EXIT_CODE = "kai.local/run-seconds", "kai.local/exit-code"


@dataclass(frozen=True, slots=True)
class Work:
    """What a user applies. ``later`` is what he changes some time after: object and patch."""

    manifests: tuple[Json, ...]
    #: Set where the number of replicas may be changed.
    scalable: Json | None = None
    later: tuple[tuple[Json, Json], ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """For whom the work is, and the dice."""

    rng: random.Random
    name: str
    namespace: str
    queue: str

    def template(self, **more: Any) -> dict[str, Any]:
        """What pods of all forms have in common, drawn: labels, annotations, requests, how they end."""
        labels, annotations = dict(more.pop("labels", {})), dict(more.pop("annotations", {}))
        if chosen := self.rng.choice(_CLASSES):
            labels.setdefault("priorityClassName", chosen)
        if self.rng.random() < 0.15:
            labels.setdefault(names.PREEMPTIBILITY_LABEL, self.rng.choice(["preemptible", "non-preemptible"]))
        if self.rng.random() < 0.2:
            annotations[_TERMINATE_SECONDS] = str(self.rng.choice([1, 3, 8]))
        if self.rng.random() < 0.1:
            annotations[names.PREEMPTION_DELAY] = self.rng.choice(["5s", "30s"])
        if self.rng.random() < 0.35:
            more["requests"] = {
                "cpu": self.rng.choice(["250m", "1", "2"]),
                "memory": self.rng.choice(["256Mi", "1Gi", "3Gi"]),
            }
        return {"labels": labels, "annotations": annotations, **more}

    def pod(self, suffix: str = "", **more: Any) -> Json:
        """A pod without owner."""
        return a_pod(f"{self.name}{suffix}", self.namespace, self.queue, **self.template(**more))

    def job(self, *, pods: int, gang: int = 0, **more: Any) -> Json:
        """A Job of so many pods."""
        return a_job(self.name, self.namespace, self.queue, pods=pods, gang=gang, **self.template(**more))


def draw(rng: random.Random, *, name: str, namespace: str, queue: str) -> tuple[str, Work]:
    """Some work and the name of its form."""
    [(form, _)] = rng.choices(list(_FORMS), weights=[weight for _, weight in _FORMS])
    work = form(Draft(rng, name, namespace, queue))
    return form.__name__.strip("_").replace("_", " "), work


# --- pods --------------------------------------------------------------------------------------
def _whole_gpus(draft: Draft) -> Work:
    ends = {_RUN_SECONDS: str(draft.rng.randint(5, 60))} if draft.rng.random() < 0.4 else {}
    pod = draft.pod(gpus=draft.rng.choice([1, 1, 1, 2, 2, 4, 8]), annotations=ends)
    if ends:
        pod["spec"]["restartPolicy"] = "Never"
    return Work((pod,))


def _no_gpu(draft: Draft) -> Work:
    pod = draft.pod()
    wanted = {"cpu": draft.rng.choice(["50m", "1", "4"]), "memory": draft.rng.choice(["64Mi", "4Gi"])}
    pod["spec"]["containers"][0]["resources"]["requests"] = wanted
    return Work((pod,))


def _no_requests(draft: Draft) -> Work:
    pod = draft.pod()
    pod["spec"]["containers"][0]["resources"] = {}
    return Work((pod,))


def _fractions(draft: Draft) -> Work:
    part = draft.rng.choice(["0.25", "0.3", "0.5", "0.5", "0.7"])
    count = draft.rng.randint(1, 4)
    return Work(tuple(draft.pod(f"-{n}", annotations={names.GPU_FRACTION: part}) for n in range(count)))


def _gpu_memory(draft: Draft) -> Work:
    wanted = str(draft.rng.choice([4000, 10000, 20000, 39000, 60000]))
    count = draft.rng.randint(1, 3)
    return Work(tuple(draft.pod(f"-{n}", annotations={names.GPU_MEMORY: wanted}) for n in range(count)))


def _parts_of_several_devices(draft: Draft) -> Work:
    many = str(draft.rng.choice([2, 2, 3]))
    part = {names.GPU_FRACTION: draft.rng.choice(["0.3", "0.5"])}
    return Work((draft.pod(annotations={names.GPU_FRACTION_NUM_DEVICES: many, **part}),))


def _mig(draft: Draft) -> Work:
    pod = draft.pod()
    profile = draft.rng.choice(list(site.MIG_PROFILES))
    pod["spec"]["containers"][0]["resources"]["limits"] = {f"{names.MIG_PREFIX}{profile}": "1"}
    return Work((pod,))


def _numa(draft: Draft) -> Work:
    gpus = draft.rng.choice([1, 2, 4])
    pod = draft.pod(gpus=gpus, spec={"nodeSelector": {site.POOL: "numa"}})
    amounts = {"cpu": str(gpus), "memory": "1Gi"}
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"], resources["requests"] = resources["limits"] | amounts, amounts
    return Work((pod,))


def _volume(draft: Draft) -> Work:
    claim = a_claim(draft.name, draft.namespace, storage_class=site.STORAGE_CLASS)
    return Work((claim, with_volume(draft.pod(gpus=draft.rng.choice([0, 1])), draft.name)))


def _gated(draft: Draft) -> Work:
    pod = draft.pod(gpus=1, spec={"schedulingGates": [{"name": "soak.example.com/wait"}]})
    return Work((pod,), later=((pod, {"spec": {"schedulingGates": []}}),))


# --- claims ------------------------------------------------------------------------------------
def _with_claim(pod: Json, **source: str) -> Json:
    pod["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return pod


def _devices(count: int) -> Json:
    exactly = {"deviceClassName": site.DRIVER, "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def _claims_of_their_own(draft: Draft) -> Work:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": draft.name, "namespace": draft.namespace},
        "spec": {"spec": _devices(draft.rng.choice([1, 1, 2]))},
    }
    pods = [draft.pod(f"-{n}") for n in range(draft.rng.randint(1, 3))]
    return Work((template, *(_with_claim(pod, resourceClaimTemplateName=draft.name) for pod in pods)))


def _shared_claim(draft: Draft) -> Work:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": draft.name,
            "namespace": draft.namespace,
            "labels": {names.QUEUE_LABEL: draft.queue},  # which a claim of several pods needs
        },
        "spec": _devices(1),
    }
    pods = [draft.pod(f"-{n}") for n in range(draft.rng.randint(2, 3))]
    return Work((claim, *(_with_claim(pod, resourceClaimName=draft.name) for pod in pods)))


def _extended_resource(draft: Draft) -> Work:
    pods = [draft.pod(f"-{n}") for n in range(draft.rng.randint(1, 3))]
    for pod in pods:
        count = draft.rng.choice(["1", "1", "2"])
        pod["spec"]["containers"][0]["resources"]["limits"] = {site.DEVICE: count}
    return Work(tuple(pods))


# --- gangs -------------------------------------------------------------------------------------
def _gang(draft: Draft) -> Work:
    pods = draft.rng.randint(2, 6)
    size = {"gpus": draft.rng.choice([0, 1, 1, 2])}
    if draft.rng.random() < 0.2:
        size = {"annotations": {names.GPU_FRACTION: "0.5"}}
    return Work((draft.job(pods=pods, gang=pods, **size),))


def _gang_in_a_topology(draft: Draft) -> Work:
    pods = draft.rng.randint(2, 4)
    job = draft.job(pods=pods, gang=pods, gpus=draft.rng.choice([1, 2, 4]))
    level = draft.rng.choice([site.ZONE, site.RACK])
    wish = draft.rng.choice([names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED])
    job["metadata"]["annotations"] |= {names.TOPOLOGY: site.TOPOLOGY, wish: level}
    return Work((job,))


def _parts(draft: Draft) -> Work:
    needed = {"left": draft.rng.randint(1, 3), "right": draft.rng.randint(1, 2)}
    parts: list[Json] = [{"name": part, "minMember": count} for part, count in needed.items()]
    spec: Json = {"subGroups": parts}
    if draft.rng.random() < 0.3:
        spec["minSubGroup"] = 1
    group = a_group(draft.name, draft.namespace, draft.queue, **spec)
    template = draft.template(gpus=draft.rng.choice([0, 1]))
    pods = []
    for part, count in needed.items():
        extra = draft.rng.choice([0, 0, 1])
        for pod in members(draft.name, draft.namespace, draft.queue, part, count + extra, **_copy(template)):
            pod["metadata"]["name"] = f"{draft.name}-{pod['metadata']['name']}"
            pods.append(pod)
    return Work((group, *pods))


def _elastic(draft: Draft) -> Work:
    needed = draft.rng.randint(1, 3)
    group = a_group(draft.name, draft.namespace, draft.queue, minMember=needed)
    count = needed + draft.rng.randint(1, 4)
    template = draft.template(gpus=1)
    return Work((group, *members(draft.name, draft.namespace, draft.queue, "", count, **template)))


def _flow(draft: Draft) -> Work:
    """A kind that only a Karta definition describes; the soak plays its operator."""
    workers = draft.rng.randint(1, 3)
    flow = {
        "apiVersion": site.FLOW_API_VERSION,
        "kind": "Flow",
        "metadata": {
            "name": draft.name,
            "namespace": draft.namespace,
            "labels": {names.QUEUE_LABEL: draft.queue},
        },
        "spec": {"master": {"replicas": 1}, "worker": {"replicas": workers}},
    }
    template = draft.template(gpus=draft.rng.choice([0, 1]))
    pods = []
    for role, count in (("master", 1), ("worker", workers)):
        for number in range(count):
            each = _copy(template)
            each["labels"]["role"] = role
            pod = a_pod(f"{draft.name}-{role}-{number}", draft.namespace, draft.queue, **each)
            pod["metadata"]["ownerReferences"] = [_owned_by(flow)]
            pods.append(pod)
    return Work((flow, *pods))


def _owned_by(manifest: Json) -> Json:
    """A reference whose uid the performer fills in, once the owner has one."""
    meta = {"name": manifest["metadata"]["name"], "uid": ""}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "controller": True, **meta}


# --- what controllers keep up ------------------------------------------------------------------
def _deployment(draft: Draft) -> Work:
    body = a_template(draft.queue, **draft.template(gpus=draft.rng.choice([0, 0, 1])))
    if draft.rng.random() < 0.3:
        body = a_template(draft.queue, **draft.template(annotations={names.GPU_FRACTION: "0.25"}))
    if draft.rng.random() < 0.3:
        body["spec"]["affinity"] = _apart(draft)
    return _kept_up(draft, "Deployment", body)


def _stateful_set(draft: Draft) -> Work:
    body = a_template(draft.queue, **draft.template(gpus=draft.rng.choice([0, 1])))
    return _kept_up(draft, "StatefulSet", body, serviceName=draft.name)


def _kept_up(draft: Draft, kind: str, template: Json, **spec: Any) -> Work:
    template["metadata"]["labels"]["app"] = draft.name
    body = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": draft.name,
            "namespace": draft.namespace,
            "labels": {names.QUEUE_LABEL: draft.queue},
        },
        "spec": {
            "replicas": draft.rng.randint(1, 4),
            "selector": {"matchLabels": {"app": draft.name}},
            "template": template,
            **spec,
        },
    }
    return Work((body,), scalable=body)


def _apart(draft: Draft) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": draft.name}}, "topologyKey": "kubernetes.io/hostname"}
    if draft.rng.random() < 0.5:
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    soft = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [soft]}}


def _job(draft: Draft) -> Work:
    ends = {_RUN_SECONDS: str(draft.rng.randint(3, 30))}
    if draft.rng.random() < 0.3:
        ends[_EXIT_CODE] = "1"
    job = draft.job(pods=draft.rng.randint(1, 4), gpus=draft.rng.choice([0, 1]), annotations=ends)
    job["spec"]["backoffLimit"] = 3
    return Work((job,))


def _suspended_job(draft: Draft) -> Work:
    job = draft.job(pods=2, gang=2, gpus=1)
    job["spec"]["suspend"] = True
    return Work((job,), later=((job, {"spec": {"suspend": False}}), (job, {"spec": {"suspend": True}})))


def _cron_job(draft: Draft) -> Work:
    """A Job each minute, none beside the one before; suspended and resumed by hand, too."""
    ends = {_RUN_SECONDS: str(draft.rng.randint(3, 30))}
    job = draft.job(pods=draft.rng.randint(1, 2), gpus=draft.rng.choice([0, 1]), annotations=ends)
    body = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": job["metadata"],
        "spec": {
            "schedule": "* * * * *",
            "concurrencyPolicy": draft.rng.choice(["Forbid", "Replace"]),
            "jobTemplate": {"metadata": {"labels": job["metadata"]["labels"]}, "spec": job["spec"]},
        },
    }
    return Work((body,), later=((body, {"spec": {"suspend": True}}), (body, {"spec": {"suspend": False}})))


def _disruption_budget(draft: Draft) -> Work:
    """A Deployment of which most pods may not be evicted through the API."""
    work = _deployment(draft)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": draft.name, "namespace": draft.namespace},
        "spec": {
            "selector": {"matchLabels": {"app": draft.name}},
            **draft.rng.choice([{"minAvailable": 2}, {"maxUnavailable": 1}, {"minAvailable": "100%"}]),
        },
    }
    return Work((*work.manifests, budget), scalable=work.scalable)


def _copy(template: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(value) if isinstance(value, dict) else value for key, value in template.items()}


_FORMS: tuple[tuple[Callable[[Draft], Work], float], ...] = (
    (_whole_gpus, 6),
    (_no_gpu, 3),
    (_no_requests, 1),
    (_fractions, 6),
    (_gpu_memory, 4),
    (_parts_of_several_devices, 3),
    (_mig, 3),
    (_numa, 3),
    (_volume, 3),
    (_gated, 2),
    (_claims_of_their_own, 4),
    (_shared_claim, 3),
    (_extended_resource, 3),
    (_gang, 6),
    (_gang_in_a_topology, 3),
    (_parts, 4),
    (_elastic, 3),
    (_flow, 3),
    (_deployment, 4),
    (_stateful_set, 3),
    (_job, 4),
    (_suspended_job, 2),
    (_cron_job, 2),
    (_disruption_budget, 2),
)
