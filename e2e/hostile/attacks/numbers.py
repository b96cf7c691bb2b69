"""Numbers that are none, or too large, and names of resources that are made up."""

from __future__ import annotations

from typing import Final

from e2e.hostile.attacks.tenant import Attack, Form, Json, Tenant
from kai.model import names


def _requests(pod: Json, amounts: Json) -> Json:
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"] = {"cpu": "100m", **amounts}
    resources["limits"] = dict(amounts)
    return pod


def annotations_that_are_absurd(tenant: Tenant, name: str, namespace: str) -> Attack:
    keys = (
        names.GPU_FRACTION,
        names.GPU_MEMORY,
        names.GPU_FRACTION_NUM_DEVICES,
        names.GPU_FRACTION_CONTAINER,
        names.BATCH_MIN_MEMBER,
        names.SEGMENT_SIZE,
        names.NUMA_OBSERVED,
        names.NUMA_PREDICTED,
        names.RECEIVED_RESOURCE_TYPE,
        names.SHARED_GPU_CONFIGMAP,
    )
    pods = []
    for number in range(6):
        chosen = tenant.rng.sample(keys, tenant.rng.randint(1, 4))
        told = {key: tenant.absurd() for key in chosen}
        pods.append(tenant.pod(f"{name}-{number}", namespace, annotations=told))
    return Attack(tuple(pods))


def amounts_that_are_absurd(tenant: Tenant, name: str, namespace: str) -> Attack:
    amounts = ("9223372036854775807", "9E", "1e18", "1" + "0" * 40, "1n", "0.0000001", "9007199254740993")
    kinds = ("memory", "ephemeral-storage", names.NVIDIA_GPU, "hugepages-2Mi", "nvidia.com/mig-1g.10gb")
    return Attack(
        tuple(
            _requests(
                tenant.pod(f"{name}-{n}", namespace), {tenant.rng.choice(kinds): tenant.rng.choice(amounts)}
            )
            for n in range(5)
        )
    )


def resources_that_are_made_up(tenant: Tenant, name: str, namespace: str) -> Attack:
    many = tenant.rng.choice((60, 64, 2000))
    return Attack(
        tuple(
            _requests(
                tenant.pod(f"{name}-{pod}", namespace),
                {f"{name}.example.com/r-{pod}-{number}": "1" for number in range(many)},
            )
            for pod in range(4 if many < 100 else 1)
        )
    )


FORMS: Final[tuple[Form, ...]] = (
    annotations_that_are_absurd,
    amounts_that_are_absurd,
    resources_that_are_made_up,
)
