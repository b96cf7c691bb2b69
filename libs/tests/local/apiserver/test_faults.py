"""Faults on demand: clients are tested with them, so they must do what they say."""

import asyncio

import aiohttp
import pytest

from deadlines import eventually

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
FAULTS = "/kai.local/faults"


@pytest.mark.parametrize(
    ("rule", "answers"),
    [
        ({"status": 500}, [500, 200]),
        ({"status": 429, "count": 2}, [429, 429, 200]),
        ({"status": 503, "verb": "list", "resource": "configmaps"}, [503, 200]),
        ({"status": 503, "verb": "get"}, [200]),
        ({"status": 503, "resource": "pods"}, [200]),
        ({"status": 503, "user_agent": "other"}, [200]),
        ({"status": 500, "count": -1}, [500, 500, 500]),
    ],
)
async def test_the_next_requests_that_match_fail(api, rule, answers):
    await api.post(FAULTS, {"rules": [rule]})
    assert [(await api.call("GET", CONFIG_MAPS))[0] for _ in answers] == answers


async def test_a_retry_time_is_told(api):
    await api.post(FAULTS, {"rules": [{"status": 429, "retry_after": 7}]})
    headers = {"Authorization": f"Bearer {api.server.admin_token}"}
    async with api.session.get(api.server.url + CONFIG_MAPS, headers=headers) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")


async def test_a_connection_is_dropped_before_or_after_the_work_is_done(api):
    for name, after in (("before", False), ("after", True)):
        await api.post(FAULTS, {"rules": [{"drop": True, "after": after, "verb": "create"}]})
        with pytest.raises(aiohttp.ClientError):
            await api.call("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    assert [item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS))["items"]] == ["after"]


async def test_a_request_can_hang_until_the_client_gives_up(api):
    await api.post(FAULTS, {"rules": [{"hang": True}]})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):  # noqa: TID251 (the client gives up)
            await api.call("GET", CONFIG_MAPS)
    assert (await api.get(FAULTS))["held"] == 1


async def test_a_request_that_hangs_has_been_carried_out_or_is_when_it_is_released(api):
    async def names():
        return [item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS))["items"]]

    asked = []
    for number, after in enumerate((False, True), start=1):
        await api.post(FAULTS, {"rules": [{"hang": True, "after": after, "verb": "create"}]})
        body = {"metadata": {"name": "after" if after else "before"}}
        asked.append(asyncio.create_task(api.post(CONFIG_MAPS, body)))
        await eventually(lambda: api.get(FAULTS), lambda state, number=number: state["held"] == number)
    assert await names() == ["after"]
    assert (await api.post(FAULTS, {"release": True}))["held"] == 0
    await asyncio.gather(*asked)
    assert await names() == ["after", "before"]


async def test_watches_are_dropped_and_their_versions_compacted(api):
    version = (await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}}))["metadata"]["resourceVersion"]
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})
    async with api.watch(f"{CONFIG_MAPS}?resourceVersion={version}") as events:
        assert await events.take(1) == [("MODIFIED", "a")]
        await api.post(FAULTS, {"dropWatches": True, "compact": True})
        with pytest.raises(EOFError):
            await events.next()
    async with api.watch(f"{CONFIG_MAPS}?resourceVersion={version}") as events:
        assert (await events.next())["object"]["code"] == 410


async def test_a_paused_server_answers_when_it_goes_on(api):
    await api.post(FAULTS, {"pause": True})
    waiting = asyncio.create_task(api.get(CONFIG_MAPS))
    state = await api.get(FAULTS)
    assert state["paused"] is True
    assert not waiting.done()
    await api.post(FAULTS, {"pause": False})
    assert (await waiting)["kind"] == "ConfigMapList"


@pytest.mark.parametrize("body", [{"nonsense": 1}, {"rules": [{"count": "x"}]}, []])
async def test_a_fault_that_makes_no_sense_is_refused(api, body):
    assert (await api.call("POST", FAULTS, body))[0] == 400


async def test_requests_are_counted_by_client_verb_and_resource(api):
    agent = {"User-Agent": "tester/1"}
    await api.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}, **agent)
    for _ in range(2):
        await api.call("GET", f"{CONFIG_MAPS}/a", **agent)
    async with api.watch(CONFIG_MAPS):
        report = await api.get("/kai.local/requests")
    assert report["watches"] == {"configmaps": 1}
    counted = {
        (r["verb"], r["resource"]): r["count"] for r in report["requests"] if r["userAgent"] == "tester/1"
    }
    assert counted == {("create", "configmaps"): 1, ("get", "configmaps"): 2}
    await api.delete("/kai.local/requests")
    assert (await api.get("/kai.local/requests"))["requests"] == []
