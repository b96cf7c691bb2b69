"""Binds that fail, or meet what is there already."""

from __future__ import annotations

from typing import Final

from e2e.hostile.attacks.tenant import Attack, Form, Tenant
from kai.model import names

_KIB: Final = 1024


def binds_that_always_fail(tenant: Tenant, name: str, namespace: str) -> Attack:
    """The ConfigMap for the devices is another's, volumes are not there, ports are taken."""
    map_ = f"{name}-gpu"
    taken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map_, "namespace": namespace}}
    told = {names.GPU_FRACTION: "0.1", names.SHARED_GPU_CONFIGMAP: map_}
    part = tenant.pod(f"{name}-part", namespace, annotations=told)
    volume = tenant.pod(f"{name}-volume", namespace)
    volume["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": f"{name}-none"}}]
    ports = [tenant.pod(f"{name}-port-{number}", namespace) for number in range(6)]
    for pod in ports:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 4242}]
    return Attack(({**taken, "data": {"x": "y"}}, part, volume, *ports))


def maps_as_ours_are_called(tenant: Tenant, name: str, namespace: str) -> Attack:
    pod = tenant.pod(name, namespace, annotations={names.GPU_FRACTION: "0.2"})
    maps = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-shared-gpu-{n}", "namespace": namespace},
            "data": {names.NVIDIA_VISIBLE_DEVICES: "z" * (300 * _KIB)},
        }
        for n in range(3)
    ]
    return Attack((*maps, pod))


FORMS: Final[tuple[Form, ...]] = (
    binds_that_always_fail,
    maps_as_ours_are_called,
)
