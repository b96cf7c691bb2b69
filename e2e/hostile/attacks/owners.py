"""Owners, names and ends."""

from __future__ import annotations

from typing import Final

from e2e.hostile import site
from e2e.hostile.attacks.tenant import Attack, Form, Json, Tenant
from e2e.manifests import a_job, members
from kai.model import names

_KIB: Final = 1024


def owners_in_a_circle(tenant: Tenant, name: str, namespace: str) -> Attack:
    return _owners(tenant, name, namespace, tenant.rng.choice((1, 2, 5)), circle=True)


def a_long_line_of_owners(tenant: Tenant, name: str, namespace: str) -> Attack:
    return _owners(tenant, name, namespace, 60, circle=False)


def _owners(tenant: Tenant, name: str, namespace: str, length: int, *, circle: bool) -> Attack:
    def job(number: int, owner: int | None) -> Json:
        found = a_job(f"{name}-{number}", namespace, site.TENANT_QUEUE, pods=1)
        found["spec"]["suspend"] = True
        return _owned(found, None if owner is None else f"{name}-{owner}")

    line = [job(number, number - 1 if number else None) for number in range(length)]
    pod = _owned(tenant.pod(name, namespace), f"{name}-{length - 1}")
    return Attack((*line, *((job(0, length - 1),) if circle else ()), pod))


def _owned(manifest: Json, by: str | None) -> Json:
    if by is not None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": by, "uid": "", "controller": True}
        manifest["metadata"]["ownerReferences"] = [owner]
    return manifest


def owners_that_are_not_there(tenant: Tenant, name: str, namespace: str) -> Attack:
    kinds = (
        ("v1", "Node"),
        ("v1", "Pod"),
        ("nothing.example.com/v1", "Thing"),
        ("v1", "Secret"),
        ("a/b", "C"),
    )
    version, kind = tenant.rng.choice(kinds)
    pods = []
    for number in range(5):
        owner = {"apiVersion": version, "kind": kind, "name": f"{name}-{number}", "uid": f"{name}-{number}"}
        pod = tenant.pod(f"{name}-{number}", namespace)
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        pods.append(pod)
    return Attack(tuple(pods))


def names_that_are_odd(tenant: Tenant, name: str, namespace: str) -> Attack:
    long = f"{name}-" + "n" * (250 - len(name))
    group = tenant.group(f"{name}.{'x' * 60}.{'y' * 60}", namespace, minMember=1)
    odd = (
        "../../etc",
        "a/b",
        "\u0000",
        "\u202e\U0001f4a3",
        "x" * (200 * _KIB),
        f"{site.TEAM_NAMESPACE}/probe-1",
        "{}",
    )
    pods = [
        tenant.pod(f"{name}-{n}", namespace, annotations={names.POD_GROUP_ANNOTATION: value})
        for n, value in enumerate(odd)
    ]
    tale = {names.TOP_OWNER_METADATA: "\u202e{{" * 1000, "é" * 30: "x"}
    pods.append(tenant.pod(f"{name}-owner", namespace, annotations=tale))
    return Attack((tenant.pod(long, namespace), group, *pods))


def objects_that_do_not_end(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Deleted, and held by finalizers."""
    group = tenant.group(name, namespace, minMember=1)
    pods = members(name, namespace, site.TENANT_QUEUE, "", 4, annotations={names.GPU_FRACTION: "0.1"})
    for manifest in (group, *pods):
        manifest["metadata"]["finalizers"] = ["hostile.example.com/never"]
    return Attack((group, *pods), lasts=8.0)


FORMS: Final[tuple[Form, ...]] = (
    owners_in_a_circle,
    a_long_line_of_owners,
    owners_that_are_not_there,
    names_that_are_odd,
    objects_that_do_not_end,
)
