"""Endpoints of the leader of a shard."""

import msgspec
import pytest

from kai.kube.leases import Lease
from kai.model import names
from kai_operator.leaders import SchedulerPod, leader_of, leader_slices, left_behind


def a_lease(holder, *, name="kai-scheduler", seconds=15):
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Lease)


def a_pod(name="s-1", ip="10.1.1.1", **metadata):
    body = {
        "metadata": {"name": name, "namespace": "kai-scheduler", "uid": "u", **metadata},
        "status": {"podIP": ip},
    }
    return {name: msgspec.convert(body, SchedulerPod)}


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        (a_lease("s-1_abc"), "s-1"),
        (a_lease("s-1"), "s-1"),
        (a_lease(""), ""),
        (a_lease(None), ""),
        (None, ""),
    ],
)
def test_the_holder_is_the_pod_that_the_identity_begins_with(lease, expected):
    assert leader_of(lease) == expected


def slices(build, lease, pods):
    deployment = build.deployment()
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"name": "metrics", "containerPort": 8080}
    ]
    service = build.service("kai-scheduler-default", selector=False)
    service["spec"]["ports"] = [{"name": "http-metrics", "port": 80, "targetPort": "metrics"}]
    return leader_slices([deployment, service], lease, pods)


def test_the_service_leads_to_the_leader(build):
    [found] = slices(build, a_lease("s-1_abc"), a_pod())
    assert found["metadata"]["name"] == "kai-scheduler-default-leader"
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "kai-scheduler-default"
    assert found["addressType"] == "IPv4"
    assert found["ports"] == [{"name": "http-metrics", "port": 8080, "protocol": "TCP"}]
    assert found["endpoints"][0]["addresses"] == ["10.1.1.1"]
    assert found["endpoints"][0]["targetRef"]["name"] == "s-1"


def test_an_address_may_be_of_the_newer_kind(build):
    [found] = slices(build, a_lease("s-1_abc"), a_pod(ip="fd00::1"))
    assert found["addressType"] == "IPv6"
    assert found["metadata"]["name"] == "kai-scheduler-default-leader-ipv6"


@pytest.mark.parametrize(
    ("lease", "pods"),
    [
        (a_lease(""), a_pod()),
        (None, a_pod()),
        (a_lease("s-2_abc"), a_pod()),
        (a_lease("s-1_abc"), a_pod(ip="")),
        (a_lease("s-1_abc"), a_pod(deletionTimestamp="2030-01-01T00:00:00Z")),
    ],
    ids=["no holder", "no lease", "no such pod", "no address", "on its way out"],
)
def test_nobody_is_there_while_there_is_no_leader_that_can_be_reached(build, lease, pods):
    assert slices(build, lease, pods) == []


def test_a_service_with_a_selector_needs_no_help(build):
    assert leader_slices([build.service()], a_lease("s-1_x"), a_pod()) == []


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        (a_lease("", name="kai-scheduler-red", seconds=1), True),
        (a_lease("", name="kai-scheduler-blue", seconds=1), False),
        (a_lease("", name="kai-scheduler", seconds=1), False),
        (a_lease("", name="kai-queue-controller", seconds=1), False),
        (a_lease("s_1", name="kai-scheduler-red"), False),
        (a_lease("", name="kai-scheduler-red"), False),
    ],
    ids=["gone", "wanted", "the usual one", "of others", "held", "not given back"],
)
def test_a_lease_is_left_behind_when_its_shard_is_gone_and_its_holder_too(lease, expected):
    found = left_behind([lease], scheduler_name="kai-scheduler", wanted={"kai-scheduler-blue"})
    assert found == ([lease] if expected else [])


@pytest.mark.parametrize("name", names.LEASES.values())
def test_a_lease_of_another_process_is_not_left_behind_by_a_scheduler_whose_name_it_begins_with(name):
    lease = a_lease("", name=name, seconds=1)
    assert left_behind([lease], scheduler_name=name.split("-")[0], wanted=()) == []
