"""Resource claims: expensive expressions, and requests that cannot be met."""

from __future__ import annotations

from typing import Final

from e2e.hostile import site
from e2e.hostile.attacks.tenant import Attack, Form, Json, Tenant
from kai.model import names


def _claimed(tenant: Tenant, name: str, namespace: str, devices: Json) -> tuple[Json, ...]:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": {names.QUEUE_LABEL: site.TENANT_QUEUE}},
        "spec": {"devices": devices},
    }
    pod = tenant.pod(name, namespace)
    pod["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": name}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "devices"}]
    return (claim, pod)


def _selected(*expressions: str) -> Json:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"deviceClassName": site.DEVICE_CLASS, "selectors": selectors}


def selectors_that_are_expensive(tenant: Tenant, name: str, namespace: str) -> Attack:
    ones = ",".join(["1"] * 900)
    long = "a" * 2000
    expressions = (
        f"[{ones}].all(a,[{ones}].all(b,[{ones}].all(c,[{ones}].all(d,a+b+c+d<10))))",
        f"cel.bind(s,'{long}',s.replace('a',s).replace('a',s).size()>0)",
        f"[{ones}].all(a,'{long}'.matches('(a|aa|a?)*b'))",
        f"'{long}'.split('').map(a,'{long}'.split('')).size()>0",
        " && ".join(["device.driver.size() > 0"] * 300),
        "(" * 400 + "true" + ")" * 400,
        "device.attributes['x'].y.z > 3",
    )
    chosen = tenant.rng.choice(expressions)
    requests = [
        {"name": f"r{n}", "exactly": _selected(*[chosen] * tenant.rng.choice((1, 30)))}
        for n in range(tenant.rng.choice((1, 30)))
    ]
    return Attack(_claimed(tenant, name, namespace, {"requests": requests}))


def selectors_that_are_all_unlike(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Each is to be evaluated for each device, and none is used again."""
    requests = [
        {"name": f"r{n}", "exactly": _selected(*(f"device.driver != '{name}-{n}-{m}'" for m in range(30)))}
        for n in range(30)
    ]
    return Attack(_claimed(tenant, name, namespace, {"requests": requests}))


def claims_without_a_way_out(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Requests that can each be had, and together only after all choices were tried, in vain."""
    requests = [{"name": f"r{n}", "exactly": {"deviceClassName": site.DEVICE_CLASS}} for n in range(8)]
    constraint = {tenant.rng.choice(("matchAttribute", "distinctAttribute")): f"{site.DRIVER}/index"}
    return Attack(_claimed(tenant, name, namespace, {"requests": requests, "constraints": [constraint]}))


def claims_by_templates(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Each pod makes claims of its own, as many as it may, of which none can be met."""
    requests = [{"name": f"r{n}", "exactly": _selected(f"device.driver == '{name}-{n}'")} for n in range(8)]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    pods = [tenant.pod(f"{name}-{number}", namespace) for number in range(10)]
    for pod in pods:
        pod["spec"]["resourceClaims"] = [
            {"name": f"c{number}", "resourceClaimTemplateName": name} for number in range(5)
        ]
    return Attack((template, *pods))


def a_claim_of_many_pods(tenant: Tenant, name: str, namespace: str) -> Attack:
    claim, pod = _claimed(
        tenant, name, namespace, {"requests": [{"name": "r", "exactly": _selected("true")}]}
    )
    pods = [{**pod, "metadata": {**pod["metadata"], "name": f"{name}-{number}"}} for number in range(30)]
    return Attack((claim, *pods))


FORMS: Final[tuple[Form, ...]] = (
    selectors_that_are_expensive,
    selectors_that_are_all_unlike,
    claims_without_a_way_out,
    claims_by_templates,
    a_claim_of_many_pods,
)
