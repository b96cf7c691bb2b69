"""Requests go out at the pace that was set, and leaders are not held up by it."""

import asyncio

import pytest

from kai.kube.client import KubeClient
from kai.kube.errors import DeadlineExceeded
from kai.kube.pace import Pace
from kai.kube.resources import LEASES, NODES
from kai.runtime import ServiceSettings, SettingsError


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("qps", "burst", "delays"),
    [
        (2, 1, [0, 0.5, 1.0, 1.5]),
        (2, 3, [0, 0, 0, 0.5, 1.0]),
        (10, 0, [0, 0.1, 0.2]),
    ],
)
def test_after_a_burst_turns_come_evenly(qps, burst, delays):
    pace = Pace(qps, burst, clock=Clock())
    assert [pace.turn() for _ in delays] == pytest.approx(delays)


def test_a_rest_gives_the_burst_back_and_no_more():
    clock = Clock()
    pace = Pace(2, 2, clock=clock)
    assert [pace.turn() for _ in range(3)] == pytest.approx([0, 0, 0.5])
    clock.now += 60
    assert [pace.turn() for _ in range(3)] == pytest.approx([0, 0, 0.5])


async def test_everything_but_leases_waits_for_its_turn(server, answers, tmp_path, monkeypatch):
    """Whoever renews a Lease late leads no longer."""
    server.script("GET", "/api/v1/nodes", answers.json({"items": [], "metadata": {}}))
    lease = "/apis/coordination.k8s.io/v1/namespaces/kai/leases/x"
    server.script("GET", lease, answers.json({"metadata": {"name": "x"}}))
    pace, turns = Pace(1000, 1000), []
    monkeypatch.setattr(pace, "turn", lambda: turns.append(None) or 0.0)
    async with KubeClient.connect(server.kubeconfig(tmp_path), pace=pace) as client:
        before = len(turns)
        await client.get(LEASES, "x", namespace="kai")
        assert len(turns) == before
        await client.list(NODES)
        assert len(turns) == before + 1


async def test_reads_that_gave_up_waiting_for_their_turn_hold_up_nobody(server, answers, tmp_path):
    server.script("GET", "/api/v1/nodes/n", answers.json({"metadata": {"name": "n"}}))
    async with KubeClient.connect(server.kubeconfig(tmp_path), pace=Pace(20)) as client:
        crowd = [client.get(NODES, "n", deadline=0.3) for _ in range(400)]
        answered = await asyncio.gather(*crowd, return_exceptions=True)
        assert any(isinstance(each, DeadlineExceeded) for each in answered)
        assert (await client.get(NODES, "n"))["metadata"]["name"] == "n"


def test_a_burst_needs_a_pace():
    assert ServiceSettings.parse([]).pace is None
    assert ServiceSettings.parse(["--qps=5"]).pace is not None
    with pytest.raises(SettingsError, match="--burst has no meaning without --qps"):
        ServiceSettings.parse(["--burst=5"])
