"""What a pod's specification says beside amounts and affinity is heeded."""

from dataclasses import replace

import pytest

from kai.engine import Engine
from kai.model.objects import (
    Container,
    ContainerPort,
    ResourceRequirements,
    Taint,
    Toleration,
)
from kai.model.rules.volumes import SELECTED_NODE
from kai.snapshot.refusals import FIRST_SECONDS, IN_A_ROW
from kai.snapshot.state import Kind
from libs.tests.counted import Counted
from libs.tests.engine.builders import (
    NOW,
    a_node,
    a_single,
    a_state,
    add,
    bound,
    claiming,
    config,
    cycle,
    nodes,
    task_of,
    without,
)
from libs.tests.engine.dra.builders import a_class, a_slice, in_cluster


# --- priority ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("policy", "evicted"), [(None, 1), ("PreemptLowerPriority", 1), ("Never", 0)])
def test_a_pod_whose_preemption_policy_is_never_takes_nobodys_place(policy, evicted):
    state = a_state(nodes(1, gpus=2, cpu="8"))
    add(state, a_single("low", on="n0", gpus=2))
    add(state, a_single("high", priority="inference", gpus=2, created=1, spec={"preemption_policy": policy}))
    result = cycle(state)
    assert len(result.evictions) == evicted
    assert ("preemptionPolicy is Never" in str(result.outcomes)) is not bool(evicted)


def test_it_still_goes_before_others_to_what_is_free():
    state = a_state(nodes(1, gpus=2, cpu="8"))
    add(state, a_single("low", gpus=2))
    add(state, a_single("high", priority="inference", gpus=2, created=1, spec={"preemption_policy": "Never"}))
    assert bound(cycle(state)) == {"high": "n0"}


# --- where it is, and whether it may be placed ---------------------------------------------------------
def test_a_pod_that_names_its_node_is_there_and_is_charged():
    state = a_state(nodes(1, gpus=2, cpu="8"))
    add(state, a_single("placed", on="n0", phase="Pending", gpus=2))
    add(state, a_single("new", gpus=1, created=1))
    assert bound(cycle(state, config("allocate"))) == {}


def test_a_gated_pod_waits_until_its_gates_are_gone():
    state = a_state(nodes(1, gpus=2, cpu="8"))
    add(state, a_single("new", gpus=1, gated=True))
    assert bound(cycle(state)) == {}
    add(state, a_single("new", gpus=1))
    assert bound(cycle(state)) == {"new": "n0"}


def test_pods_of_other_schedulers_are_charged_and_left_alone():
    state = a_state(nodes(1, gpus=2, cpu="8"))
    add(state, a_single("theirs", on="n0", gpus=1, scheduler="default-scheduler"))
    add(state, a_single("waits", gpus=1, scheduler="default-scheduler", created=1))
    add(state, a_single("new", gpus=2, created=2))
    assert bound(cycle(state)) == {}


KEEP_OUT = Taint(key="closed", value="yes", effect="NoSchedule")
SLA = Taint(key="sla", value="950", effect="NoSchedule")
LEAVE = Taint(key="closed", value="yes", effect="NoExecute")


def required(*expressions):
    terms = [{"matchExpressions": [each]} for each in expressions]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "taint", "expected"),
    [
        ({"node_selector": {"disk": "ssd"}}, None, "n1"),
        ({"node_selector": {"disk": "tape"}}, None, ""),
        (required({"key": "disk", "operator": "In", "values": ["ssd"]}), None, "n1"),
        (
            required(
                {"key": "disk", "operator": "In", "values": ["tape"]}, {"key": "fast", "operator": "Exists"}
            ),
            None,
            "n1",
        ),
        ({}, KEEP_OUT, "n1"),
        ({}, LEAVE, "n1"),
        ({"tolerations": [Toleration(key="closed", operator="Exists")]}, KEEP_OUT, "n0"),
        ({"tolerations": [Toleration(key="closed", value="yes", effect="NoSchedule")]}, KEEP_OUT, "n0"),
        ({"tolerations": [Toleration(key="closed", value="yes", effect="NoSchedule")]}, LEAVE, "n1"),
        ({"tolerations": [Toleration(key="closed", value="no")]}, KEEP_OUT, "n1"),
        ({"tolerations": [Toleration(key="sla", operator="Gt", value="900")]}, SLA, "n0"),
        ({"tolerations": [Toleration(key="sla", operator="Lt", value="900")]}, SLA, "n1"),
    ],
)
def test_a_pod_goes_only_to_nodes_that_it_names_and_tolerates(spec, taint, expected):
    state = a_state()
    first = a_node("n0", gpus=2, labels={"disk": "hdd"})
    first.spec.taints = [taint] if taint else None
    state.apply(Kind.NODE, first)
    state.apply(Kind.NODE, a_node("n1", gpus=2, labels={"disk": "ssd", "fast": "yes"}))
    add(state, a_single("new", gpus=1, spec=spec))
    assert bound(cycle(state)) == ({"new": expected} if expected else {})


# --- ports ---------------------------------------------------------------------------------------------
def a_server(port, *, host_port=None):
    resources = ResourceRequirements(requests={"cpu": "1"})
    ports = [ContainerPort(container_port=port, host_port=host_port or 0)]
    return [Container(name="main", resources=resources, ports=ports)]


def with_containers(job, containers):
    job[1].spec.containers = containers
    return job


@pytest.mark.parametrize(
    ("theirs", "ours", "spec", "expected"),
    [
        (a_server(80, host_port=80), a_server(90, host_port=80), None, "n1"),
        (a_server(80, host_port=80), a_server(80), None, "n0"),
        (a_server(80, host_port=80), a_server(80), {"host_network": True}, "n1"),
        (a_server(80, host_port=80), a_server(81), {"host_network": True}, "n0"),
    ],
    ids=["the same host port", "no host port", "the network of the host", "another port of the host"],
)
def test_two_pods_of_a_node_do_not_listen_on_one_port(theirs, ours, spec, expected):
    state = a_state(nodes(2, gpus=2, cpu="8"))
    add(state, with_containers(a_single("there", on="n0", gpus=1), theirs))
    add(state, with_containers(a_single("new", spec=spec, created=1), ours))
    assert bound(cycle(state)) == {"new": expected}


@pytest.mark.parametrize(
    ("restart", "spec", "expected"),
    [("Always", {}, "n1"), ("Always", {"host_network": True}, "n1"), (None, {}, "n0")],
    ids=["sidecars", "sidecars in the network of the host", "containers that end before others begin"],
)
def test_the_ports_of_sidecars_count(restart, spec, expected):
    def with_exporter(host_port):
        exporter = a_server(9100, host_port=host_port)[0]
        exporter.restart_policy = restart
        return {"init_containers": [exporter]}

    theirs = with_exporter(9100)
    ours = {**with_exporter(0 if spec else 9100), **spec}
    state = a_state(nodes(2, gpus=2, cpu="8"))
    add(state, a_single("there", on="n0", gpus=1, spec=theirs))
    add(state, a_single("new", spec=ours, created=1))
    assert bound(cycle(state)) == {"new": expected}


# --- amounts -------------------------------------------------------------------------------------------
def asks(cpu, *, restart=None):
    return Container(
        name=f"c-{cpu}", resources=ResourceRequirements(requests={"cpu": cpu}), restart_policy=restart
    )


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"overhead": {"cpu": "1"}}, True),
        ({"overhead": {"cpu": "5"}}, False),
        ({"init_containers": [asks("8")]}, True),
        ({"init_containers": [asks("9")]}, False),
        ({"init_containers": [asks("4", restart="Always")]}, True),
        ({"init_containers": [asks("5", restart="Always")]}, False),
        ({"init_containers": [asks("3", restart="Always"), asks("6")]}, False),
        ({"resources": ResourceRequirements(requests={"cpu": "9"})}, False),
        ({"resources": ResourceRequirements(requests={"cpu": "8"})}, True),
    ],
)
def test_overhead_init_containers_and_the_pod_as_a_whole_count(spec, fits):
    """The node has eight cores, the container asks for four."""
    state = a_state(nodes(1, gpus=2, cpu="8"))
    add(state, a_single("new", cpu="4", spec=spec))
    assert bound(cycle(state)) == ({"new": "n0"} if fits else {})


# --- volumes -------------------------------------------------------------------------------------------
def a_volume_claim(state, *modes):
    metadata = {"name": "data", "namespace": "default"}
    volume = {"metadata": {"name": "v"}, "spec": {"accessModes": list(modes)}}
    state.apply(Kind.PERSISTENT_VOLUME, volume)
    spec = {"accessModes": list(modes), "volumeName": "v"}
    claim = {"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}}
    state.apply(Kind.PERSISTENT_VOLUME_CLAIM, claim)


WITH_DATA = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


@pytest.mark.parametrize(("mode", "placed"), [("ReadWriteOncePod", False), ("ReadWriteOnce", True)])
def test_a_volume_that_one_pod_has_for_itself_is_waited_for(mode, placed):
    state = a_state(nodes(2, gpus=2, cpu="8"))
    a_volume_claim(state, mode)
    add(state, a_single("first", on="n0", spec=WITH_DATA))
    add(state, a_single("second", spec=WITH_DATA, created=1))
    result = cycle(state)
    assert bool(result.binds) is placed
    assert placed or "another pod has the pod's volume for itself" in str(result.outcomes)
    add(state, a_single("first", on="n0", phase="Succeeded", spec=WITH_DATA))
    assert placed or bound(cycle(state)) == {"second": "n0"}


def test_of_two_pods_of_one_cycle_one_gets_such_a_volume():
    state = a_state(nodes(2, gpus=2, cpu="8"))
    a_volume_claim(state, "ReadWriteOncePod")
    add(state, a_single("first", spec=WITH_DATA))
    add(state, a_single("second", spec=WITH_DATA, created=1))
    assert list(bound(cycle(state))) == ["first"]


def test_who_has_many_volumes_for_itself_is_not_held_against_each_of_another_pod():
    many, state = 200, a_state(nodes(1, gpus=2, cpu="8"))
    state.apply(Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": {}})
    for pod in ("first", "second"):
        names = [f"{pod}-{number}" for number in range(many)]
        for name in names:
            metadata = {"name": name, "namespace": "default"}
            spec = {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}
            state.apply(Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": metadata, "spec": spec})
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        add(state, a_single(pod, on="n0" if pod == "first" else "", spec={"volumes": volumes}))
        cls = task_of(state, pod).cls
        cls.constraints = replace(cls.constraints, volume_claims=tuple(map(Counted, names)))
    Counted.looks = 0
    assert bound(cycle(state)) == {"second": "n0"}
    assert Counted.looks < 50 * many


def a_claim_to_be_made(state, *, selected="", provisioner="disks.example.com", **spec):
    """A claim without a volume; ``selected`` is the node for which its provisioner is making one."""
    waits = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    state.apply(Kind.STORAGE_CLASS, {"metadata": {"name": "made"}, **waits})
    annotations = {SELECTED_NODE: selected} if selected else {}
    metadata = {"name": "data", "namespace": "default", "annotations": annotations}
    state.apply(
        Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": metadata, "spec": {"storageClassName": "made", **spec}}
    )


def test_a_pod_goes_to_the_node_for_which_its_volume_is_being_made():
    """And to no other while that one is full, since nobody knows yet from where it can be reached."""
    state = a_state(nodes(2, gpus=2, cpu="8"))
    a_claim_to_be_made(state)
    add(state, a_single("full", on="n1", gpus=2), a_single("new", gpus=1, spec=WITH_DATA, created=1))
    a_claim_to_be_made(state, selected="n1")
    result = cycle(state, config("allocate"))
    assert bound(result) == {}
    told = "node cannot reach the pod's volumes: the volume of claim 'data' is being made for node n1"
    assert told in str(result.outcomes)
    add(state, a_single("full", on="n1", gpus=2, phase="Succeeded"))
    assert bound(cycle(state, config("allocate"))) == {"new": "n1"}


def test_a_volume_that_has_been_made_is_reached_from_where_it_says():
    state = a_state(nodes(2, gpus=2, cpu="8"))
    add(state, a_single("full", on="n1", gpus=2), a_single("new", gpus=1, spec=WITH_DATA, created=1))
    a_claim_to_be_made(state, selected="n1")
    assert bound(cycle(state, config("allocate"))) == {}
    state.apply(Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": {}})
    a_claim_to_be_made(state, selected="n1", volumeName="v")
    assert bound(cycle(state, config("allocate"))) == {"new": "n0"}


def test_a_pod_is_told_which_volume_keeps_it_to_which_node():
    state = a_state(nodes(2, gpus=2, cpu="8"))
    add(state, a_single("full", on="n1", gpus=2), a_single("new", gpus=1, spec=WITH_DATA, created=1))
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    state.apply(Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": {"nodeAffinity": affinity}})
    a_claim_to_be_made(state, selected="n1", volumeName="v")
    told = "persistent volume 'v' of claim 'data' is reached from node n1 only"
    assert told in str(cycle(state, config("allocate")).outcomes)


def test_of_many_volumes_out_of_reach_the_first_are_told():
    state, count = a_state(nodes(1, gpus=2, cpu="8")), 9
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gone"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    state.apply(Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": {"nodeAffinity": affinity}})
    volumes = []
    for number in range(count):
        metadata = {"name": f"data-{number}", "namespace": "default"}
        state.apply(Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": metadata, "spec": {"volumeName": "v"}})
        volumes.append({"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"data-{number}"}})
    add(state, a_single("new", spec={"volumes": volumes}))
    (outcome,) = cycle(state).outcomes
    assert (
        "persistent volume 'v' of claim 'data-2' is reached from 0 nodes only and 6 more" in outcome.message
    )
    assert "data-3" not in outcome.message


def test_of_many_config_maps_that_do_not_exist_the_first_are_told():
    state = a_state(nodes(1, gpus=2, cpu="8"))
    state.apply(Kind.CONFIG_MAP, {"metadata": {"name": "there", "namespace": "default"}})
    sources = [{"configMapRef": {"name": name}} for name in ("there", "a", "b", "c", "d", "e")]
    add(state, with_containers(a_single("new"), [Container(name="main", env_from=sources)]))
    (outcome,) = cycle(state).outcomes
    assert "config map a, b, c and 2 more does not exist in namespace 'default'" in outcome.message


def test_a_pod_waits_until_the_claim_of_its_ephemeral_volume_is_its_own():
    """One of a pod before it, of the same name, stays a while longer; one of its owner's may be meant."""
    scratch = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
    state = a_state(nodes(1, gpus=2, cpu="8"), a_single("new", spec=scratch))
    state.apply(Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": {}})

    def let_it_be_owned_by(uid):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "new-0", "uid": uid, "controller": True}
        metadata = {"name": f"{pod.name}-scratch", "namespace": pod.namespace, "ownerReferences": [owner]}
        state.apply(Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": metadata, "spec": {"volumeName": "v"}})

    pod = task_of(state, "new")
    let_it_be_owned_by("uid of one before")
    result = cycle(state)
    assert bound(result) == {}
    assert "was not made for the pod's ephemeral volume" in str(result.outcomes)
    let_it_be_owned_by(pod.uid)
    assert bound(cycle(state)) == {"new": "n0"}


# --- of those who are moved for others -----------------------------------------------------------------
HOSTNAME = "kubernetes.io/hostname"
SPREAD_OUT = {
    "topology_spread_constraints": [
        {
            "maxSkew": 1,
            "topologyKey": HOSTNAME,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]
}


@pytest.mark.parametrize(
    ("spec", "port", "moved"),
    [
        (None, None, 1),
        (None, 80, 0),
        (SPREAD_OUT, None, 0),
        (WITH_DATA, None, 0),
    ],
    ids=["nothing", "a host port", "spread", "a volume of its zone"],
)
def test_nobody_is_moved_to_where_it_could_not_be_placed(spec, port, moved):
    """A pod with two GPUs waits for one of two nodes, on each of which a pod has one."""
    state = a_state()
    for number in range(2):
        labels = {"topology.kubernetes.io/zone": f"zone-{number}"}
        state.apply(Kind.NODE, a_node(f"n{number}", gpus=2, cpu="8", labels=labels))
        metadata = {"name": f"data-{number}", "namespace": "default"}
        volume = {"metadata": {"name": f"v-{number}", "labels": labels}, "spec": {}}
        state.apply(Kind.PERSISTENT_VOLUME, volume)
        claim = {"metadata": metadata, "spec": {"volumeName": f"v-{number}"}, "status": {"phase": "Bound"}}
        state.apply(Kind.PERSISTENT_VOLUME_CLAIM, claim)
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
        told = {"volumes": volumes} if spec is WITH_DATA else spec
        containers = a_server(port, host_port=port) if port else None
        if containers:
            containers[0].resources.requests["nvidia.com/gpu"] = "1"
        run = a_single(f"run-{number}", on=f"n{number}", gpus=1, spec=told, labels={"app": "x"})
        add(state, with_containers(run, containers) if containers else run)
    add(state, a_single("new", gpus=2, created=1))
    assert len(cycle(state).evictions) == moved


@pytest.mark.parametrize("off", [(), ("podaffinity",)], ids=["", "without what pods prefer"])
def test_nobody_is_moved_away_from_whom_it_must_be_near(off):
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    state = a_state(nodes(2, gpus=2, cpu="8"))
    add(state, a_single("web", on="n1", gpus=0, labels={"app": "web"}))
    add(state, a_single("stays", on="n0", gpus=1, priority="inference"))
    add(state, a_single("near", on="n1", gpus=1, spec=near), a_single("new", gpus=2, created=1))
    assert cycle(state, without(*off)).evictions == ()


@pytest.mark.parametrize("refused", [("mine",), ("mine", "yours", "theirs")], ids=["its own", "all"])
def test_nobody_is_moved_to_a_node_that_refuses_pods_of_its_namespace(refused):
    state = a_state(nodes(2, gpus=2, cpu="8"))
    add(state, a_single("moves", on="n0", gpus=1, namespace="mine"))
    add(state, a_single("stays", on="n1", gpus=1, priority="inference"), a_single("new", gpus=2, created=1))
    for namespace in refused:
        for _ in range(IN_A_ROW):
            state.refusals.refused("n1", namespace=namespace, now=NOW)
    assert cycle(state).evictions == ()
    later = Engine().run(state, NOW + FIRST_SECONDS)
    assert [each.pod.name for each in later.evictions] == ["moves"]


def a_claimed_device(state, pod, node):
    """A claim of a pod that has the first device of its node."""
    allocated = [{"request": "r", "driver": "nic.example.com", "pool": node, "device": "d0"}]
    asked = {"name": "r", "exactly": {"deviceClassName": "nic", "count": 1, "allocationMode": "ExactCount"}}
    there = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [there]}]}
    status = {
        "allocation": {"devices": {"results": allocated}, "nodeSelector": selector},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"default-{pod}"}],
    }
    metadata = {"name": pod, "namespace": "default", "uid": f"claim-{pod}"}
    claim = {"metadata": metadata, "spec": {"devices": {"requests": [asked]}}, "status": status}
    state.apply(Kind.RESOURCE_CLAIM, claim)


@pytest.mark.parametrize(("devices", "moved"), [(1, 0), (2, 1)])
def test_nobody_is_moved_to_where_no_device_is_left_for_its_claim(devices, moved):
    """A pod without claims waits for room on one of two nodes, on each of which a pod has a device."""
    state = a_state(nodes(2, gpus=0, cpu="8"))
    add(state, in_cluster(a_class("nic")))
    for number in range(2):
        pod, node = f"run-{number}", f"n{number}"
        nics = a_slice(node, [f"d{each}" for each in range(devices)], driver="nic.example.com")
        add(state, in_cluster(nics))
        a_claimed_device(state, pod, node)
        add(state, a_single(pod, on=node, cpu="4", spec=claiming(pod)))
    add(state, a_single("new", cpu="7", created=1))
    assert len(cycle(state).evictions) == moved
