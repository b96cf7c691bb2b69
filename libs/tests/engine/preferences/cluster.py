"""Four nodes in two zones, and what pods say about where they would rather be.

Everything else being equal, packing takes a pod to node-0, where something runs.
"""

import pytest

from kai.engine import Engine
from kai.model.objects import Taint
from kai.snapshot.state import Kind
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_state, add, bound, claiming
from libs.tests.engine.dra.builders import DRIVER, a_claim, a_class, a_request, a_slice, in_cluster

HOSTNAME = "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = ["node-0", "node-1", "node-2", "node-3"]
LABELS = {
    "node-0": {"zone": "a", "disk": "hdd", "cores": "8"},
    "node-1": {"zone": "a", "disk": "ssd", "cores": "16"},
    "node-2": {"zone": "b", "disk": "hdd", "cores": "32", "rack": "r"},
    "node-3": {"zone": "b", "disk": "ssd", "cores": "64"},
}
ZONE_A, ZONE_B = {"node-0", "node-1"}, {"node-2", "node-3"}
ELSEWHERE = {"node-1", "node-2", "node-3"}
PACKED = {"node-0"}
NOWHERE = set()
#: What the pod asks for, and what already runs on node-0 that packs it there.
REQUESTS = {
    "nothing": ({"cpu": "0", "memory": "0"}, {"gpus": 1}),
    "CPU": ({"cpu": "2"}, {"gpus": 1}),
    "a GPU": ({"gpus": 1}, {"gpus": 1}),
    "a part of a GPU": ({"fraction": 0.25}, {"fraction": 0.25, "groups": ("g0",)}),
    "memory of a GPU": ({"gpu_memory_mib": 20_000}, {"gpu_memory_mib": 20_000, "groups": ("g0",)}),
    "a claim": ({}, {"cpu": "8"}),
}


def two_zones(request, *, running=(), taints=None):
    """``running`` are pods as (node, labels) or (node, labels, more)."""
    state = a_state()
    for name in ("default", "other"):
        state.apply(Kind.NAMESPACE, {"metadata": {"name": name, "labels": {"kind": name}}})
    for name in NODES:
        node = a_node(
            name, gpus=0 if request == "a claim" else 8, gpu_memory_mib=80_000, cpu="64", labels=LABELS[name]
        )
        node.spec.taints = list((taints or {}).get(name, ()))
        add(state, node)
    if request == "a claim":
        offer_devices(state)
    packed = a_pod("packed", group="packed", node="node-0", **REQUESTS[request][1])
    add(state, a_group("packed", queue="team", started=NOW), packed)
    for number, (node, labels, *more) in enumerate(running):
        name, told = f"run-{number}", more[0] if more else {}
        namespace = told.get("namespace", "default")
        pod = a_pod(name, group=name, node=node, cpu="0", memory="0", labels=labels, **told)
        add(state, a_group(name, queue="team", started=NOW, namespace=namespace), pod)
    return state


def offer_devices(state):
    slices = (a_slice(name, 8) for name in NODES)
    add(state, in_cluster(a_class(DRIVER, f"device.driver == '{DRIVER}'"), *slices))


def ask(state, name, request, spec, *, group, labels):
    """A pod of a group that is there; where it asks for a claim, its claim."""
    if request == "a claim":
        wanted = a_request("gpu", device_class=DRIVER)
        add(state, in_cluster(a_claim(name, wanted, namespace="default", queue="team")))
        spec = {**spec, **claiming(name)}
    add(state, a_pod(name, group=group, spec=spec, labels=labels, **REQUESTS[request][0]))


def placed(state, config=None):
    return bound(Engine(config).run(state, NOW))


def chosen(request, case, config=None):
    state = two_zones(request, running=case.get("running", ()), taints=case.get("taints"))
    add(state, a_group("new", queue="team", created=1))
    labels = case.get("labels", {"app": "new"})
    ask(state, "new", request, case.get("spec", {}), group="new", labels=labels)
    return set(placed(state, config).values())


def rows(table):
    """Each row for each kind of request."""
    return [
        pytest.param(request, case, expected, id=f"{name} ({request})")
        for name, (case, expected) in table.items()
        for request in REQUESTS
    ]


def goes(request, case, expected):
    """The pod goes to one of the nodes expected; if there are none, nowhere."""
    found = chosen(request, case)
    assert len(found) == (1 if expected else 0)
    assert found <= expected


# --- what pods say -------------------------------------------------------------------------------------
def term(app="x", *, key=HOSTNAME, **more):
    selector = {"matchLabels": {"app": app}} if isinstance(app, str) else app
    return {"topologyKey": key, "labelSelector": selector, **more}


def affinity(kind, *weighted):
    """Preferred terms, each as (weight, term)."""
    terms = [{"weight": weight, "podAffinityTerm": each} for weight, each in weighted]
    return {"affinity": {kind: {PREFERRED: terms}}}


def near(*weighted):
    return affinity("podAffinity", *weighted)


def away(*weighted):
    return affinity("podAntiAffinity", *weighted)


def rather_on(*weighted):
    """Preferred node affinity, each as (weight, expression) or (weight, preference)."""
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [each]} if "key" in each else each}
        for weight, each in weighted
    ]
    return {"affinity": {"nodeAffinity": {PREFERRED: terms}}}


def is_in(key, *values, operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def spread(app="x", *, key="zone", soft=True, skew=1, **more):
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **selector, **more}


def spreads(*constraints, **more):
    return {"topology_spread_constraints": list(constraints), **more}


def hard(*args, **more):
    return spreads(spread(*args, soft=False, **more))


AVOID = Taint(key="busy", effect="PreferNoSchedule")
ALSO = Taint(key="old", effect="PreferNoSchedule")
KEEP_OUT = Taint(key="closed", effect="NoSchedule")
X = {"app": "x"}
ON_SSD = {"node_selector": {"disk": "ssd"}}


def other(**more):
    return {"namespace": "other", **more}


def with_spec(spec):
    return {"spec": spec}
