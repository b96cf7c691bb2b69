"""Finding the scheduler, and saying so soon where it cannot be reached."""

from types import SimpleNamespace

import grpc
import pytest

from kai.wire import clients
from kai.wire.channel import serve
from kai.wire.clients import connect_scheduler
from kai.wire.errors import PeerUnavailable
from kai_local.processes.ports import free_ports

pytestmark = pytest.mark.integration


@pytest.fixture
def leader_at(monkeypatch):
    """Make somebody lead at an endpoint."""

    def lead(endpoint):
        class Tracker:
            def __init__(self, client, **where):
                pass

            async def __aenter__(self):
                return self

            async def __aexit__(self, *_):
                return None

            async def present(self):
                return SimpleNamespace(endpoint=endpoint)

        monkeypatch.setattr(clients, "LeaderTracker", Tracker)

    return lead


async def test_a_scheduler_out_of_reach_is_given_up_soon(leader_at, monkeypatch):
    monkeypatch.setattr(clients, "CONNECT_SECONDS", 0.3)
    [port] = free_ports(1)
    leader_at(f"127.0.0.1:{port}")
    with pytest.raises(PeerUnavailable, match=f"no connection to 127.0.0.1:{port} without TLS within 0.3 s"):
        async with connect_scheduler(None, lease_name="l", namespace="n"):
            pytest.fail("there is nobody")


async def test_a_scheduler_that_answers_no_question_is_connected_to_all_the_same(leader_at):
    async with serve("127.0.0.1:0", []) as port:
        leader_at(f"127.0.0.1:{port}")
        async with connect_scheduler(None, lease_name="l", namespace="n") as scheduler:
            with pytest.raises(PeerUnavailable, match=grpc.StatusCode.UNIMPLEMENTED.name):
                await scheduler.explain_pod(namespace="n", name="p")
