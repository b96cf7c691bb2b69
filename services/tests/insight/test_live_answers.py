"""What is told of shards that come and go while somebody asks."""

import json
from types import SimpleNamespace

from kai.kube.resources import POD_GROUPS
from kai.model import names
from kai_insight.http import live_endpoints as endpoints
from kai_insight.http.access import Caller
from kai_insight.http.live_answers import LiveAnswers
from kai_insight.http.live_asked import LiveAsked
from libs.tests.engine.builders import a_pod
from services.tests.insight.town import Told
from services.tests.insight.watched import Watched


class Rights:
    """Somebody who may list all but pod groups, and these in one namespace only."""

    async def may_list(self, caller, resource, namespace=""):
        return resource is not POD_GROUPS or namespace == "team-a"

    async def require(self, caller, resource, namespace=""):
        assert await self.may_list(caller, resource, namespace)

    async def visible(self, caller, namespaces):
        return frozenset({"team-a"} & set(namespaces))


async def test_of_a_shard_that_comes_while_health_is_told_nobody_is_told_more_than_he_may_see():
    watched = Watched()
    bad = a_pod("x", gpus=1, namespace="team-b")
    bad.metadata.annotations = {names.GPU_FRACTION: "lots"}
    await watched.cycle(bad)
    live = SimpleNamespace(shards={}, away="its scheduler is looked for")

    class Meanwhile(Told):
        async def processes(self):
            live.shards = watched.live.shards
            return []

    answers = LiveAnswers(live, Rights(), knowledge=Meanwhile(), copies=None, source="", history=False)
    try:
        told = json.loads(await answers.answer(endpoints.HEALTH, LiveAsked(), Caller(b"", "ann")))
    finally:
        await watched.checker.close()
    (shard,) = told["shards"]
    assert (shard["name"], shard["setAside"]) == ("default", [])
