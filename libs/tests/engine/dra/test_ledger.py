"""Devices for claims: what is chosen, what is kept apart, and what happens when it is taken back."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.engine.dra import ClaimLedger, Inventory, Plan, Unfit
from kai.model import dra
from kai.model.objects import Pod
from libs.tests.engine.dra.builders import DRIVER, a_claim, a_class, a_device, a_request, a_slice


def a_claimant(name, *claims, containers=None, **more):
    spec = {"resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]}
    spec["containers"] = containers or [{"name": "main"}]
    pod = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": spec | more.pop("spec", {}),
    } | more
    return msgspec.convert(pod, Pod)


def a_ledger(*objects, labels=None):
    """A ledger over slices, classes (``gpu`` by default) and claims."""
    known = labels or {}
    ledger = ClaimLedger(Inventory(lambda node: known.get(node, {})))
    if not any(isinstance(each, dra.DeviceClass) for each in objects):
        ledger.inventory.put_class(a_class())
    for each in objects:
        if isinstance(each, dra.ResourceSlice):
            ledger.inventory.put_slice(each)
        elif isinstance(each, dra.DeviceClass):
            ledger.inventory.put_class(each)
        else:
            ledger.put_claim(each)
    return ledger


def devices_of(plan):
    """The devices of a plan by the pod's claim name."""
    return {
        claim.name: [each.device for each in allocation.devices.results]
        for claim, allocation in plan.allocations
    }


def fit(ledger, pod, node="n1", **options):
    plan = ledger.fit(ledger.demand(pod), node, **options)
    assert isinstance(plan, Plan), plan
    return plan


def unfit(ledger, pod, node="n1", **options):
    found = ledger.fit(ledger.demand(pod), node, **options)
    assert isinstance(found, Unfit), found
    return found.reason


def use(ledger, pod, node="n1"):
    """Place a pod and return its demand."""
    demand = ledger.demand(pod)
    ledger.place(demand, fit(ledger, pod, node))
    return demand


# --- choosing devices ---------------------------------------------------------------------------
def test_the_first_free_devices_are_taken():
    ledger = a_ledger(a_slice("n1", 4), a_claim("c1", a_request(count=2)), a_claim("c2", a_request(count=2)))
    use(ledger, a_claimant("p1", "c1"))
    assert devices_of(fit(ledger, a_claimant("p2", "c2"))) == {"c2": ["gpu-2", "gpu-3"]}


def test_too_few_devices_do_not_fit_and_the_claim_is_named():
    ledger = a_ledger(a_slice("n1", 1), a_claim("c1", a_request(count=2)))
    assert unfit(ledger, a_claimant("p1", "c1")) == "not enough devices for ns/c1"
    assert "ns/c1" in unfit(ledger, a_claimant("p1", "c1"), "elsewhere")


def test_two_claims_of_a_pod_are_allocated_together():
    ledger = a_ledger(a_slice("n1", 2), a_claim("c1"), a_claim("c2"), a_claim("c3"))
    assert devices_of(fit(ledger, a_claimant("p1", "c1", "c2"))) == {"c1": ["gpu-0"], "c2": ["gpu-1"]}
    assert "ns/c1, ns/c2, ns/c3" in unfit(ledger, a_claimant("p1", "c1", "c2", "c3"))


def test_the_allocation_is_bound_to_the_node_of_local_devices():
    ledger = a_ledger(a_slice("n1", 1), a_claim("c1"))
    only = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    device = {"request": "req", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    assert fit(ledger, a_claimant("p1", "c1")).claim_allocations == (
        {
            "name": "c1",
            "allocation": {
                "devices": {"results": [device]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
            },
        },
    )


def test_devices_on_the_network_are_bound_to_what_the_slice_demands():
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    ledger = a_ledger(
        a_slice(None, 1, name="net", pool="net", nodeSelector=zone),
        a_claim("c1"),
        labels={"n1": {"zone": "a"}, "n2": {"zone": "b"}},
    )
    assert fit(ledger, a_claimant("p1", "c1")).allocations[0][1].node_selector == zone
    unfit(ledger, a_claimant("p1", "c1"), "n2")


def test_devices_of_all_nodes_bind_to_none():
    ledger = a_ledger(a_slice(None, 1, name="net", pool="net", allNodes=True), a_claim("c1"))
    assert fit(ledger, a_claimant("p1", "c1"), "any").allocations[0][1].node_selector is None


def test_each_device_may_say_which_node_reaches_it():
    devices = [a_device("a", nodeName="n1"), a_device("b", nodeName="n2"), a_device("c", allNodes=True)]
    ledger = a_ledger(
        a_slice(None, devices, name="mixed", pool="mixed", perDeviceNodeSelection=True),
        a_claim("c1", a_request(count=2)),
    )
    assert devices_of(fit(ledger, a_claimant("p1", "c1"), "n2")) == {"c1": ["b", "c"]}


def test_selectors_of_class_and_request_both_count():
    pytest.importorskip("cel_expr_python")
    model = f'device.attributes["{DRIVER}"].model'
    devices = [a_device("small", model="T4"), a_device("old", model="V100"), a_device("new", model="H100")]
    ledger = a_ledger(
        a_slice("n1", devices),
        a_class("gpu", f'{model} != "T4"'),
        a_claim("c1", a_request(expressions=[f'{model} != "V100"'])),
        a_claim("c2", a_request(expressions=[f'{model} == "T4"'])),
    )
    assert devices_of(fit(ledger, a_claimant("p1", "c1"))) == {"c1": ["new"]}
    unfit(ledger, a_claimant("p2", "c2"))


def test_a_faulty_selector_is_the_reason():
    ledger = a_ledger(a_slice("n1", 1), a_claim("c1", a_request(expressions=["device.driver =="])))
    assert "claim ns/c1: selector 'device.driver =='" in unfit(ledger, a_claimant("p1", "c1"))


def test_all_means_every_device_or_nothing():
    ledger = a_ledger(a_slice("n1", 3), a_claim("c1", a_request(mode="All")), a_claim("c2"), a_claim("c3"))
    assert devices_of(fit(ledger, a_claimant("p1", "c1")))["c1"] == ["gpu-0", "gpu-1", "gpu-2"]
    use(ledger, a_claimant("p2", "c2"))
    unfit(ledger, a_claimant("p1", "c1"))


def test_all_of_no_device_is_nothing():
    unfit(a_ledger(a_claim("c1", a_request(mode="All"))), a_claimant("p1", "c1"))


def test_the_first_alternative_that_works_is_taken():
    alternatives = [
        {"name": "many", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 4},
        {"name": "few", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
    ]
    claim = a_claim("c1", {"name": "req", "firstAvailable": alternatives})
    plan = fit(a_ledger(a_slice("n1", 3), claim), a_claimant("p1", "c1"))
    assert [each.request for each in plan.allocations[0][1].devices.results] == ["req/few", "req/few"]


def test_what_a_device_asks_for_before_its_pod_is_bound_goes_into_the_allocation():
    asks = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"], "bindsToNode": True}
    slice_ = a_slice(None, [a_device("a", **asks), a_device("b")], name="s", pool="p", allNodes=True)
    plan = fit(a_ledger(slice_, a_claim("c1", a_request(count=2))), a_claimant("p1", "c1"))
    ((_, allocation),) = plan.allocations
    first, second = allocation.devices.results
    assert (first.binding_conditions, first.binding_failure_conditions) == (["Attached"], ["Broken"])
    assert (second.binding_conditions, second.binding_failure_conditions) == ([], [])
    (term,) = allocation.node_selector["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def test_matching_attributes_make_the_search_go_back():
    devices = [a_device("a", model="A"), a_device("b1", model="B"), a_device("b2", model="B")]
    same = {"matchAttribute": f"{DRIVER}/model"}
    ledger = a_ledger(a_slice("n1", devices), a_claim("c1", a_request(count=2), constraints=[same]))
    assert devices_of(fit(ledger, a_claimant("p1", "c1"))) == {"c1": ["b1", "b2"]}


def test_a_constraint_concerns_the_requests_that_it_names():
    devices = [a_device("a", model="A"), a_device("b1", model="B"), a_device("b2", model="B")]
    same = {"matchAttribute": f"{DRIVER}/model", "requests": ["y", "z"]}
    claim = a_claim("c1", a_request("x"), a_request("y"), a_request("z"), constraints=[same])
    assert devices_of(fit(a_ledger(a_slice("n1", devices), claim), a_claimant("p1", "c1"))) == {
        "c1": ["a", "b1", "b2"]
    }


def test_distinct_attributes_differ():
    devices = [a_device("a1", model="A"), a_device("a2", model="A"), a_device("b", model="B")]
    different = {"distinctAttribute": f"{DRIVER}/model"}
    ledger = a_ledger(a_slice("n1", devices), a_claim("c1", a_request(count=2), constraints=[different]))
    assert devices_of(fit(ledger, a_claimant("p1", "c1"))) == {"c1": ["a1", "b"]}


def test_an_attribute_that_a_device_lacks_matches_nothing():
    same = {"matchAttribute": "other.com/rack"}
    ledger = a_ledger(a_slice("n1", 2), a_claim("c1", a_request(count=2), constraints=[same]))
    unfit(ledger, a_claimant("p1", "c1"))


def test_administrative_access_uses_devices_that_are_in_use_and_holds_none():
    admin = a_claim("admin", a_request(mode="All", adminAccess=True))
    ledger = a_ledger(a_slice("n1", 2), a_claim("c1", a_request(count=2)), admin, a_claim("c2"))
    use(ledger, a_claimant("p1", "c1"))
    assert devices_of(fit(ledger, a_claimant("p2", "admin"))) == {"admin": ["gpu-0", "gpu-1"]}
    use(ledger, a_claimant("p2", "admin"))
    unfit(ledger, a_claimant("p3", "c2"))


def test_partitions_draw_on_the_counters_of_their_device():
    devices = [
        a_device("half-0", counters={"memory": "40Gi"}),
        a_device("half-1", counters={"memory": "40Gi"}),
        a_device("whole", counters={"memory": "80Gi"}),
    ]
    ledger = a_ledger(
        a_slice("n1", devices, counters={"memory": "80Gi"}), *(a_claim(f"c{at}") for at in range(3)),
        a_claim("three", a_request(count=3)),
    )  # fmt: skip
    unfit(ledger, a_claimant("p", "three"))
    first = use(ledger, a_claimant("p0", "c0"))
    second = use(ledger, a_claimant("p1", "c1"))
    unfit(ledger, a_claimant("p2", "c2"))
    ledger.remove(second)
    assert devices_of(fit(ledger, a_claimant("p2", "c2"))) == {"c2": ["half-1"]}
    ledger.remove(first)
    assert devices_of(fit(ledger, a_claimant("p2", "c2"))) == {"c2": ["half-0"]}


def test_tainted_devices_are_for_those_who_tolerate_them():
    tolerating = a_request(tolerations=[{"key": "broken", "operator": "Exists"}])
    ledger = a_ledger(
        a_slice("n1", [a_device("x", taint="broken")]), a_claim("c1"), a_claim("c2", tolerating)
    )
    unfit(ledger, a_claimant("p1", "c1"))
    fit(ledger, a_claimant("p2", "c2"))


def test_slices_of_an_older_generation_and_incomplete_pools_are_not_used():
    ledger = a_ledger(
        a_slice("n1", [a_device("stale")], name="old", generation=1),
        a_slice("n1", [a_device("fresh")], name="new-1", generation=2, slices=2),
        a_claim("c1"),
    )
    assert unfit(ledger, a_claimant("p1", "c1")).endswith(f"named twice: {DRIVER}/n1)")
    ledger.inventory.put_slice(a_slice("n1", [a_device("more")], name="new-2", generation=2, slices=2))
    assert devices_of(fit(ledger, a_claimant("p1", "c1"))) == {"c1": ["fresh"]}


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_counters_of_an_older_generation_do_not_count(names: tuple[str, str]) -> None:
    old, new = names
    ledger = a_ledger(
        a_slice("n1", [a_device("stale")], name=old, generation=1, counters={"memory": "80"}),
        a_slice(
            "n1",
            [a_device(f"fresh-{at}", counters={"memory": "30"}) for at in range(2)],
            name=new,
            generation=2,
            counters={"memory": "40"},
        ),
        a_claim("c1", a_request(count=2)),
        a_claim("c2", a_request(count=1)),
    )
    unfit(ledger, a_claimant("p1", "c1"))
    fit(ledger, a_claimant("p2", "c2"))


def test_at_most_32_devices_go_into_one_claim():
    ledger = a_ledger(
        a_slice("n1", 40), a_claim("c1", a_request(count=33)), a_claim("c2", a_request(count=32))
    )
    unfit(ledger, a_claimant("p1", "c1"))
    fit(ledger, a_claimant("p2", "c2"))


def test_configuration_comes_from_class_and_claim():
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    ledger = a_ledger(
        a_slice("n1", 1),
        a_class("gpu", config=[opaque]),
        a_claim("c1", config=[{"requests": ["req"], **opaque}, {"requests": ["other"], **opaque}]),
    )
    assert fit(ledger, a_claimant("p1", "c1")).allocations[0][1].devices.config == [
        {"source": "FromClass", "requests": ["req"], **opaque},
        {"source": "FromClaim", "requests": ["req"], **opaque},
    ]


# --- claims through time ------------------------------------------------------------------------
def test_a_shared_claim_keeps_its_devices_while_one_pod_uses_it():
    ledger = a_ledger(a_slice("n1", 1), a_slice("n2", 1), a_claim("c1"), a_claim("c2"))
    first, second = use(ledger, a_claimant("p1", "c1")), use(ledger, a_claimant("p2", "c1"))
    assert "allocated on other nodes" in unfit(ledger, a_claimant("p3", "c1"), "n2")
    assert ledger.counted_gpus(second) == 1
    ledger.remove(first)
    unfit(ledger, a_claimant("p4", "c2"))
    ledger.remove(second)
    fit(ledger, a_claimant("p4", "c2"))
    assert ledger.counted_gpus(second) == 0


def test_what_the_api_shows_is_in_use():
    held = a_claim("c1", holds=["gpu-0"], node="n1", users=["p1"])
    ledger = a_ledger(a_slice("n1", 2), held, a_claim("c2"))
    running = ledger.demand(a_claimant("p1", "c1"))
    ledger.adopt(running)
    assert devices_of(fit(ledger, a_claimant("p2", "c2"))) == {"c2": ["gpu-1"]}
    ledger.drop_claim("ns/c1")
    assert devices_of(fit(ledger, a_claimant("p2", "c2"))) == {"c2": ["gpu-0"]}


def test_a_pod_that_is_being_bound_holds_its_allocation_before_the_api_shows_it():
    ledger = a_ledger(a_slice("n1", 1), a_claim("c1"), a_claim("c2"))
    pod = a_claimant("p1", "c1")
    allocation = fit(ledger, pod).allocations[0][1]
    ledger.adopt(ledger.demand(pod), allocations={"c1": allocation})
    ledger.put_claim(a_claim("c1"))
    unfit(ledger, a_claimant("p2", "c2"))


def test_devices_of_a_releasing_pod_are_for_those_who_wait():
    ledger = a_ledger(a_slice("n1", 1), a_claim("c1"), a_claim("c2"), a_claim("c3"))
    victim = use(ledger, a_claimant("p1", "c1"))
    ledger.release(victim)
    pending = a_claimant("p2", "c2")
    unfit(ledger, pending)
    plan = fit(ledger, pending, after_release=True)
    assert plan.waits
    ledger.place(ledger.demand(pending), plan)
    unfit(ledger, a_claimant("p3", "c3"), after_release=True)


def test_a_victim_may_take_its_devices_again_or_move():
    ledger = a_ledger(a_slice("n1", 1), a_slice("n2", 1), a_claim("c1"), a_claim("c2"))
    pod = a_claimant("p1", "c1")
    victim = use(ledger, pod)
    before = fit(ledger, pod).allocations
    ledger.release(victim)
    assert fit(ledger, pod, after_release=True).allocations == before
    preemptor = a_claimant("p2", "c2")
    ledger.place(ledger.demand(preemptor), fit(ledger, preemptor, after_release=True))
    unfit(ledger, pod, "n1", after_release=True)
    moved = fit(ledger, pod, "n2", after_release=True)
    ledger.place(victim, moved)
    ledger.remove(ledger.demand(preemptor))
    unfit(ledger, preemptor)
    assert fit(ledger, preemptor, after_release=True).waits


@pytest.mark.parametrize(
    ("pod", "claim", "reason"),
    [
        (a_claimant("p", "c1"), None, "claim ns/c1: does not exist"),
        (a_claimant("p", "c1"), a_claim("c1", queue="other"), "must name the pod's queue 'q', not 'other'"),
        (
            a_claimant("p", "c1"),
            a_claim("c1", queue=""),
            "must name the pod's queue 'q'; it has no such label",
        ),
        (
            a_claimant("p", "c1"),
            a_claim("c1", a_request(device_class="none")),
            "device class 'none' does not exist",
        ),
        (a_claimant("p", "c1"), a_claim("c1", users=[f"p{at}" for at in range(256)]), "used by 256 pods"),
        (
            a_claimant("p", spec={"resourceClaims": [{"name": "t", "resourceClaimTemplateName": "t"}]}),
            None,
            "claim 't' has not been made from its template yet",
        ),
    ],
)
def test_what_no_node_can_cure(pod, claim, reason):
    ledger = a_ledger(a_slice("n1", 1), *([claim] if claim else []))
    assert reason in ledger.obstacle(ledger.demand(pod), queue="q")


def test_claims_from_templates_are_found_by_the_pods_status():
    pod = a_claimant(
        "p",
        spec={"resourceClaims": [{"name": "t", "resourceClaimTemplateName": "any"}]},
        status={"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "t-xyz"}]},
    )
    ledger = a_ledger(a_slice("n1", 1), a_claim("t-xyz", queue="other"))
    demand = ledger.demand(pod)
    assert ledger.obstacle(demand, queue="q") is None
    assert devices_of(fit(ledger, pod)) == {"t": ["gpu-0"]}


def test_gpus_of_all_claims_are_counted():
    ledger = a_ledger(
        a_class("big-gpu"),
        a_class("nic"),
        a_claim(
            "c1",
            a_request("a", count=2, device_class="big-gpu"),
            a_request("b", mode="All", device_class="gpu"),
        ),
        a_claim("c2", a_request("c", device_class="big-gpu"), a_request("d", count=5, device_class="nic")),
    )
    assert ledger.demand(a_claimant("p", "c1", "c2")).gpus == 4


def test_a_claim_is_of_no_pod_of_another_namespace_whatever_it_says():
    """Whoever may write claims elsewhere could give a pod devices, or keep it from its own."""
    stranger = a_claim("c", namespace="evil", extended_of="victim")
    ledger = a_ledger(a_slice("n1", 1), stranger)
    assert ledger.demand(a_claimant("victim")).made == ""
    own = a_claim("c", extended_of="victim")
    ledger.put_claim(own)
    ledger.put_claim(stranger)
    ledger.drop_claim(stranger.key)
    assert ledger.demand(a_claimant("victim")).made == own.key
    ledger.put_claim(a_claim("c"))
    assert ledger.demand(a_claimant("victim")).made == ""


def test_a_claim_that_pods_name_keeps_its_devices_whoever_it_says_it_was_made_for():
    """Else they would be given to others, while those who name it use them."""
    claim = a_claim("c", users=["user"], holds=["gpu-0"], node="n1", extended_of="owner")
    ledger = a_ledger(a_slice("n1", 1), claim, a_claim("other"))
    ledger.adopt(ledger.demand(a_claimant("user", "c")))
    ledger.remove(ledger.demand(a_claimant("owner")))
    assert "devices" in unfit(ledger, a_claimant("next", "other"))
    both = a_claimant("owner", "c")
    assert ledger.demand(both).made == ""
    assert devices_of(fit(ledger, both)) == {"c": ["gpu-0"]}


def test_a_pod_without_claims_demands_nothing():
    ledger = a_ledger(a_slice("n1", 1))
    demand = ledger.demand(a_claimant("p"))
    assert not demand
    assert ledger.obstacle(demand, queue="q") is None
    assert fit(ledger, a_claimant("p")).claim_allocations == ()


@pytest.mark.parametrize("name", ["memory", "gpu.example.com/memory"])
def test_who_asks_for_capacity_gets_a_device_that_has_it(name):
    small = a_device("small", capacity={"memory": {"value": "40Gi"}})
    request = a_request(capacity={"requests": {name: "80Gi"}})
    ledger = a_ledger(a_slice("n1", [small, "large"]), a_claim("c1", request), a_claim("c2", request))
    assert devices_of(fit(ledger, a_claimant("p", "c1"))) == {"c1": ["large"]}
    use(ledger, a_claimant("p", "c1"))
    unfit(ledger, a_claimant("q", "c2"))


def test_a_capacity_that_no_device_tells_is_had_by_none():
    request = a_request(capacity={"requests": {"other.example.com/memory": "1Gi"}})
    ledger = a_ledger(a_slice("n1", 1), a_claim("c1", request))
    unfit(ledger, a_claimant("p", "c1"))


# --- extended resources -------------------------------------------------------------------------
def a_container(name, gpus, **more):
    requests = {"cpu": "1"} | ({"example.com/gpu": str(gpus)} if gpus else {})
    return {"name": name, "resources": {"requests": requests}} | more


BACKED = a_class("gpu", extendedResourceName="example.com/gpu")


def test_an_extended_resource_becomes_a_synthetic_claim():
    pod = a_claimant("p", containers=[a_container("a", 1), a_container("b", 2)])
    ledger = a_ledger(a_slice("n1", 3), BACKED)
    plan = fit(ledger, pod)
    claim = plan.extended_claim
    assert [each["name"] for each in claim["deviceRequests"]] == [
        "container-0-request-1",
        "container-1-request-1",
    ]
    assert [each["exactly"]["count"] for each in claim["deviceRequests"]] == [1, 2]
    assert [each["device"] for each in claim["allocation"]["devices"]["results"]] == [
        "gpu-0",
        "gpu-1",
        "gpu-2",
    ]
    assert claim["containerMappings"][1] == {
        "containerName": "b",
        "resourceName": "example.com/gpu",
        "requestName": "container-1-request-1",
    }
    demand = ledger.demand(pod)
    ledger.place(demand, plan)
    unfit(ledger, a_claimant("other", containers=[a_container("a", 1)]))
    ledger.remove(demand)
    fit(ledger, a_claimant("other", containers=[a_container("a", 1)]))


def test_what_a_device_plugin_offers_needs_no_claim():
    ledger = a_ledger(BACKED)
    pod = a_claimant("p", containers=[a_container("a", 1)])
    assert fit(ledger, pod, offered={"example.com/gpu"}).extended_claim is None
    unfit(ledger, pod)


def test_every_class_is_a_resource_by_its_own_name():
    requests = {"deviceclass.resource.kubernetes.io/gpu": "1"}
    pod = a_claimant("p", containers=[{"name": "a", "resources": {"requests": requests}}])
    assert fit(a_ledger(a_slice("n1", 1)), pod).extended_claim is not None


def test_init_containers_use_the_devices_of_later_containers():
    pod = a_claimant(
        "p",
        containers=[a_container("main", 2)],
        spec={
            "containers": [a_container("main", 2)],
            "initContainers": [
                a_container("first", 2),
                a_container("second", 3),
                a_container("third", 4),
                a_container("sidecar", 1, restartPolicy="Always"),
            ],
        },
    )
    plan = fit(a_ledger(a_slice("n1", 8), BACKED), pod)
    counts = {each["name"]: each["exactly"]["count"] for each in plan.extended_claim["deviceRequests"]}
    assert counts == {"container-2-request-1": 1, "container-3-request-1": 1, "container-4-request-1": 2}
    uses = {}
    for mapping in plan.extended_claim["containerMappings"]:
        uses.setdefault(mapping["containerName"], []).append(mapping["requestName"])
    assert uses["first"] == ["container-3-request-1", "container-4-request-1"]
    assert uses["third"] == ["container-3-request-1", "container-4-request-1", "container-2-request-1"]


# --- undo ---------------------------------------------------------------------------------------
def state_of(ledger):
    devices = {device: count for device, count in ledger._used.items() if count}
    releasing = {device: count for device, count in ledger._releasing.items() if count}
    return dict(ledger._claims), devices, releasing


steps = st.lists(
    st.tuples(
        st.sampled_from(["place", "release", "remove"]), st.integers(0, 5), st.sampled_from(["n1", "n2"])
    ),
    max_size=14,
)


@settings(max_examples=150)
@given(steps, steps)
def test_undo_brings_back_every_claim_and_device(before, after):
    """And no device is ever held by two claims that are not releasing."""
    claims = [a_claim(f"c{at}", a_request(count=1 + at % 2)) for at in range(4)]
    ledger = a_ledger(a_slice("n1", 3), a_slice("n2", 2), BACKED, *claims)
    pods = [
        a_claimant("p0", "c0"),
        a_claimant("p1", "c1"),
        a_claimant("p2", "c2", "c3"),
        a_claimant("p3", "c3"),
        a_claimant("p4", "c0"),
    ]
    pods.append(a_claimant("p5", "c1", containers=[a_container("a", 1)]))

    def play(steps):
        for step, at, node in steps:
            demand = ledger.demand(pods[at])
            if step == "place":
                plan = ledger.fit(demand, node, after_release=True)
                if isinstance(plan, Plan):
                    ledger.place(demand, plan)
            elif step == "release":
                ledger.release(demand)
            else:
                ledger.remove(demand)
            for device, count in ledger._used.items():
                assert 0 <= count - ledger._releasing[device] <= 1

    play(before)
    kept = state_of(ledger)
    mark = ledger.mark()
    play(after)
    ledger.undo(mark)
    assert state_of(ledger) == kept
