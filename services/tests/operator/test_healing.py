"""Kinds of objects that only some installations have heal, too.

Those of an installation that says nothing are spoilt where its processes run, in ``e2e/test_operator.py``.
"""

import msgspec
import pytest

from deadlines import BASE_SECONDS, eventually
from e2e import healing
from e2e.harness import Cluster
from e2e.third_party.definitions import a_definition
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.leases import Lease
from kai.kube.resources import CONFIGS, CRDS, LEASES, NAMESPACES, PODS, SCHEDULING_SHARDS
from kai.model import names
from kai.operands import OPTIONAL_KINDS, Facts
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from kai_operator.kinds import KINDS, PROMETHEUSES
from kai_operator.leaders import SchedulerPod, leader_slices
from services.tests.operator.serving import operator

pytestmark = pytest.mark.integration

HOME = names.NAMESPACE
#: Within ten seconds, where the machine is quick and idle.
HEALED = 10.0 / BASE_SECONDS
#: An installation that has all that there may be.
CONFIG = {
    "metadata": {"name": "kai-config"},
    "spec": {
        "global": {"replicaCount": 2, "vpa": {"enabled": True}},
        "prometheus": {"enabled": True},
        "redis": {"persistence": {"enabled": True}},
        "nodeScaleAdjuster": {"service": {"enabled": True}},
        "numaPlacementExporter": {"service": {"enabled": True}},
    },
}
SHARD = {"metadata": {"name": "default"}, "spec": {}}
PART_OF = "app.kubernetes.io/part-of"
#: Who leads, without which no endpoints are written.
LEASE = {
    "metadata": {"name": names.SCHEDULER_NAME, "namespace": HOME},
    "spec": {"holderIdentity": "leads_1", "leaseDurationSeconds": 15},
}
LEADER = {
    "metadata": {
        "name": "leads",
        "namespace": HOME,
        "labels": {"app.kubernetes.io/part-of": "kai-scheduler"},
    },
    "spec": {"containers": [{"name": "scheduler", "image": "scheduler"}]},
}
ADDRESS = {"podIP": "10.1.1.1"}
MADE = healing.operands(CONFIG, [SHARD], Facts(served=frozenset(OPTIONAL_KINDS)))
MADE += leader_slices(
    MADE,
    msgspec.convert(LEASE, Lease),
    {"leads": msgspec.convert({**LEADER, "status": ADDRESS}, SchedulerPod)},
)
USUAL = healing.kinds(healing.usual())
REST = [each for each in healing.kinds(MADE) if each not in USUAL]


@pytest.fixture
async def cluster(tmp_path):
    """An API server that keeps objects, and the operator; nothing runs there."""
    async with ApiServer() as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "config")
        async with KubeClient.connect(str(kubeconfig)) as client:
            await furnish(client)
            async with operator(str(kubeconfig)):
                yield Cluster(kubeconfig=kubeconfig, client=client)


async def furnish(client):
    for definition in definitions():
        await client.create(CRDS, definition)
    for resource in (kind.resource for kind in KINDS if kind.optional):
        versions = [resource.version]
        await client.create(
            CRDS, a_definition(resource.group, resource.kind, versions, plural=resource.plural)
        )
    for name in (HOME, names.RESERVATION_NAMESPACE, names.SCALE_ADJUST_NAMESPACE):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    await client.create(LEASES, LEASE, namespace=HOME)
    await client.create(PODS, LEADER, namespace=HOME)
    await client.patch(PODS, "leads", {"status": ADDRESS}, namespace=HOME, subresource="status")
    await client.create(CONFIGS, CONFIG)
    await client.create(SCHEDULING_SHARDS, SHARD)


def test_no_kind_is_left_out():
    assert {kind for _, kind in (*USUAL, *REST)} == {each.resource.kind for each in KINDS}


async def healed(cluster, resource, before, *, anew):
    namespace, name = healing.place(before)
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}

    async def look():
        try:
            return kind | await cluster.client.get(resource, name, namespace=namespace)
        except NotFound:
            return None

    await eventually(
        look,
        lambda now: (
            now is not None
            and (now["metadata"]["uid"] != before["metadata"]["uid"]) is anew
            and healing.decided(now) == healing.decided(before)
        ),
        what=f"{resource.kind} {name} is as it was",
        times=HEALED,
    )


@pytest.mark.parametrize(("api_version", "kind"), REST)
async def test_what_is_deleted_or_changed_is_as_it_was_and_what_nobody_asked_for_goes(
    cluster, api_version, kind
):
    wanted = {healing.place(each) for each in MADE if each["kind"] == kind}
    resource = await healing.resource_of(cluster, api_version, kind)
    objects = await eventually(
        lambda: healing.there(cluster, resource), lambda found: found.keys() == wanted, what="all is there"
    )
    if kind != PROMETHEUSES.kind:  # that would be one that was switched off, and is kept for a while
        stray = healing.stray(next(iter(objects.values())))
        await cluster.client.create(resource, stray, namespace=healing.place(stray)[0])
    for before in objects.values():
        namespace, name = healing.place(before)
        await cluster.client.patch(resource, name, healing.by_hand(kind), namespace=namespace)
        await healed(cluster, resource, before, anew=False)
        await cluster.client.delete(resource, name, namespace=namespace, propagation="Background")
        await healed(cluster, resource, before, anew=True)
    await eventually(
        lambda: healing.there(cluster, resource),
        lambda found: found.keys() == wanted,
        what="what nobody asked for is gone",
        times=HEALED,
    )
