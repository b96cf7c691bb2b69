"""An API server with people who may see this and that, and somebody who asks insight over HTTP."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import aiohttp
import yaml
from yarl import URL

from deadlines import eventually, patience, within
from kai.answers.answer import Held
from kai.kube.client import KubeClient
from kai.kube.resources import SERVICE_ACCOUNTS, Resource
from kai.live.waiting import Known
from kai.observe import new_registry
from kai_insight.http.page import Page
from kai_insight.http.server import HttpServer
from kai_insight.live.knowledge import Unknown
from kai_insight.live.live import Live
from kai_local.apiserver.serving.faults import Rule
from libs.tests.history.builders import HOUR, NOON

_RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(_RBAC, "v1", "roles", "Role")
BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", False)
CLUSTER_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
REVIEWS = ("tokenreviews", "subjectaccessreviews")
#: Reviews as insight asks for them, which it may as the chart gives it.
AGENT = "kai-insight"


def rules(group, *resources, verb="list"):
    return [{"apiGroups": [group], "resources": list(resources), "verbs": [verb]}]


POD_GROUPS = rules("scheduling.run.ai", "podgroups")
QUEUES = rules("scheduling.run.ai", "queues")
NODES = rules("", "nodes")
MAY_REVIEW = [
    *rules("authentication.k8s.io", "tokenreviews", verb="create"),
    *rules("authorization.k8s.io", "subjectaccessreviews", verb="create"),
]


class Town:
    """An API server with people, and the history of their namespaces."""

    def __init__(self, api, admin, folder):
        self.api = api
        self.admin = admin
        self._folder = folder

    async def person(self, name):
        """A token of somebody who may nothing yet."""
        await self.admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace="people")
        path = f"/api/v1/namespaces/people/serviceaccounts/{name}/token"
        made = await self.admin.raw(path, method="POST", body={"spec": {}})
        return made["status"]["token"]

    async def allow(self, name, granted, *, namespace=""):
        """Give somebody rights, in one namespace or in all."""
        role, binding = (ROLES, BINDINGS) if namespace else (CLUSTER_ROLES, CLUSTER_BINDINGS)
        called = f"{name}-{namespace or 'all'}-{granted[0]['resources'][0]}"
        where = {"namespace": namespace} if namespace else {}
        await self.admin.create(role, {"metadata": {"name": called}, "rules": granted}, **where)
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "people"}
        said = {"roleRef": {"apiGroup": _RBAC, "kind": role.kind, "name": called}, "subjects": [subject]}
        await self.admin.create(binding, {"metadata": {"name": called}, **said}, **where)

    def fails(self, resource, **how):
        """From now on the API server fails in these reviews."""
        self.api.faults.rules.append(Rule(count=-1, user_agent=AGENT, resource=resource, **how))

    async def reviews(self):
        """How many reviews insight has asked for."""
        told = (await self.admin.raw("/kai.local/requests"))["requests"]
        return sum(each["count"] for each in told if each["resource"] in REVIEWS)

    @asynccontextmanager
    async def insight(self):
        """A client as insight has it: with the rights of its account and no other."""
        token = await self.person("insight")
        await self.allow("insight", MAY_REVIEW)
        path = self._folder / "insight.kubeconfig"
        config = yaml.safe_load(self.api.kubeconfig())
        config["users"][0]["user"] = {"token": token}
        path.write_text(json.dumps(config))
        async with KubeClient.connect(str(path), user_agent=AGENT) as client:
            yield client


class Told:
    """What is known beside the cluster, as a test says it."""

    def __init__(self, known=None, runs=()):
        self._known = known or Known()
        self._runs = runs
        self.kept = []
        #: From when on the last forecast counts.
        self.kept_at = 0.0

    def known(self, shard):
        return self._known

    async def runs(self):
        if self._runs is None:
            raise Unknown("nobody knows the past")
        return self._runs

    async def keep_forecast(self, answer, *, at):
        self.kept.append(answer.pod_group)
        self.kept_at = at
        return {"p50": Held(held=1, of=2), "p90": Held(held=2, of=2)}

    async def processes(self):
        return []

    def forecasts(self):
        return None

    def store(self):
        return None


class Asking:
    """Somebody who asks over HTTP; each answer is status, headers, document."""

    def __init__(self, session, address, registry):
        self._session = session
        self.address = address
        self._root = f"http://{address[0]}:{address[1]}"
        self.registry = registry

    def unpacked(self):
        """Somebody who unpacks nothing by himself."""
        return aiohttp.ClientSession(self._root, auto_decompress=False)

    @asynccontextmanager
    async def stream(self, path, token, **query):
        """Events as they come, each its name and its data; comments have no name."""
        headers = {"Authorization": f"Bearer {token}"}
        async with self._session.get(f"{self._root}{path}", headers=headers, params=query) as got:
            yield got.status, got.headers, _events(got.content)

    async def fetched(self, path, token="", *, headers=None, **query):
        """What lies at a path, as it is."""
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        async with self._session.get(f"{self._root}{path}", headers=sent, params=query) as got:
            return got.status, got.headers, await got.read()

    async def call(self, path, token="", /, *, method="GET", raw=False, headers=None, **query):
        url = URL(f"{self._root}{path}", encoded=raw)
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        async with self._session.request(
            method, url.update_query(query) if query else url, headers=sent
        ) as got:
            return got.status, got.headers, await got.json()

    async def answered(self, name, token):
        """What is answered once the API server answers in the little time that it has for that."""
        ask = partial(self.call, f"/api/v1/{name}", token, since="0")
        status, _, document = await eventually(ask, lambda got: got[0] != 503)
        assert status == 200, document
        return document

    async def rows(self, name, token, **query):
        """What is found in the whole of the time that tests write about."""
        said = {"since": "0", **query}
        status, _, document = await self.call(f"/api/v1/{name}", token, **said)
        assert status == 200, document
        return document

    async def refused(self, name, token="", /, **query):
        status, _, document = await self.call(f"/api/v1/{name}", token, **query)
        return status, document["error"]["code"], document["error"]["message"]


@asynccontextmanager
async def asking(database, client, *, live=None, page=None, knowledge=None, certificates=None, **options):
    registry = new_registry()
    serves = HttpServer(
        database,
        client,
        listen="127.0.0.1:0",
        certificates=certificates,
        registry=registry,
        live=live or Live("nobody lives here"),
        knowledge=knowledge or Told(),
        answer_pods=options.pop("answer_pods", 1000),
        page=page or Page(Path("no such folder")),
        now=lambda: NOON + 10 * HOUR,
        **{"patience": patience(), "deadline": patience(), **options},
    )
    task = asyncio.create_task(serves.run())
    try:
        async with within("the server starts"):
            await serves.started.wait()
        async with aiohttp.ClientSession() as session:
            yield Asking(session, serves.address, registry)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _events(content):
    name = ""
    async for line in content:
        match line.decode().rstrip("\n").split(": ", 1):
            case ["event", said]:
                name = said
            case ["data", said]:
                yield name, json.loads(said)
                name = ""
            case ["", said]:
                yield "", said
