"""While a large request is worked on everybody else is answered, and what they wrote meanwhile counts."""

import asyncio
import threading

import pytest

from deadlines import eventually, patience
from kai_local.apiserver.calls.apart import LARGE
from kai_local.apiserver.writing.registry import Registry

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = {"metadata": {"name": "mine"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 5}}
TEXT = {"text": "x" * 2 * LARGE}


class Gate:
    """Holds the first large request while it is read, until it is opened."""

    def __init__(self, monkeypatch):
        self.entered, self.opened = threading.Event(), threading.Event()
        read = Registry.read

        def held(registry, target, body, *more):
            if (body.get("data") or {}).get("text") == TEXT["text"] and not self.entered.is_set():
                self.entered.set()
                assert self.opened.wait(patience()), "nobody else was answered"
            return read(registry, target, body, *more)

        monkeypatch.setattr(Registry, "read", held)

    async def reached(self):
        async def is_set():
            return self.entered.is_set()

        await eventually(is_set, bool, what="the large request is worked on")


@pytest.fixture
def gate(monkeypatch):
    return Gate(monkeypatch)


async def test_a_lease_is_renewed_while_a_large_object_is_read(api, gate):
    large = asyncio.create_task(api.post(MAPS, {"metadata": {"name": "large"}, "data": TEXT}))
    await gate.reached()
    await api.post(LEASES, LEASE)
    await api.patch(f"{LEASES}/mine", {"spec": {"leaseTransitions": 1}})
    gate.opened.set()
    assert (await large)["data"] == TEXT


async def test_a_large_patch_is_of_the_object_as_it_is_in_the_end(api, gate):
    await api.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    large = asyncio.create_task(api.patch(f"{MAPS}/m", {"data": TEXT}))
    await gate.reached()
    await api.patch(f"{MAPS}/m", {"data": {"b": "2"}})
    gate.opened.set()
    assert (await large)["data"] == {"a": "1", "b": "2", **TEXT}


async def test_a_large_object_loses_its_name_to_one_that_came_meanwhile(api, gate):
    large = asyncio.create_task(api.call("POST", MAPS, {"metadata": {"name": "m"}, "data": TEXT}))
    await gate.reached()
    await api.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    gate.opened.set()
    assert (await large)[0] == 409
    assert (await api.get(f"{MAPS}/m"))["data"] == {"a": "1"}


async def test_nothing_large_is_made_in_a_namespace_that_went_meanwhile(api, gate):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "gone"}})
    path = "/api/v1/namespaces/gone/configmaps"
    large = asyncio.create_task(api.call("POST", path, {"metadata": {"name": "m"}, "data": TEXT}))
    await gate.reached()
    await api.delete("/api/v1/namespaces/gone")
    gate.opened.set()
    assert (await large)[0] in (403, 404)


async def test_annotations_are_bounded_together(api):
    limit = 256 * 1024
    parts = {"ab": "x" * 1024, "cd": "y" * (limit - 1024 - 4)}
    await api.post(MAPS, {"metadata": {"name": "m", "annotations": parts}})
    code, told = await api.call("PATCH", f"{MAPS}/m", {"metadata": {"annotations": {"e": ""}}}, kind=MERGE)
    assert code == 422
    assert "metadata.annotations: Too long: may not be more than 262144 bytes" in told["message"]


async def test_warnings_without_end_are_cut_short(api):
    body = {"metadata": {"name": "m"}, **{f"unknown{number}": 1 for number in range(2000)}}
    sent = {"Authorization": f"Bearer {api.server.admin_token}"}
    async with api.session.post(api.server.url + MAPS, json=body, headers=sent) as answer:
        assert answer.status == 201
        told = answer.headers.getall("Warning")
    assert 0 < sum(map(len, told)) < 2 * 4096
    assert "unknown0" in told[0]


async def test_a_json_patch_has_so_many_operations(api):
    await api.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    test = {"op": "test", "path": "/data/a", "value": "1"}
    kind = "application/json-patch+json"
    assert (await api.call("PATCH", f"{MAPS}/m", [test] * 100, kind=kind))[0] == 200
    code, told = await api.call("PATCH", f"{MAPS}/m", [test] * 10_001, kind=kind)
    assert (code, told["reason"]) == (413, "RequestEntityTooLarge")


async def test_copies_of_copies_end(api):
    """Each is as large as all before it: thirty of them would be all memory."""
    await api.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "x" * 1024}})
    grow = [{"op": "copy", "from": "/data", "path": f"/data/c{number}"} for number in range(16)]
    code, told = await api.call("PATCH", f"{MAPS}/m", grow, kind="application/json-patch+json")
    assert (code, told["reason"]) == (422, "Invalid")
    assert "it copies more than 3145728 bytes" in told["message"]


@pytest.mark.parametrize(
    "names",
    [
        ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 26))],
        ["a: &a [*a]"],
    ],
)
async def test_a_few_lines_of_yaml_stand_for_no_more_than_may_be_sent(api, names):
    body = "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: m}", *names]).encode()
    code, told = await api.call("POST", MAPS, body, kind="application/yaml")
    assert code == 400
    assert "excessive aliasing" in told["message"]


async def test_yaml_with_aliases_is_read(api):
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: &l {a: b}}\ndata: *l\n"
    code, told = await api.call("POST", MAPS, body, kind="application/yaml")
    assert (code, told["data"]) == (201, {"a": "b"})
