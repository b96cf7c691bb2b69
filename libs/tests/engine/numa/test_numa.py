import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.engine.numa import NumaLedger, ZoneShare, numa_request
from kai.model import names
from kai.model.numa import NodeResourceTopology
from kai.model.objects import Pod

GPU = "nvidia.com/gpu"


def numa_of(*zones, policy="single-numa-node", scope="pod", node="n1", available=None):
    """Zones as ``{resource: quantity}``; available defaults to allocatable."""
    left = available or zones
    return msgspec.convert(
        {
            "metadata": {"name": node},
            "attributes": [
                {"name": "topologyManagerPolicy", "value": policy},
                {"name": "topologyManagerScope", "value": scope},
            ],
            "zones": [
                {
                    "name": f"node-{at}",
                    "type": "Node",
                    "resources": [
                        {"name": name, "allocatable": amount, "available": left[at][name]}
                        for name, amount in zone.items()
                    ],
                }
                for at, zone in enumerate(zones)
            ],
        },
        NodeResourceTopology,
    )


def a_container(requests, **more):
    return {"name": "c", "resources": {"requests": requests}} | more


def pod_of(*containers, init=(), qos="Guaranteed", annotations=None):
    containers = [each if "name" in each else a_container(each) for each in containers]
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "annotations": annotations or {}},
        "spec": {"containers": containers, "initContainers": list(init)},
        "status": {"qosClass": qos},
    }
    return msgspec.convert(pod, Pod)


def a_ledger(*topologies, **options):
    ledger = NumaLedger(**options)
    for each in topologies:
        ledger.put(each)
    return ledger


def zones_of(ledger, pod, node="n1"):
    """The zones of the pod on the node, None if it is rejected."""
    allocation = ledger.fit(numa_request(pod), node)
    return None if allocation is None else [share.zone for share in allocation]


TWO = ({"cpu": "4", "memory": "8Gi"}, {"cpu": "4", "memory": "8Gi"})


def test_single_takes_the_lowest_zone_that_holds_all():
    ledger = a_ledger(numa_of(*TWO))
    pod = pod_of({"cpu": "3", "memory": "1Gi"})
    assert ledger.fit(numa_request(pod), "n1") == (ZoneShare(0, (("cpu", 3000), ("memory", 2**30))),)
    ledger.charge("n1", ledger.fit(numa_request(pod), "n1"))
    assert zones_of(ledger, pod) == [1]
    ledger.charge("n1", ledger.fit(numa_request(pod), "n1"))
    assert zones_of(ledger, pod) is None


def test_single_rejects_what_no_zone_holds():
    assert zones_of(a_ledger(numa_of(*TWO)), pod_of({"cpu": "6"})) is None


def test_restricted_spreads_over_as_few_zones_as_can_be():
    ledger = a_ledger(numa_of({"cpu": "4"}, {"cpu": "4"}, {"cpu": "4"}, policy="restricted"))
    allocation = ledger.fit(numa_request(pod_of({"cpu": "6"})), "n1")
    assert allocation == (ZoneShare(0, (("cpu", 4000),)), ZoneShare(1, (("cpu", 2000),)))
    ledger.charge("n1", (ZoneShare(0, (("cpu", 4000),)),))
    assert zones_of(ledger, pod_of({"cpu": "6"})) == [1, 2]


def test_restricted_rejects_when_resources_need_different_widths():
    zones = ({"cpu": "4", GPU: "4"}, {"cpu": "4", GPU: "4"})
    assert zones_of(a_ledger(numa_of(*zones, policy="restricted")), pod_of({"cpu": "6", GPU: "1"})) is None


def test_restricted_does_not_widen_for_what_is_in_use():
    ledger = a_ledger(numa_of(*TWO, policy="restricted"))
    for zone in (0, 1):
        ledger.charge("n1", (ZoneShare(zone, (("cpu", 3000),)),))
    assert zones_of(ledger, pod_of({"cpu": "2"})) is None


def test_best_effort_never_rejects_and_takes_the_zone_that_covers_most():
    ledger = a_ledger(numa_of({"cpu": "2"}, {"cpu": "4"}, {"cpu": "1"}, policy="best-effort"))
    assert zones_of(ledger, pod_of({"cpu": "4"})) == [1]
    assert zones_of(ledger, pod_of({"cpu": "5"})) == [0, 1]
    assert zones_of(ledger, pod_of({"cpu": "50"})) == [0, 1, 2]


@pytest.mark.parametrize("policy", ["none", "surprise"])
def test_other_policies_constrain_nothing(policy):
    assert zones_of(a_ledger(numa_of(*TWO, policy=policy)), pod_of({"cpu": "60"})) == []


def test_older_exporters_name_the_policy_in_a_list():
    topology = numa_of(*TWO)
    topology.attributes, topology.topology_policies = [], ["SingleNUMANodePodLevel"]
    assert zones_of(a_ledger(topology), pod_of({"cpu": "6"})) is None


def test_cpu_and_memory_count_for_guaranteed_pods_only_and_devices_for_all():
    ledger = a_ledger(numa_of({"cpu": "4", GPU: "2"}, {"cpu": "4", GPU: "2"}))
    assert zones_of(ledger, pod_of({"cpu": "6"}, qos="Burstable")) == []
    assert zones_of(ledger, pod_of({"cpu": "6", GPU: "2"}, qos="Burstable")) == [0]
    assert zones_of(ledger, pod_of({GPU: "3"}, qos="Burstable")) is None


def test_a_fraction_of_a_cpu_is_not_pinned():
    ledger = a_ledger(numa_of(*TWO))
    assert zones_of(ledger, pod_of({"cpu": "5500m"})) == []
    assert zones_of(ledger, pod_of({"cpu": "3"}, {"cpu": "3500m"})) == [0]


def test_the_qos_class_follows_from_the_containers_until_the_status_has_it():
    amounts = {"cpu": "6", "memory": "1Gi"}
    limited = {"name": "c", "resources": {"requests": {}, "limits": amounts}}
    assert numa_request(pod_of(limited, qos="")) is None
    limited["resources"]["requests"] = amounts
    assert numa_request(pod_of(limited, qos="")).guaranteed
    limited["resources"]["requests"] = {"cpu": "5", "memory": "1Gi"}
    assert numa_request(pod_of(limited, qos="")) is None


def test_ignored_resources_constrain_nothing():
    assert zones_of(a_ledger(numa_of(*TWO), ignore=["cpu"]), pod_of({"cpu": "6", "memory": "1Gi"})) == [0]


def test_with_container_scope_containers_are_placed_one_after_the_other():
    ledger = a_ledger(numa_of(*TWO, scope="container"))
    assert zones_of(ledger, pod_of({"cpu": "3"}, {"cpu": "3"})) == [0, 1]
    assert zones_of(a_ledger(numa_of(*TWO)), pod_of({"cpu": "3"}, {"cpu": "3"})) is None


def test_with_container_scope_init_containers_find_the_zones_as_they_were():
    ledger = a_ledger(numa_of(*TWO, scope="container"))
    init = [a_container({"cpu": "4"}), a_container({"cpu": "4"})]
    assert zones_of(ledger, pod_of({"cpu": "4"}, {"cpu": "4"}, init=init)) == [0, 1]
    assert zones_of(ledger, pod_of({"cpu": "1"}, init=[a_container({"cpu": "5"})])) is None
    sidecar = a_container({"cpu": "3"}, restartPolicy="Always")
    assert zones_of(ledger, pod_of({"cpu": "3"}, {"cpu": "3"}, init=[sidecar])) is None


def test_with_pod_scope_the_peak_of_init_containers_counts():
    ledger = a_ledger(numa_of(*TWO))
    sidecar = a_container({"cpu": "2"}, restartPolicy="Always")
    assert zones_of(ledger, pod_of({"cpu": "1"}, init=[sidecar, a_container({"cpu": "3"})])) is None
    assert zones_of(ledger, pod_of({"cpu": "1"}, init=[a_container({"cpu": "3"}), sidecar])) == [0]


def test_fewer_zones_score_higher():
    ledger = a_ledger(
        numa_of(*TWO, policy="restricted"),
        numa_of({"cpu": "8"}, {"cpu": "8"}, node="wide"),
        numa_of(*TWO, *TWO, policy="none", node="free"),
    )
    request = numa_request(pod_of({"cpu": "6"}))
    scores = {node: ledger.score(request, node) for node in ("n1", "wide", "free", "unknown")}
    assert scores == {"n1": 50, "wide": 100, "free": 25, "unknown": 25}
    assert ledger.score(numa_request(pod_of({"cpu": "7", "memory": "60Gi"})), "n1") == 0
    assert ledger.score(numa_request(pod_of({"cpu": "6"}, qos="Burstable")), "wide") == 0
    assert a_ledger().score(request, "unknown") == 0


def a_record(*zones):
    return json.dumps([{"zone": zone, "amount": amount} for zone, amount in zones])


def test_the_observed_placement_is_believed_before_the_decided_and_the_predicted():
    ledger = a_ledger(numa_of(*TWO))
    predicted = {names.NUMA_PREDICTED: a_record(("node-0", {"cpu": "1"}))}
    both = predicted | {names.NUMA_OBSERVED: a_record(("node-1", {"cpu": "2"}))}
    decided = [{"zone": "node-1", "amount": {"cpu": "3"}}]
    asked = {"cpu": "3"}
    assert ledger.recorded(pod_of(asked, annotations=both), "n1", assumed=decided) == (
        ZoneShare(1, (("cpu", 2000),)),
    )
    assert ledger.recorded(pod_of(asked, annotations=predicted), "n1", assumed=decided) == (
        ZoneShare(1, (("cpu", 3000),)),
    )
    assert ledger.recorded(pod_of(asked, annotations=predicted), "n1") == (ZoneShare(0, (("cpu", 1000),)),)


@pytest.mark.parametrize("key", [names.NUMA_OBSERVED, names.NUMA_PREDICTED])
def test_a_record_counts_as_far_as_the_pod_asks_for_as_much(key):
    record = a_record(("node-0", {"cpu": "2", "memory": "8Gi"}), ("node-1", {"cpu": "2"}))
    pod = pod_of({"cpu": "3", "memory": "1Gi"}, annotations={key: record})
    assert a_ledger(numa_of(*TWO)).recorded(pod, "n1") == (
        ZoneShare(0, (("cpu", 2000), ("memory", 2**30))),
        ZoneShare(1, (("cpu", 1000),)),
    )
    greedy = pod_of({"cpu": "100m"}, annotations={key: a_record(("node-0", {"cpu": "4", "memory": "8Gi"}))})
    assert a_ledger(numa_of(*TWO)).recorded(greedy, "n1") == (ZoneShare(0, (("cpu", 100),)),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[{]",
        a_record(("node-7", {"cpu": "2"})),
        a_record(("node-0", {"cpu": "lots"})),
        a_record(("node-0", {"cpu": "-64"})),
        a_record(("node-0", {"memory": "1e999"})),
        a_record(("node-0", {"cpu": "65"})),
        a_record(*[("node-0", {"cpu": "8"})] * 10),
    ],
)
def test_a_record_that_makes_no_sense_is_ignored(text):
    pod = pod_of({}, annotations={names.NUMA_OBSERVED: text})
    assert a_ledger(numa_of(*TWO)).recorded(pod, "n1") == ()
    assert a_ledger().recorded(pod, "n1") == ()


@pytest.mark.parametrize("name", ["²", "node-²", "node-" + "9" * 5000, "", "node-٣"])
def test_a_zone_may_have_any_name(name):
    topology = numa_of({"cpu": "8"}, {"cpu": "8"})
    topology.zones[0].name = name
    assert a_ledger(topology).fit(numa_request(pod_of({"cpu": "3"})), "n1")


def test_amounts_of_zones_may_be_numbers():
    assert a_ledger(numa_of({"cpu": 8})).fit(numa_request(pod_of({"cpu": "3"})), "n1")


def test_a_placement_is_written_as_it_is_read():
    ledger = a_ledger(numa_of(*TWO))
    allocation = ledger.fit(numa_request(pod_of({"cpu": "3", "memory": "1Gi"})), "n1")
    described = ledger.describe("n1", allocation)
    assert described == ({"zone": "node-0", "amount": {"cpu": "3", "memory": str(2**30)}},)
    assert ledger.recorded(pod_of({}), "n1", assumed=described) == allocation


def test_reported_availability_is_used_on_request():
    topology = numa_of({"cpu": "4"}, {"cpu": "4"}, available=({"cpu": "1"}, {"cpu": "3"}))
    assert a_ledger(topology).available("n1") == [{"cpu": 4000}, {"cpu": 4000}]
    assert a_ledger(topology, trust_reported=True).available("n1") == [{"cpu": 1000}, {"cpu": 3000}]


def test_zones_are_numbered_by_number():
    topology = numa_of(*[{"cpu": str(at + 1)} for at in range(11)])
    topology.zones.reverse()
    assert [zone["cpu"] for zone in a_ledger(topology).available("n1")] == [
        1000 * (at + 1) for at in range(11)
    ]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=12), st.integers(0, 12))
def test_undo_brings_back_every_zone(steps, keep):
    ledger = a_ledger(numa_of(*TWO, policy="best-effort"))

    def play(steps):
        for charge, cpus in steps:
            allocation = ledger.fit(numa_request(pod_of({"cpu": str(cpus)})), "n1")
            (ledger.charge if charge else ledger.credit)("n1", allocation)

    play(steps[:keep])
    before, mark = ledger.available("n1"), ledger.mark()
    play(steps[keep:])
    ledger.undo(mark)
    assert ledger.available("n1") == before
