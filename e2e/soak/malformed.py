"""Objects that are wrong: misspelt, absurd, about what does not exist. Whoever made one has to be told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from e2e.manifests import a_group, a_job, a_pod
from e2e.soak import site
from kai.model import names

Json = dict[str, Any]
_FAR_TOO_MUCH = str(2**63 - 1)
_SAID = {
    "a fraction that is no number": {names.GPU_FRACTION: "half"},
    "a fraction over one": {names.GPU_FRACTION: "1.7"},
    "a fraction that is infinite": {names.GPU_FRACTION: "inf"},
    "memory that is no number": {names.GPU_MEMORY: "10GB"},
    "memory beyond any device": {names.GPU_MEMORY: _FAR_TOO_MUCH},
    "minus two devices": {names.GPU_FRACTION: "0.5", names.GPU_FRACTION_NUM_DEVICES: "-2"},
    "a fraction and memory": {names.GPU_FRACTION: "0.5", names.GPU_MEMORY: "1000"},
}


def draw(rng: random.Random, *, name: str, namespace: str, queue: str) -> tuple[str, tuple[Json, ...]]:
    """What is wrong, in words, and the manifests."""
    if rng.random() < 0.4:
        what = rng.choice(list(_SAID))
        return what, (a_pod(name, namespace, queue, annotations=_SAID[what]),)
    form = rng.choice(_FORMS)
    return form.__name__.strip("_").replace("_", " "), form(name, namespace, queue)


def _a_queue_that_is_not_there(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    return (a_pod(name, namespace, "soak-no-such-queue", gpus=1),)


def _a_queue_with_children(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    return (a_pod(name, namespace, names.DEFAULT_PARENT_QUEUE, gpus=1),)


def _more_gpus_than_any_node(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    return (a_pod(name, namespace, queue, gpus=4096),)


def _more_gpus_than_numbers(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    pod = a_pod(name, namespace, queue)
    pod["spec"]["containers"][0]["resources"]["limits"] = {names.NVIDIA_GPU: _FAR_TOO_MUCH}
    return (pod,)


def _more_cpu_than_numbers(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    pod = a_pod(name, namespace, queue)
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "9E", "memory": "7E"}
    return (pod,)


def _a_gang_without_end(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    return (a_job(name, namespace, queue, pods=2, gang=2**31 - 1, gpus=1),)


def _a_gang_of_minus_one(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    job = a_job(name, namespace, queue, pods=1, gpus=1)
    job["metadata"]["annotations"][names.BATCH_MIN_MEMBER] = "-1"
    return (job,)


def _a_group_without_a_queue(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    pod = a_pod(name, namespace, queue, gpus=1, annotations={names.POD_GROUP_ANNOTATION: name})
    return (a_group(name, namespace, "", minMember=1), pod)


def _parts_in_a_circle(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    parts = [{"name": "a", "parent": "b", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}]
    pod = a_pod(name, namespace, queue, gpus=1, annotations={names.POD_GROUP_ANNOTATION: name})
    return (a_group(name, namespace, queue, subGroups=parts), pod)


def _a_part_that_is_not_there(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    group = a_group(name, namespace, queue, subGroups=[{"name": "a", "minMember": 1}])
    labels, annotations = {names.SUBGROUP_LABEL: "z"}, {names.POD_GROUP_ANNOTATION: name}
    return (group, a_pod(name, namespace, queue, gpus=1, labels=labels, annotations=annotations))


def _a_topology_that_is_not_there(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    job = a_job(name, namespace, queue, pods=1, gang=1, gpus=1)
    wish = {names.TOPOLOGY: "soak-no-such-topology", names.TOPOLOGY_REQUIRED: site.RACK}
    job["metadata"]["annotations"] |= wish
    return (job,)


def _a_claim_of_too_many(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    return _a_claim(name, namespace, queue, {"deviceClassName": site.DRIVER, "count": 2**62})


def _a_claim_of_no_class(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    return _a_claim(name, namespace, queue, {"deviceClassName": "nothing.example.com"})


def _a_claim_with_a_broken_expression(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    selector = {"cel": {"expression": "device.attributes['x'].y.z > 3"}}
    return _a_claim(name, namespace, queue, {"deviceClassName": site.DRIVER, "selectors": [selector]})


def _a_claim(name: str, namespace: str, queue: str, exactly: Json) -> tuple[Json, ...]:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": {names.QUEUE_LABEL: queue}},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    pod = a_pod(name, namespace, queue)
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return (claim, pod)


def _a_volume_that_is_not_there(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    pod = a_pod(name, namespace, queue, gpus=1)
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "soak-no-such-claim"}}]
    return (pod,)


def _affinity_that_makes_no_sense(name: str, namespace: str, queue: str) -> tuple[Json, ...]:
    term = {"matchExpressions": [{"key": "soak.example.com/x", "operator": "Gt", "values": ["much"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return (a_pod(name, namespace, queue, gpus=1, spec={"affinity": {"nodeAffinity": required}}),)


_FORMS: tuple[Callable[[str, str, str], tuple[Json, ...]], ...] = (
    _a_queue_that_is_not_there,
    _a_queue_with_children,
    _more_gpus_than_any_node,
    _more_gpus_than_numbers,
    _more_cpu_than_numbers,
    _a_gang_without_end,
    _a_gang_of_minus_one,
    _a_group_without_a_queue,
    _parts_in_a_circle,
    _a_part_that_is_not_there,
    _a_topology_that_is_not_there,
    _a_claim_of_too_many,
    _a_claim_of_no_class,
    _a_claim_with_a_broken_expression,
    _a_volume_that_is_not_there,
    _affinity_that_makes_no_sense,
)
