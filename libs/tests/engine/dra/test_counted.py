"""Which devices of claims count as GPUs, of a node and of a queue."""

import pytest

from kai.model import names
from kai.snapshot.kinds import StateParams
from libs.tests.engine.builders import a_node, a_single, a_state, add, bound, claiming, cycle, urgent
from libs.tests.engine.dra.builders import a_claim, a_class, a_device, a_request, a_slice, in_cluster

TEAM = {"queue": "team", "namespace": "default"}
ALTERNATIVES = {
    "name": "req",
    "firstAvailable": [{"name": "two", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}],
}
ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}


def gpus_of_team(result):
    return next(share.allocated[2] for share in result.shares if share.queue == "team")


def a_user(claim):
    """A pod that runs on n0 with the claim, and its uid."""
    user = a_single("user", gpus=0, on="n0", spec=claiming(claim))
    return user, [user[1].metadata.uid]


def allocated(request, named, devices, *, admin=False):
    """Somebody who runs with what a request has got, on a node of four devices."""
    user, uids = a_user("c")
    claim = a_claim("c", request, users=uids, holds=devices, node="n0", **TEAM)
    for each in claim.status.allocation.devices.results:
        each.request, each.admin_access = named, admin
    return a_state(a_node("n0", gpus=0), in_cluster(a_slice("n0", 4), a_class(), claim), user)


@pytest.mark.parametrize(
    ("request_", "named", "devices"),
    [
        (ALTERNATIVES, "req/two", ["gpu-0", "gpu-1"]),
        (a_request(mode="All"), "req", ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]),
        (a_request(device_class="of-any-name"), "req", ["gpu-0"]),
    ],
    ids=["alternatives", "all", "by the driver's name"],
)
def test_a_claim_is_charged_for_what_it_has_got(request_, named, devices):
    state = allocated(request_, named, devices)
    assert gpus_of_team(cycle(state)) == len(devices)
    assert state.nodes.idle[0][2] == 4 - len(devices)
    state.check()


def test_a_claim_that_a_pod_names_is_charged_whatever_its_owner_says_of_it():
    user, uids = a_user("c")
    claim = a_claim("c", users=uids, holds=["gpu-0"], node="n0", extended_of=uids[0], **TEAM)
    state = a_state(a_node("n0", gpus=0), in_cluster(a_slice("n0", 4), a_class(), claim), user)
    assert gpus_of_team(cycle(state)) == 1
    assert state.nodes.idle[0][2] == 3
    state.check()


def test_a_claim_of_a_pods_own_extended_resources_is_charged_by_its_requests_only():
    user = a_single("user", gpus=1, on="n0")
    uids = [user[1].metadata.uid]
    claim = a_claim("c", users=uids, holds=["gpu-0"], node="n0", extended_of=uids[0], **TEAM)
    class_ = a_class(extendedResourceName=names.NVIDIA_GPU)
    state = a_state(a_node("n0", gpus=0), in_cluster(a_slice("n0", 4), class_, claim), user)
    assert gpus_of_team(cycle(state)) == 1


def test_before_it_has_got_anything_all_devices_count_as_one():
    claim = a_claim("c", a_request(mode="All"), **TEAM)
    state = a_state(
        a_node("n0", gpus=0),
        in_cluster(a_slice("n0", 4), a_class(), claim),
        a_single("waits", gpus=0, spec=claiming("c")),
    )
    assert gpus_of_team(cycle(state)) == 1


def test_a_claim_of_several_pods_is_charged_for_what_it_got_when_it_has_got_it():
    """Before it is known how many devices there are that all of them are, they count as one."""
    users = [a_single(name, gpus=0, on="n0", spec=claiming("c")) for name in ("one", "other")]
    uids = [user[1].metadata.uid for user in users]
    every = a_request(mode="All")
    devices = in_cluster(a_slice("n0", 4), a_class(), a_claim("c", every, **TEAM))
    state = a_state(a_node("n0", gpus=0), devices, users)
    assert state.nodes.idle[0][2] == 3
    held = [f"gpu-{number}" for number in range(4)]
    add(state, in_cluster(a_claim("c", every, users=uids, holds=held, node="n0", **TEAM)))
    assert state.nodes.idle[0][2] == 0
    state.check()


def test_who_administers_devices_takes_none_from_others_and_is_charged_nothing():
    state = allocated(a_request(adminAccess=True), "req", ["gpu-0"], admin=True)
    assert gpus_of_team(cycle(state)) == 0
    assert state.nodes.idle[0][2] == 4


def test_devices_that_are_all_in_use_can_be_administered():
    user, uids = a_user("all")
    every = [f"gpu-{i}" for i in range(4)]
    taken = a_claim("all", a_request(count=4), users=uids, holds=every, node="n0", **TEAM)
    watched = a_claim("watched", a_request(adminAccess=True), **TEAM)
    state = a_state(
        a_node("n0", gpus=0),
        in_cluster(a_slice("n0", 4), a_class(), taken, watched),
        user,
        a_single("monitor", gpus=0, spec=claiming("watched")),
    )
    assert bound(cycle(state)) == {"monitor": "n0"}


@pytest.mark.parametrize(
    "request_",
    [a_request(), ALTERNATIVES, a_request(adminAccess=True)],
    ids=["exact", "alternatives", "admin"],
)
@pytest.mark.parametrize("restricted", [True, False])
def test_who_claims_gpus_goes_where_gpus_are_however_they_are_counted(request_, restricted):
    state = a_state(
        a_node("a-cpu", gpus=0, labels={names.CPU_WORKER_LABEL: ""}),
        a_node("n0", gpus=0, labels={names.GPU_WORKER_LABEL: ""}),
        in_cluster(a_slice("n0", 4), a_class(), a_claim("c", request_, **TEAM)),
        a_single("claims", gpus=0, spec=claiming("c")),
        a_single("plain", gpus=0),
        params=StateParams(restrict_node_scheduling=restricted),
    )
    assert bound(cycle(state)) == {"claims": "n0", "plain": "a-cpu"}


@pytest.mark.parametrize(
    ("devices", "reach"),
    [
        ([a_device("gpu-0", nodeName="n0")], {"perDeviceNodeSelection": True}),
        ([a_device("gpu-0", allNodes=True)], {"perDeviceNodeSelection": True}),
        (["gpu-0"], {"nodeSelector": ZONE}),
        (["gpu-0"], {"allNodes": True}),
    ],
    ids=["each names its node", "each names all nodes", "nodes of a kind", "all nodes"],
)
def test_devices_can_be_had_however_slices_say_who_reaches_them(devices, reach):
    slice_ = a_slice(None, devices, name="s", pool="p", **reach)
    state = a_state(
        a_node("n0", gpus=0, labels={"zone": "a"}),
        in_cluster(slice_, a_class(), a_claim("c", **TEAM), a_claim("d", **TEAM)),
        a_single("first", gpus=0, spec=claiming("c")),
    )
    result = cycle(state)
    assert bound(result) == {"first": "n0"}
    assert gpus_of_team(result) == 1
    add(state, a_single("second", gpus=0, spec=claiming("d")))
    assert bound(cycle(state)) == {}
    state.check()


def test_who_claims_a_device_that_is_in_use_gets_it_from_somebody_less_urgent():
    user, uids = a_user("c")
    user[0].spec.preemptibility = "preemptible"
    held = a_claim("c", a_request(), users=uids, holds=["gpu-0"], node="p", **TEAM)
    devices = [a_device("gpu-0", nodeName="n0")]
    slice_ = a_slice(None, devices, name="s", pool="p", perDeviceNodeSelection=True)
    state = a_state(
        a_node("n0", gpus=0),
        in_cluster(slice_, a_class(), held, a_claim("d", **TEAM)),
        user,
        urgent("u", gpus=0, queue="team", spec=claiming("d")),
    )
    assert [each.pod.name for each in cycle(state).evictions] == ["user"]
