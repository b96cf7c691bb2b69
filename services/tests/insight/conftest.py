import pytest

from kai.history.addresses import open_database
from kai.history.store import open_store
from kai.kube.client import KubeClient
from kai.kube.resources import NAMESPACES
from kai_local.apiserver.serving.server import ApiServer
from services.tests.insight.builders import Seen
from services.tests.insight.town import NODES, POD_GROUPS, QUEUES, Town, asking


@pytest.fixture
def seen():
    return Seen()


@pytest.fixture
def begun(seen):
    """One that found an empty store and an empty cluster, but for a pod group."""
    seen.group()
    seen.begin()
    return seen


@pytest.fixture
def database(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/history.db")
    yield database
    database.close()


@pytest.fixture
def store(database):
    return open_store(database)


@pytest.fixture
async def town(tmp_path):
    async with ApiServer(rbac=True) as api:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient.connect(str(kubeconfig), user_agent="test") as admin:
            for namespace in ("people", "team", "other"):
                await admin.create(NAMESPACES, {"metadata": {"name": namespace}})
            yield Town(api, admin, tmp_path)


@pytest.fixture
async def asked(town, database):
    async with town.insight() as client, asking(database, client) as asked:
        yield asked


@pytest.fixture
async def root(town):
    """A token of somebody who may see everything."""
    token = await town.person("root")
    await town.allow("root", POD_GROUPS)
    await town.allow("root", QUEUES)
    return token


@pytest.fixture
async def boss(town, root):
    await town.allow("root", NODES)
    return root


@pytest.fixture
async def ann(town):
    """Somebody who sees nodes and queues, and pod groups of one namespace."""
    token = await town.person("ann")
    await town.allow("ann", NODES)
    await town.allow("ann", QUEUES)
    await town.allow("ann", POD_GROUPS, namespace="default")
    return token
