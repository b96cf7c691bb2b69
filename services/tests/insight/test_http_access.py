"""What the API server said is believed for a moment; it is asked with all that is known of a caller."""

import asyncio

import msgspec
import pytest

from kai.kube.errors import TransportError
from kai.kube.resources import POD_GROUPS, QUEUES
from kai_insight.http.access import LONGEST_TOKEN, MOST_STRANGERS, REMEMBERED_SECONDS, Access
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.remembered import Remembered

ANN = {
    "username": "ann",
    "uid": "u-1",
    "groups": ["devs", "system:authenticated"],
    "extra": {"scopes.example.com": ["read"]},
}


class Reviewing:
    """A client that answers reviews as the test says; ``asked`` are their specs."""

    def __init__(self):
        self.users = {"good": ANN}
        self.may = set()
        self.away = False
        self.asked = []
        self.answering = asyncio.Event()
        self.answering.set()

    async def create(self, resource, body, **how):
        if self.away:
            raise TransportError("connection refused by 10.0.0.1")
        spec = body["spec"]
        self.asked.append(spec)
        await self.answering.wait()
        return msgspec.convert({"status": self._status(spec)}, how["type"])

    def _status(self, spec):
        if "token" in spec:
            user = self.users.get(spec["token"])
            return {"authenticated": True, "user": user} if user else {"user": {}, "error": "no"}
        wanted = spec["resourceAttributes"]
        return {"allowed": (wanted["resource"], wanted["namespace"]) in self.may}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def server():
    return Reviewing()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def access(server, clock):
    return Access(server, clock=clock)


async def test_a_caller_is_asked_about_with_his_groups_and_all_that_was_said_of_him(server, access):
    ann = await access.caller("good")
    assert not await access.may_list(ann, POD_GROUPS, "team")
    assert server.asked[-1] == {
        "user": "ann",
        "uid": "u-1",
        "groups": ["devs", "system:authenticated"],
        "extra": {"scopes.example.com": ["read"]},
        "resourceAttributes": {
            "verb": "list",
            "group": "scheduling.run.ai",
            "version": "v2alpha2",
            "resource": "podgroups",
            "namespace": "team",
        },
    }


async def test_who_loses_a_right_or_his_token_has_it_for_a_moment_only(server, access, clock):
    server.may.add(("podgroups", "team"))
    ann = await access.caller("good")
    assert await access.may_list(ann, POD_GROUPS, "team")
    server.may.clear()
    server.users.clear()
    clock.now = REMEMBERED_SECONDS - 0.1
    assert await access.caller("good") == ann
    assert await access.may_list(ann, POD_GROUPS, "team")
    clock.now = REMEMBERED_SECONDS
    assert not await access.may_list(ann, POD_GROUPS, "team")
    with pytest.raises(Problem) as refused:
        await access.caller("good")
    assert refused.value.trouble is Trouble.UNAUTHENTICATED


async def test_what_one_may_is_not_what_another_may(server, access):
    server.users["other"] = {**ANN, "username": "bob"}
    server.may.add(("queues", ""))
    ann, bob = await access.caller("good"), await access.caller("other")
    assert await access.may_list(ann, QUEUES)
    server.may.clear()
    assert not await access.may_list(bob, QUEUES)


async def test_no_token_is_kept(access):
    secret = "s3cret" * 8
    with pytest.raises(Problem) as refused:
        await access.caller(secret)
    kept = [vars(each) for each in vars(access).values() if isinstance(each, Remembered)]
    assert secret not in repr(kept) + str(refused.value)
    assert secret not in repr(await access.caller("good"))


async def test_a_token_that_is_too_long_is_nobodys_and_nobody_is_asked(server, access):
    with pytest.raises(Problem):
        await access.caller("x" * (LONGEST_TOKEN + 1))
    assert server.asked == []


async def test_an_api_server_that_is_away_is_not_remembered_and_where_it_is_not_told(server, access):
    server.away = True
    with pytest.raises(Problem) as away:
        await access.caller("good")
    assert away.value.trouble is Trouble.API_SERVER_AWAY
    assert "10.0.0.1" not in str(away.value)
    server.away = False
    assert (await access.caller("good")).user == "ann"


async def test_whoever_sends_wrong_tokens_keeps_nobody_waiting_who_is_known(server, access):
    ann = await access.caller("good")
    server.answering.clear()
    strangers = [asyncio.create_task(access.caller(f"wrong-{number}")) for number in range(MOST_STRANGERS)]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await access.caller("one more")
    assert refused.value.trouble is Trouble.BUSY
    assert await access.caller("good") == ann
    server.answering.set()
    found = await asyncio.gather(*strangers, return_exceptions=True)
    assert {problem.trouble for problem in found} == {Trouble.UNAUTHENTICATED}
    with pytest.raises(Problem) as nobody:
        await access.caller("one more")
    assert nobody.value.trouble is Trouble.UNAUTHENTICATED


async def test_of_many_namespaces_those_that_he_may_see_are_told(server, access):
    server.may |= {("podgroups", f"ns-{number}") for number in range(0, 200, 2)}
    ann = await access.caller("good")
    seen = await access.visible(ann, [f"ns-{number}" for number in range(200)])
    assert seen == {f"ns-{number}" for number in range(0, 200, 2)}


def test_what_is_too_old_goes_with_what_comes(clock):
    kept = Remembered(seconds=10.0, most=100, clock=clock)
    for moment in (0.0, 1.0, 5.0):
        clock.now = moment
        kept.put(moment, moment)
    clock.now = 11.0
    kept.put("new", 0.0)
    assert len(kept) == 2
    assert kept.get(5.0) == 5.0


def test_of_too_much_the_oldest_is_forgotten(clock):
    kept = Remembered(seconds=10.0, most=3, clock=clock)
    for number in range(5):
        kept.put(number, number)
    assert [kept.get(number) for number in range(5)] == [None, None, 2, 3, 4]
    clock.now = 10.0
    assert [kept.get(number) for number in range(2, 5)] == [None] * 3
    assert len(kept) == 0
