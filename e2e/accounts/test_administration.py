"""What the policies leave to administrators, and what the API server says of them."""

import pytest

from e2e.accounts.attacks import POLICIES
from e2e.accounts.world import RESERVATION
from e2e.harness import REAL
from kai.kube.resources import POD_GROUPS, PODS
from kai.model import names


async def test_an_administrator_can_repair_everything(cluster, world):
    repairs = [
        world.marked(PODS, "waits", labels={"runai-gpu-group": "repaired"}),
        world.status(POD_GROUPS, world.group, {"phase": "x"}),
        world.marked(
            POD_GROUPS, world.group, annotations={names.LAST_START_TIMESTAMP: "2020-01-01T00:00:00Z"}
        ),
        world.marked(PODS, world.reservation, annotations={"a": "b"}, namespace=RESERVATION),
    ]
    for request in repairs:
        await request.send(cluster.client)


@pytest.mark.skipif(not REAL, reason="needs an API server that checks the types of expressions")
async def test_the_api_server_finds_nothing_wrong_with_the_policies(cluster):
    """Expressions are checked against the types of what they are about; no policy matches nothing."""
    policies = [
        policy
        for policy in await cluster.client.list(POLICIES)
        if policy["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == "kai-scheduler"
    ]
    assert policies
    for policy in policies:
        assert not policy["status"].get("typeChecking"), policy["metadata"]["name"]
