"""Many pods, large ones, and ones that are all unlike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from e2e.hostile import site
from e2e.hostile.attacks.tenant import Attack, Form, Json, Patched, Tenant
from e2e.manifests import a_deployment, a_job
from kai.model import names

_KIB: Final = 1024


def _gated(pod: Json) -> Json:
    pod["spec"]["schedulingGates"] = [{"name": "hostile.example.com/never"}]
    return pod


def _breath(replicas: int, text: str) -> Json:
    return {"spec": {"replicas": replicas, "template": {"metadata": {"annotations": {"of": text}}}}}


def gated_pods_of_200_kilobytes(tenant: Tenant, name: str, namespace: str) -> Attack:
    pods = []
    for number in range(20):
        pod = _gated(tenant.pod(f"{name}-{number}", namespace, labels={"unlike": f"{name}-{number}"}))
        pod["spec"]["containers"][0]["env"] = [{"name": f"E{n}", "value": "x" * _KIB} for n in range(200)]
        pod["metadata"]["annotations"]["large"] = "y" * (50 * _KIB)
        pods.append(pod)
    return Attack(tuple(pods))


def pods_that_are_all_unlike(tenant: Tenant, name: str, namespace: str) -> Attack:
    """No two of a scheduling class."""
    pods = []
    for number in range(40):
        own = f"{name}-{number}"
        pod = tenant.pod(
            own, namespace, labels={"of": own}, spec={"nodeSelector": {f"x.example.com/{own}": "y"}}
        )
        pod["spec"]["tolerations"] = [{"key": own, "operator": "Exists"}]
        pods.append(pod)
    return Attack(tuple(pods))


def lists_without_end(tenant: Tenant, name: str, namespace: str) -> Attack:
    long = tenant.rng.choice((500, 513, 3000))
    pods = [tenant.pod(f"{name}-{number}", namespace) for number in range(4)]
    pods[0]["spec"]["tolerations"] = [{"key": f"k{n}", "operator": "Exists"} for n in range(long)]
    pods[1]["spec"]["nodeSelector"] = {f"k{n}.example.com/x": "y" for n in range(long // 2)}
    expressions = [{"key": f"k{n}", "operator": "NotIn", "values": ["a", "b"]} for n in range(long)]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    pods[2]["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pods[3]["spec"]["containers"] = [
        {"name": f"c{n}", "image": "x", "resources": {"requests": {"cpu": "1m"}}} for n in range(long)
    ]
    return Attack(tuple(pods))


def terms_about_other_pods(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Each of many pods wants to be near and far from all others, by hundreds of terms."""
    kind = tenant.rng.choice(("podAffinity", "podAntiAffinity"))
    preferred = tenant.rng.random() < 0.5
    pods = []
    for number in range(10):
        found = [
            {
                "topologyKey": tenant.rng.choice(("kubernetes.io/hostname", f"k{n}.example.com/zone")),
                "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"}]},
            }
            for n in range(tenant.rng.choice((50, 400)))
        ]
        wished: list[Json] = (
            [{"weight": 100, "podAffinityTerm": term} for term in found] if preferred else found
        )
        when = "preferred" if preferred else "required"
        affinity = {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": wished}}
        pods.append(tenant.pod(f"{name}-{number}", namespace, spec={"affinity": affinity}))
    return Attack(tuple(pods))


def terms_as_long_as_they_may_be(tenant: Tenant, name: str, namespace: str) -> Attack:
    """All pods and all nodes are held against as much as one pod may say, in words that no other pod uses.

    Who keeps away from others keeps away from nobody: where he ran they had no room, and by right.
    """

    def unwanted(keys: Iterable[str], *said: object) -> list[Json]:
        value = "-".join(map(str, (name, *said)))
        return [{"key": key, "operator": "NotIn", "values": [value]} for key in keys]

    pods = []
    for number in range(10):
        kind = tenant.rng.choice(("podAffinity", "podAntiAffinity"))
        last = {"key": "b", "operator": "DoesNotExist" if kind == "podAffinity" else "Exists"}
        terms = [
            {
                "topologyKey": "kubernetes.io/hostname",
                "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [*unwanted(("of", "app", "a"), number, term), last]},
            }
            for term in range(64)
        ]
        nodes = [
            {"matchExpressions": unwanted(["kubernetes.io/hostname"] * 20, number, term)}
            for term in range(12)
        ]
        affinity = {
            kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": nodes}},
        }
        labels = {"of": f"{name}-{number}"}
        pods.append(tenant.pod(f"{name}-{number}", namespace, labels=labels, spec={"affinity": affinity}))
    return Attack(tuple(pods))


def pods_that_keep_everybody_away(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Anti-affinity against all pods of all namespaces, from a pod that may run."""
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": {}}
    avoid = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    never = {"nodeSelector": {"hostile.example.com/nowhere": "x"}}
    return Attack((tenant.pod(name, namespace, spec={"affinity": avoid, **never}),))


def spread_in_many_ways(tenant: Tenant, name: str, namespace: str) -> Attack:
    wishes = [
        {
            "maxSkew": tenant.rng.choice((1, 2**31 - 1)),
            "topologyKey": f"k{n}.example.com/zone",
            "whenUnsatisfiable": tenant.rng.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"of": name}},
        }
        for n in range(tenant.rng.choice((64, 65)))
    ]
    spec = {"topologySpreadConstraints": wishes}
    return Attack(
        tuple(tenant.pod(f"{name}-{n}", namespace, labels={"of": name}, spec=spec) for n in range(8))
    )


def a_flood(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Pods that are deleted as soon as they are there."""
    return Attack(
        tuple(tenant.pod(f"{name}-{n}", namespace) for n in range(40)), lasts=tenant.rng.uniform(0.5, 3)
    )


def a_flood_of_parts(tenant: Tenant, name: str, namespace: str) -> Attack:
    """The same with pods for which devices have to be reserved."""
    parts = {names.GPU_FRACTION: "0.1"}
    pods = tuple(tenant.pod(f"{name}-{n}", namespace, annotations=parts) for n in range(15))
    return Attack(pods, lasts=tenant.rng.uniform(0.5, 4))


def a_large_job(tenant: Tenant, name: str, namespace: str) -> Attack:
    job = a_job(name, namespace, site.TENANT_QUEUE, pods=60, gang=tenant.rng.choice((0, 60)))
    return Attack((job,))


def a_workload_that_breathes(tenant: Tenant, name: str, namespace: str) -> Attack:
    """A Deployment that grows and shrinks all the time, each time with another template."""
    deployment = a_deployment(name, namespace, site.TENANT_QUEUE)
    later = [
        Patched(1.5 * turn, deployment, _breath(size, str(turn) * _KIB))
        for turn, size in enumerate((0, 30, 1, 25, 0, 10), 1)
    ]
    return Attack((deployment,), tuple(later))


def budgets_that_forbid_everything(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Dozens for the same pods: whoever evicts one has to do with all of them."""
    pods = [tenant.pod(f"{name}-{n}", namespace, labels={"of": name}, gpus=1) for n in range(4)]
    amounts: tuple[int | str, ...] = (0, 2**31 - 1, "100%")
    budgets = [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"{name}-{n}", "namespace": namespace},
            "spec": {
                tenant.rng.choice(("minAvailable", "maxUnavailable")): tenant.rng.choice(amounts),
                "selector": tenant.rng.choice(({}, {"matchLabels": {"of": name}})),
            },
        }
        for n in range(40)
    ]
    return Attack((*budgets, *pods))


def budgets_of_many_expressions(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Dozens that mean nearly everybody, each in its own words, of which one after the other changes."""
    pods = [tenant.pod(f"{name}-{n}", namespace, labels={"of": name, "n": str(n)}, gpus=1) for n in range(4)]

    def selector(turn: int, size: int) -> Json:
        unwanted = [{"key": f"k{turn}-{n}", "operator": "NotIn", "values": ["x"]} for n in range(size)]
        return {"matchLabels": tenant.rng.choice(({}, {"of": name})), "matchExpressions": unwanted}

    budgets = [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"{name}-{n}", "namespace": namespace},
            "spec": {
                "maxUnavailable": tenant.rng.choice((0, "100%")),
                "selector": selector(n, tenant.rng.choice((1, 32, 33, 500))),
            },
        }
        for n in range(40)
    ]
    later = [
        Patched(0.5 * turn, budget, {"spec": {"selector": selector(1000 + turn, 32)}})
        for turn, budget in enumerate(budgets[:12], 1)
    ]
    return Attack((*budgets, *pods), tuple(later))


def labels_changed_all_the_time(tenant: Tenant, name: str, namespace: str) -> Attack:
    pods = [tenant.pod(f"{name}-{n}", namespace, spec={"nodeSelector": {"x": "y"}}) for n in range(4)]
    later = [
        Patched(0.4 * turn, pod, {"metadata": {"labels": {f"l{turn}": f"{name}-{turn}", "of": f"v{turn}"}}})
        for pod in pods
        for turn in range(1, 12)
    ]
    return Attack(tuple(pods), tuple(later))


FORMS: Final[tuple[Form, ...]] = (
    gated_pods_of_200_kilobytes,
    pods_that_are_all_unlike,
    lists_without_end,
    terms_about_other_pods,
    terms_as_long_as_they_may_be,
    pods_that_keep_everybody_away,
    spread_in_many_ways,
    a_flood,
    a_flood_of_parts,
    a_large_job,
    a_workload_that_breathes,
    budgets_that_forbid_everything,
    budgets_of_many_expressions,
    labels_changed_all_the_time,
)
