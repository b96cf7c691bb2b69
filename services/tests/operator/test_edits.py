"""Whatever Config and shards went through, the end is what they say last, and what was done by hand is gone.

On an API server of our own, or with ``KAI_E2E_CLUSTER=real`` on a real one.

``KAI_FUZZ_EDITS=1000`` tries as many edits at least; a run that ends otherwise is made smaller before that is
told.
"""

import asyncio
import os
import socket
import subprocess
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from deadlines import eventually, patience
from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import (
    CONFIG_MAPS,
    CONFIGS,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    SCHEDULING_SHARDS,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kai.model import names
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from kai_local.processes.ports import LOOPBACK, free_ports
from kai_local.real import binaries, credentials
from kai_local.real.programs import ControlPlane
from kai_operator import bodies, writer
from kai_operator.kinds import KINDS, NETWORK_POLICIES, SELECTOR, kind_of, ref_of
from kai_operator.leaders import leader_slices
from kai_operator.memory import remembered
from kai_operator.operands import KaiProduct
from kai_operator.ownership import owner_reference
from kai_operator.product import Found
from kai_operator.secret_data import decoded
from kai_operator.settings import OperatorSettings
from kai_operator.vault import Contents
from services.tests.operator.serving import operator
from services.tests.operator.unhurried import UnhurriedLoop

pytestmark = pytest.mark.integration

#: Edits in one run.
EACH = 50
REAL = os.environ.get("KAI_E2E_CLUSTER") == "real"
EDITS = int(os.environ.get("KAI_FUZZ_EDITS", "100" if REAL else "150"))
SEED = int(os.environ.get("KAI_FUZZ_SEED", "0"))
HOME = names.NAMESPACE
DEFINITIONS = definitions()
SHARDS = ("blue", "default", "red")


# --- edits ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Configure:
    """Fields of Config; None takes one away."""

    field: str
    value: Any


@dataclass(frozen=True)
class Shard:
    """A field of a shard, which is made if it is not there."""

    name: str
    field: str
    value: Any


@dataclass(frozen=True)
class NoShard:
    name: str


@dataclass(frozen=True)
class ByHand:
    """Somebody changes an object that the operator made, or deletes it."""

    resource: Resource
    name: str
    patch: Any


@dataclass(frozen=True)
class Look:
    """Nobody does anything before the operator has told what became of it all so far."""


@dataclass(frozen=True)
class Anew:
    """The operator ends, and another process of it begins."""


def configured(field, *values):
    return st.builds(Configure, st.just(field), st.sampled_from([*values, None]))


def sharded(field, *values):
    return st.builds(Shard, st.sampled_from(SHARDS), st.just(field), st.sampled_from([*values, None]))


def by_hand(resource, name, patch=None):
    return st.just(ByHand(resource, name, patch))


CONFIGURATIONS = st.one_of(
    configured("binder.maxConcurrentReconciles", 8, 16),
    configured("binder.replicas", 1, 3),
    configured("admission.gpuSharing", True, False),
    configured("queueController.metricsNamespace", "mine"),
    configured("queueController.webhooks.refuseDeletion", True),
    configured("podGroupController.webhooks.enableValidation", False),
    configured("redis.enabled", False),
    configured("redis.persistence.enabled", True),
    configured("nodeScaleAdjuster.service.enabled", True),
    configured("networkPolicy.enabled", False),
    configured("global.replicaCount", 2),
    configured("global.tls.enabled", False),
)
SHARD_CHANGES = st.one_of(
    sharded("partitionLabelValue", "a", "b"),
    sharded("placementStrategy.gpu", "spread"),
    sharded("kValue", 0.5, 2),
    sharded("plugins.elastic.enabled", False),
    sharded("plugins.numa.enabled", True),
    sharded("actions.preempt.enabled", False),
    sharded("minRuntime.preemptMinRuntime", "5m"),
    sharded("minRuntime.reclaimMinRuntime", "1h"),
    sharded("queueDepthPerAction", {"preempt": 5}, {"reclaim": 7}),
    sharded("args", {"v": "5"}),
    sharded("usageDBConfig", {"clientType": "prometheus", "connectionString": "http://prometheus:9090"}),
)
#: What the operator refuses; ``None`` mends it. So it does a depth for an action that is off, above.
SLIPS = st.one_of(
    configured("certificates.renewBefore", "400d"),
    sharded("plugins.podafinty", {"enabled": False}),
)
HANDS = st.one_of(
    by_hand(DEPLOYMENTS, "binder", {"spec": {"replicas": 5}}),
    by_hand(DEPLOYMENTS, "queue-controller", {"metadata": {"ownerReferences": None}}),
    by_hand(DEPLOYMENTS, "pod-grouper"),
    by_hand(
        CONFIG_MAPS, "kai-scheduler-default", {"data": {"config.yaml": "actions: allocate", "by": "hand"}}
    ),
    by_hand(CONFIG_MAPS, "kai-scheduler-red"),
    by_hand(SERVICES, "admission", {"spec": {"ports": [{"name": "webhook", "port": 444, "targetPort": 1}]}}),
    by_hand(SERVICES, "kai-scheduler-blue"),
    by_hand(NETWORK_POLICIES, "binder", {"spec": {"ingress": [{}]}}),
    by_hand(SECRETS, "kai-redis"),
    by_hand(SECRETS, "scheduler-grpc-tls-secret"),
    by_hand(VALIDATING_WEBHOOKS, "kai-queue-validation-v2"),
)
ONE = st.one_of(
    CONFIGURATIONS,
    SHARD_CHANGES,
    st.builds(NoShard, st.sampled_from(SHARDS)),
    HANDS,
    SLIPS,
    st.just(Look()),
    st.just(Anew()),
)


@st.composite
def long_runs(draw):
    """Unlike a list most are as long as they may be, and still can be made smaller edit by edit."""
    edits = []
    while len(edits) < EACH and draw(GOES_ON):
        edits.append(draw(ONE))
    return edits


GOES_ON = st.integers(0, 2**16).map(bool)


# --- the cluster ---------------------------------------------------------------------------------
@dataclass
class Cluster:
    """An API server, and an operator that comes and goes."""

    kubeconfig: str
    client: KubeClient
    #: How often as long what an ordinary wait takes: real controllers look again after half a minute.
    patience: float = 1.0

    async def edit(self, edit):
        match edit:
            case Configure(field, value):
                await self.client.patch(CONFIGS, "kai-config", nested(field, value))
            case Shard(name, field, value):
                try:
                    await self.client.patch(SCHEDULING_SHARDS, name, nested(field, value))
                except errors.NotFound:
                    spec = {"partitionLabelValue": "" if name == "default" else name}
                    await self.client.create(SCHEDULING_SHARDS, {"metadata": {"name": name}, "spec": spec})
                    await self.client.patch(SCHEDULING_SHARDS, name, nested(field, value))
            case NoShard(name):
                with suppress(errors.NotFound):
                    await self.client.delete(SCHEDULING_SHARDS, name)
            case ByHand(resource, name, patch):
                place = HOME if resource.namespaced else ""
                with suppress(errors.NotFound):
                    if patch is None:
                        await self.client.delete(resource, name, namespace=place)
                    else:
                        await self.client.patch(resource, name, patch, namespace=place)
            case Look():
                await eventually(
                    self.all_told, what="the operator tells what became of it", times=self.patience
                )

    async def mend(self):
        """Take back what cannot be in force, so that it is known what has to be there."""
        await self.edit(Configure("certificates.renewBefore", None))
        for shard in await self.client.list(SCHEDULING_SHARDS):
            name = shard["metadata"]["name"]
            await self.edit(Shard(name, "plugins.podafinty", None))
            if off(shard, "preempt"):
                await self.edit(Shard(name, "queueDepthPerAction.preempt", None))
            await self.edit(Shard(name, "partitionLabelValue", "" if name == "default" else name))

    async def owners(self):
        """Config, and all shards."""
        config = await self.client.get(CONFIGS, "kai-config")
        return config, sorted(
            await self.client.list(SCHEDULING_SHARDS), key=lambda shard: shard["metadata"]["name"]
        )

    async def all_told(self):
        config, shards = await self.owners()
        return all(condition(owner, "Reconciling") == "False" for owner in (config, *shards))

    async def problems(self):
        """What is not as Config and shards have it now, in words."""
        config, shards = await self.owners()
        found = [
            f"{owner['metadata']['name']}: Deployed is {condition(owner, 'Deployed')}"
            for owner in (config, *shards)
            if condition(owner, "Deployed") != "True"
        ]
        there = {ref_of(each): each for each in await self.made()}
        wanted = self.wanted(config, shards, there)
        secrets = self.secrets_of(config)
        found += [f"{ref} is missing" for ref in (wanted.keys() | secrets) - there.keys()]
        found += [f"{ref} is left" for ref in there.keys() - wanted.keys() - secrets]
        for ref, (manifest, owner) in wanted.items():
            if not found:  # one is enough to look again
                found += await self.differences(manifest, owner, there[ref])
        return found

    async def made(self):
        """All objects that the operator made."""
        objects = []
        for resource in (kind.resource for kind in KINDS if not kind.optional):
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            found = await self.client.list(resource, label_selector=SELECTOR)
            objects += [{**kind, **each} for each in found]
        return objects

    def product(self):
        settings = OperatorSettings.parse([])
        return KaiProduct(namespace=HOME, repository=settings.image_repository, tag=settings.image_tag)

    def secrets_of(self, config):
        needs = self.product().needs(self.product().read_config(config))
        found = {name for hosts in needs.certificates.values() for name in hosts} | needs.passwords.keys()
        return {ref_of({"kind": "Secret", "metadata": {"name": name, "namespace": HOME}}) for name in found}

    def wanted(self, config, shards, there):
        """Ref -> what is to be there, and whose it is."""
        product = self.product()
        spec = product.read_config(config)
        read = [product.read_shard(shard, spec) for shard in shards]
        found = self.found(product.needs(spec), there)
        owner = owner_reference(CONFIGS, "kai-config", config["metadata"]["uid"])
        objects = [*product.of_config(spec, read, found), remembered(config, namespace=HOME)]
        wanted = {ref_of(each): (each, owner) for each in objects}
        for manifest, shard in zip(shards, read, strict=True):
            owner = owner_reference(SCHEDULING_SHARDS, shard.name, manifest["metadata"]["uid"])
            objects = product.of_shard(spec, shard, found)
            objects += [*leader_slices(objects, None, {}), remembered(manifest, namespace=HOME)]
            wanted |= {ref_of(each): (each, owner) for each in objects}
        return wanted

    def found(self, needs, there):
        """What the Secrets that are there have others trust and know."""
        secrets = {ref.name: each for ref, each in there.items() if ref.kind == SECRETS.kind}
        trust = {
            purpose: decoded(secrets[name])["ca.crt"].decode()
            for purpose, hosts in needs.certificates.items()
            for name in list(hosts)[:1]
            if name in secrets
        }
        contents = Contents(due=None, secrets=[secrets[name] for name in needs.passwords if name in secrets])
        return Found(trust=trust, checksums=contents.checksums)

    async def differences(self, manifest, owner, live):
        """Between an object and what the API server would make of what is wanted."""
        prepared = bodies.prepared(manifest, owner)
        body = bodies.body(prepared, {**live, "metadata": {**live["metadata"], "labels": {}}})
        with suppress(errors.Conflict, errors.NotFound):  # it changes at this moment, and is looked at again
            answer = await self.client.update(
                kind_of(manifest).resource,
                live["metadata"]["name"],
                body,
                namespace=live["metadata"].get("namespace", ""),
                dry_run=True,
            )
            said, is_now = (
                {key: each for key, each in one.items() if key not in ("metadata", "status")}
                for one in (answer, live)
            )
            owners = [one["metadata"].get("ownerReferences") for one in (answer, live)]
            if said == is_now and owners[0] == owners[1]:
                return []
        return [f"{ref_of(manifest)} is otherwise"]


def off(shard, action):
    return not ((shard["spec"].get("actions") or {}).get(action) or {}).get("enabled", True)


def nested(field, value):
    for key in reversed(f"spec.{field}".split(".")):
        value = {key: value}
    return value


def condition(owner, kind):
    """What it says of this generation; None if that was not told."""
    conditions = (owner.get("status") or {}).get("conditions") or ()
    told = next((each for each in conditions if each["type"] == kind), {})
    return told.get("status") if told.get("observedGeneration") == owner["metadata"]["generation"] else None


async def prepare(client):
    """Definitions and namespaces."""
    for definition in DEFINITIONS:
        await client.create(CRDS, definition)
    for name in (HOME, names.RESERVATION_NAMESPACE, names.SCALE_ADJUST_NAMESPACE):
        await client.create(NAMESPACES, {"metadata": {"name": name}})


@asynccontextmanager
async def embedded(folder):
    """A cluster for one run, of an API server in this process."""
    async with ApiServer() as server:
        kubeconfig = str(server.write_kubeconfig(folder / "config"))
        async with KubeClient.connect(kubeconfig) as client:
            await prepare(client)
            await client.create(CONFIGS, {"metadata": {"name": "kai-config"}, "spec": {}})
            yield Cluster(kubeconfig, client)


#: Of the real controllers those that delete: others would make objects beside those of the operator.
DELETING = "garbage-collector-controller,persistentvolumeclaim-protection-controller"


@contextmanager
def real_control_plane(folder):
    """A real API server with its store; its kubeconfig."""
    etcd, peer, api, controllers, kwok = free_ports(5)
    plane = ControlPlane(
        binaries=binaries.find(), folder=folder, etcd_port=etcd, etcd_peer_port=peer, api_port=api,
        controllers_port=controllers, kwok_port=kwok,
    )  # fmt: skip
    kubeconfig = str(folder / credentials.KUBECONFIG)
    subprocess.run(plane.credentials().command, check=True)
    with ExitStack() as running:
        running.enter_context(in_background(plane.etcd().command, folder))
        asyncio.run(eventually(lambda: listens(etcd), what="etcd listens"))
        running.enter_context(in_background(plane.api_server().command, folder))
        asyncio.run(begin(kubeconfig))
        deleting = (*plane.controllers().command, f"--controllers={DELETING}")
        running.enter_context(in_background(deleting, folder))
        yield kubeconfig


@contextmanager
def in_background(command, folder):
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


async def begin(kubeconfig):
    async with KubeClient.connect(kubeconfig, wait=patience(2)) as client:
        await prepare(client)


@asynccontextmanager
async def emptied(kubeconfig):
    """The real control plane for one run, without what the one before has left."""
    async with KubeClient.connect(kubeconfig) as client:
        there = Cluster(kubeconfig, client, patience=6.0)
        for resource in (CONFIGS, SCHEDULING_SHARDS):
            # A server that was just told of a kind may not know it yet.
            found = await eventually(
                partial(client.list, resource),
                lambda _: True,
                passing=(errors.NotFound,),
                what="the kind is served",
            )
            for each in found:
                await client.delete(resource, each["metadata"]["name"])
        await eventually(
            there.made, lambda found: not found, what="nothing is left of the run before", times=6
        )
        await client.create(CONFIGS, {"metadata": {"name": "kai-config"}, "spec": {}})
        yield there


def runs(edits):
    """The edits of each process of the operator."""
    found = [[]]
    for edit in edits:
        if edit == Anew():
            found.append([])
        else:
            found[-1].append(edit)
    return found


#: Runs that ended otherwise. Smaller ones that may do so, too, are not waited for so long.
FAILED: list[object] = []


async def play(edits, cluster):
    async with cluster() as there:
        *before, last = runs(edits)
        for some in before:
            async with operator(there.kubeconfig):
                for edit in some:
                    await there.edit(edit)
        async with operator(there.kubeconfig):
            for edit in last:
                await there.edit(edit)
            await there.mend()
            times = 0.05 if FAILED else there.patience
            try:
                await eventually(there.problems, lambda found: not found, what="what is wrong", times=times)
            except AssertionError:
                FAILED.append(edits)
                raise


#: Runs that are drawn from one seed. The first is always the smallest: one of no edits.
A_BATCH = 5


def some_runs(number):
    """The batch of this number: the same each time, unless ``KAI_FUZZ_SEED`` says otherwise."""
    return lambda test: seed(SEED * 1_000_000 + number)(
        settings(
            max_examples=A_BATCH,
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )(test)
    )


def changes(edits):
    """How many of these change something."""
    return sum(not isinstance(edit, Look | Anew) for edit in edits)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Makes the cluster of a run."""
    folder = tmp_path_factory.mktemp("edits")
    if not REAL:
        yield lambda: embedded(folder)
        return
    if os.environ.get("KAI_E2E_KUBECONFIG"):
        pytest.skip("takes away all that an operator has made")
    try:
        binaries.find()
    except binaries.BinariesMissing as error:
        pytest.skip(str(error))
    with real_control_plane(folder) as kubeconfig:
        yield lambda: emptied(kubeconfig)


@pytest.fixture(scope="module", autouse=True)
def nobody_is_too_often_put_right():
    """Else a run with many edits of one object by hand ends a minute later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "CORRECTIONS", EACH)
        yield


@pytest.mark.timeout(patience((60 if REAL else 10) + EDITS / EACH))
def test_whatever_was_edited_the_end_is_what_was_asked_for_last(cluster):
    played = [0]
    while sum(played) < EDITS:
        before = sum(played)
        play_some(len(played), played, cluster)
        assert sum(played) > before, "a batch of runs without an edit"


def play_some(number, played, cluster):
    @some_runs(number)
    @given(edits=long_runs())
    def batch(edits):
        with asyncio.Runner(loop_factory=UnhurriedLoop) as runner:
            runner.run(play(edits, cluster))
        played.append(changes(edits))

    batch()
