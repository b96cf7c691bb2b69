"""When a pod-grouper is the one that groups."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.resources import LEASES
from kai.runtime import Host
from kai_local.apiserver.serving.faults import Rule
from kai_pod_grouper.service import PodGrouperService
from kai_pod_grouper.settings import PodGrouperSettings

pytestmark = pytest.mark.integration


class Candidacies:
    """The electors that a host gives, and which of them were asked to lead."""

    def __init__(self, host):
        self._elector = host.elector
        self.asked = 0
        host.elector = self.elector

    def elector(self, lease, **more):
        elector = self._elector(lease, **more)
        lead = elector.lead

        def asked(work):
            self.asked += 1
            return lead(work)

        elector.lead = asked
        return elector


@pytest.mark.parametrize("leader_elect", [False, True])
async def test_who_has_read_nothing_takes_the_lease_from_nobody(cluster, leader_elect):
    """While it is replaced, the one before groups until the next one can."""
    settings = PodGrouperSettings(leader_elect=leader_elect, grpc_listen="127.0.0.1:0")
    service = PodGrouperService(settings)
    host = Host(name=service.name, settings=settings, metrics=CollectorRegistry())
    candidacies = Candidacies(host)
    cluster.server.faults.rules.append(Rule(user_agent="a-pod-grouper", resource="pods", hang=True))
    async with (
        KubeClient.connect(cluster.kubeconfig, user_agent="a-pod-grouper") as host.client,
        asyncio.TaskGroup() as host.tasks,
    ):
        work = host.tasks.create_task(service.run(host))
        await eventually(lambda: cluster.server.faults.held)
        assert not candidacies.asked
        cluster.server.faults.release()

        async def holder():
            return [lease["spec"]["holderIdentity"] for lease in await cluster.client.list(LEASES)]

        await eventually(holder, lambda found: found == [host.identity])
        host.stopping.set()
        await asyncio.wait([work])
        host.stop_background()
