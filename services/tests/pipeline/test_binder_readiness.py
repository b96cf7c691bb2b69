"""When a binder says that it is ready: rollouts, the operator's conditions and alarms go by it."""

import pytest

from kai.kube.resources import LEASES
from kai.model import names

pytestmark = pytest.mark.integration

#: Nobody listens there.
NOWHERE = "127.0.0.1:1"


async def test_it_is_ready_where_no_scheduler_is_wanted_and_says_that_none_leads(cluster):
    async with cluster.binder() as host:
        await cluster.until(
            lambda: host.health.notes() == {"schedulers": "nobody leads scheduler kai-scheduler"}
        )
        assert host.health.ready


async def test_it_is_not_ready_while_it_cannot_reach_who_leads(cluster):
    lease = {
        "metadata": {
            "name": "kai-scheduler",
            "annotations": {names.ENDPOINT_ANNOTATION: NOWHERE, names.EPOCH_ANNOTATION: "7"},
        },
        "spec": {"holderIdentity": "lost", "leaseDurationSeconds": 3600},
    }
    await cluster.client.create(LEASES, lease, namespace=names.NAMESPACE)
    async with cluster.binder() as host:
        await cluster.until(
            lambda: host.health.ask().get("scheduler") == "not connected to scheduler kai-scheduler"
        )
        released = {"spec": {"holderIdentity": ""}}
        await cluster.client.patch(LEASES, "kai-scheduler", released, namespace=names.NAMESPACE)
        await cluster.until(lambda: host.health.ready)


async def test_it_stays_ready_when_its_scheduler_is_taken_away(cluster):
    async with cluster.binder() as host:
        async with cluster.scheduler():
            await cluster.until(lambda: host.health.ready and not host.health.notes())
        await cluster.until(lambda: host.health.notes().get("schedulers", "").startswith("nobody leads"))
        assert host.health.ready
