"""Ports of a node: which pods cannot be on one node for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.model.objects import Container, ContainerPort, Pod, PodSpec
from kai.model.rules.host_ports import NO_PORTS, HostPorts, host_ports_of
from libs.tests.counted import Counted


def a_pod(*ports, sidecar_ports=(), host_network=None):
    sidecar = Container(name="sidecar", ports=list(sidecar_ports), restart_policy="Always")
    spec = PodSpec(
        containers=[Container(name="main", ports=list(ports))],
        init_containers=[sidecar],
        host_network=host_network,
    )
    return Pod(spec=spec)


def test_a_port_is_asked_for_by_address_protocol_and_number():
    said = ContainerPort(container_port=80, host_port=8080, host_ip="10.0.0.1", protocol="UDP")
    short = ContainerPort(container_port=80, host_port=443)
    pod = a_pod(said, short, ContainerPort(container_port=9), sidecar_ports=[short])
    assert host_ports_of(pod) == (("0.0.0.0", "TCP", 443), ("10.0.0.1", "UDP", 8080))


def test_in_the_network_of_the_host_ports_of_containers_are_its_own():
    pod = a_pod(ContainerPort(container_port=9), host_network=True)
    assert host_ports_of(pod) == (("0.0.0.0", "TCP", 9),)


ONE = ("10.0.0.1", "TCP", 80)


@pytest.mark.parametrize(
    ("other", "collide"),
    [
        (ONE, True),
        (("0.0.0.0", "TCP", 80), True),
        (("10.0.0.2", "TCP", 80), False),
        (("10.0.0.1", "UDP", 80), False),
        (("10.0.0.1", "TCP", 81), False),
    ],
    ids=["itself", "everywhere", "another address", "another protocol", "another number"],
)
def test_one_port_of_one_address_is_for_one_pod(other, collide):
    mine, theirs = HostPorts([ONE]), HostPorts([("10.0.0.9", "TCP", 7), other])
    assert mine.collide(theirs) is collide
    assert theirs.collide(mine) is collide
    assert not mine.collide(NO_PORTS)


def by_definition(mine, theirs):
    return any(
        (protocol, number) == (of, at) and (address == there or "0.0.0.0" in (address, there))
        for address, protocol, number in mine
        for there, of, at in theirs
    )


PORTS = st.lists(
    st.tuples(
        st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        st.sampled_from(["TCP", "UDP"]),
        st.integers(1, 9),
    ),
    max_size=6,
)


@given(mine=PORTS, theirs=PORTS)
def test_two_pods_collide_where_any_two_of_their_ports_do(mine, theirs):
    assert HostPorts(mine).collide(HostPorts(theirs)) is by_definition(mine, theirs)


@pytest.mark.parametrize("meeting", [0, 1000], ids=["where none meet", "where all meet at other addresses"])
def test_who_asks_for_many_ports_is_not_held_against_each_of_as_many_others(meeting):
    many = 1000
    mine = HostPorts([("10.0.0.1", Counted("TCP"), number) for number in range(many)])
    first = many - meeting
    theirs = HostPorts([("10.0.0.2", Counted("TCP"), number) for number in range(first, first + many)])
    Counted.looks = 0
    assert not mine.collide(theirs)
    assert Counted.looks <= 10 * many
