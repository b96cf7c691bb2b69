"""Finding the scheduler, and saying so soon where it cannot be reached."""

import grpc
import msgspec
import pytest

from kai.kube.errors import NotFound
from kai.model import names
from kai.wire import asking
from kai.wire.clients import connect_scheduler
from kai.wire.errors import PeerUnavailable
from kai.wire.serving import serve
from kai_local.processes.ports import free_ports

pytestmark = pytest.mark.integration


class Leases:
    """A client of an API server where somebody leads at an endpoint, from the so-manieth look on."""

    def __init__(self, endpoint, *, after=0):
        self.endpoint, self.left = endpoint, after

    async def get(self, res, name, *, namespace, type):  # noqa: A002
        assert (res.plural, name, namespace) == ("leases", "l", "n")
        if self.left:
            self.left -= 1
            raise NotFound("gone")
        noted = {names.ENDPOINT_ANNOTATION: self.endpoint, names.EPOCH_ANNOTATION: "3"}
        lease = {"metadata": {"name": name, "annotations": noted}, "spec": {"holderIdentity": "me"}}
        return msgspec.convert(lease, type)


async def test_a_scheduler_out_of_reach_is_given_up_soon(monkeypatch):
    monkeypatch.setattr(asking, "CONNECT_SECONDS", 0.3)
    [port] = free_ports(1)
    client = Leases(f"127.0.0.1:{port}")
    with pytest.raises(PeerUnavailable, match=f"no connection to 127.0.0.1:{port} without TLS within 0.3 s"):
        async with connect_scheduler(client, lease_name="l", namespace="n"):
            pytest.fail("there is nobody")


async def test_nobody_is_waited_for_where_one_look_is_all_that_is_wanted():
    with pytest.raises(PeerUnavailable, match="no scheduler leads"):
        async with connect_scheduler(Leases("x:1", after=1), lease_name="l", namespace="n", deadline=0):
            pytest.fail("there is nobody")


async def test_a_leader_that_comes_in_time_is_connected_to(monkeypatch):
    monkeypatch.setattr(asking, "_LOOK_SECONDS", 0.01)
    async with serve("127.0.0.1:0", []) as port:
        client = Leases(f"127.0.0.1:{port}", after=2)
        async with connect_scheduler(client, lease_name="l", namespace="n"):
            assert client.left == 0


async def test_a_scheduler_that_answers_no_question_is_connected_to_all_the_same():
    async with serve("127.0.0.1:0", []) as port:
        client = Leases(f"127.0.0.1:{port}")
        async with connect_scheduler(client, lease_name="l", namespace="n") as scheduler:
            with pytest.raises(PeerUnavailable, match=grpc.StatusCode.UNIMPLEMENTED.name):
                await scheduler.shares()
