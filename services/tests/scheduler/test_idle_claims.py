"""Claims are given back side by side: what becomes of one is nothing to the others."""

import asyncio
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from kai.kube import errors
from kai.kube.resources import RESOURCE_CLAIMS
from kai.snapshot.idle_claims import IdleReservation
from kai_scheduler import idle_claims

pytestmark = pytest.mark.looptime


class Claims:
    """An API server that keeps claims, each reserved for one pod; of some the update ends otherwise."""

    def __init__(self, **failures):
        self.failures, self.given_back = failures, []

    async def get(self, resource, name, *, namespace):
        return {"metadata": {"name": name}, "status": {"reservedFor": [{"resource": "pods", "uid": "p"}]}}

    async def update(self, resource, name, body, *, namespace, subresource):
        failure = self.failures.get(namespace)
        if failure == "hangs":
            await asyncio.Event().wait()
        if failure is not None:
            raise failure
        assert "reservedFor" not in body["status"]
        self.given_back.append(namespace)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    async def served(client, resource):
        return SimpleNamespace(resource=RESOURCE_CLAIMS)

    monkeypatch.setattr(idle_claims, "served", served)


def idle(*namespaces):
    return [IdleReservation(namespace, "claim", ("p",)) for namespace in namespaces]


@pytest.mark.parametrize("failure", ["hangs", errors.ServerError("webhook away", status=500)])
async def test_a_claim_that_is_not_given_back_keeps_no_other(failure):
    claims = Claims(a=failure)
    with capture_logs() as logs:
        await idle_claims.give_back(claims, idle("a", "z"))
    assert claims.given_back == ["z"]
    assert any(each["log_level"] == "warning" for each in logs)


async def test_of_very_many_claims_a_few_are_asked_for_at_once(monkeypatch):
    claims, asking, most = Claims(), 0, 0
    get = claims.get

    async def slow(*args, **more):
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0.5)
        asking -= 1
        return await get(*args, **more)

    monkeypatch.setattr(claims, "get", slow)
    await idle_claims.give_back(claims, idle(*(f"n{number}" for number in range(1000))))
    assert most < 100
    assert len(claims.given_back) >= 90


async def test_who_is_not_known_any_more_is_told_so():
    claims = Claims(a=errors.Unauthorized("who?", status=401))
    with pytest.raises(errors.Unauthorized):
        await idle_claims.give_back(claims, idle("a", "z"))
    assert claims.given_back == ["z"]
