"""Updates, patches and server-side apply."""

from __future__ import annotations

from typing import Any

import yaml

from e2e.contract.exchange import APPLY, JSON_PATCH, MERGE, STRATEGIC, Server
from e2e.contract.story.manifests import GROUPS, MAPS, NAMESPACE, PODS, QUEUES, Json, a_group, a_map, a_pod


async def updates(server: Server) -> None:
    read = await server.ask("", "GET", f"{PODS}/plain", keep=False)
    fresh, old = read.body, read.body["metadata"]["resourceVersion"]
    fresh["metadata"]["labels"]["round"] = "one"
    await server.ask("update", "PUT", f"{PODS}/plain", fresh)
    await server.ask("update of what has changed meanwhile", "PUT", f"{PODS}/plain", fresh)
    free = {**fresh, "metadata": {k: v for k, v in fresh["metadata"].items() if k != "resourceVersion"}}
    await server.ask("update without a version", "PUT", f"{PODS}/plain", free)
    same = await server.ask("", "GET", f"{PODS}/plain", keep=False)
    again = await server.ask("update that changes nothing", "PUT", f"{PODS}/plain", same.body)
    server.note(
        "a write that changes nothing keeps the version",
        again.body["metadata"]["resourceVersion"] == same.body["metadata"]["resourceVersion"],
    )
    server.note("versions rise", int(same.body["metadata"]["resourceVersion"]) > int(old))
    renamed = {**same.body, "metadata": same.body["metadata"] | {"name": "other"}}
    await server.ask("update under another name", "PUT", f"{PODS}/plain", renamed)
    moved = {**same.body, "spec": same.body["spec"] | {"schedulerName": "another"}}
    answer = await server.ask("", "PUT", f"{PODS}/plain", moved, keep=False)
    server.note("update of what cannot change", _without_message(answer.body))
    missing = {**same.body, "metadata": {"name": "nobody", "namespace": NAMESPACE}}
    await server.ask("update of what is not there", "PUT", f"{PODS}/nobody", missing)
    stranger = {**same.body, "metadata": same.body["metadata"] | {"uid": "other"}}
    await server.ask("update of another one with its name", "PUT", f"{PODS}/plain", stranger)
    status = {**same.body, "status": {"phase": "Running"}, "spec": same.body["spec"] | {"nodeName": "x"}}
    await server.ask("update of the status", "PUT", f"{PODS}/plain/status", status)


def _without_message(status: Json) -> Json:
    """Some messages quote the whole object; what programs read is the rest."""
    details = status.get("details") or {}
    causes = [{k: v for k, v in cause.items() if k != "message"} for cause in details.get("causes") or []]
    return {**status, "message": "<message>", "details": details | {"causes": causes}}


async def patches(server: Server) -> None:
    async def patch(name: str, body: Any, kind: str, path: str = f"{PODS}/plain") -> None:
        await server.ask(name, "PATCH", path, body, content_type=kind)

    await patch("merge patch", {"metadata": {"annotations": {"a": "1", "b": "2"}}}, MERGE)
    await patch("merge patch with null", {"metadata": {"annotations": {"a": None}}}, MERGE)
    await patch("merge patch of a list", {"spec": {"tolerations": None}}, MERGE)
    await patch("merge patch with a stale version", {"metadata": {"resourceVersion": "1"}}, MERGE)
    await patch("merge patch with a wrong uid", {"metadata": {"uid": "other"}}, MERGE)
    await patch("status patch with a wrong uid", {"metadata": {"uid": "other"}, "status": {"phase": "x"}},
                STRATEGIC, f"{PODS}/plain/status")  # fmt: skip
    await patch("merge patch that is no object", [1], MERGE)
    await patch("patch of what is not there", {"metadata": {}}, MERGE, f"{PODS}/nobody")
    add = {"op": "add", "path": "/metadata/labels/added", "value": "yes"}
    await patch("JSON patch", [add], JSON_PATCH)
    test = {"op": "test", "path": "/metadata/labels/added", "value": "no"}
    await patch("JSON patch whose test fails", [test, add], JSON_PATCH)
    await patch("JSON patch of no place", [{"op": "remove", "path": "/metadata/nowhere"}], JSON_PATCH)
    await patch("JSON patch with an unknown operation", [{"op": "paint", "path": "/a"}], JSON_PATCH)
    await patch("JSON patch that is no list", {"op": "add"}, JSON_PATCH)
    condition = {"type": "Ready", "status": "False"}
    other = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    await patch("strategic patch of conditions", {"status": {"conditions": [other]}}, STRATEGIC,
                f"{PODS}/plain/status")  # fmt: skip
    await patch("strategic patch of one more", {"status": {"conditions": [condition]}}, STRATEGIC,
                f"{PODS}/plain/status")  # fmt: skip
    await patch("strategic patch that removes one", {"status": {"conditions": [
        {"$patch": "delete", "type": "Ready"}]}}, STRATEGIC, f"{PODS}/plain/status")  # fmt: skip
    await patch("strategic patch of a container", {"spec": {"containers": [
        {"name": "main", "image": "busybox:2"}]}}, STRATEGIC)  # fmt: skip
    await patch("status patch that touches the spec", {"spec": {"nodeName": "x"}}, MERGE,
                f"{PODS}/plain/status")  # fmt: skip
    await patch("patch that touches the status", {"status": {"phase": "Failed"}}, MERGE)
    await patch("patch of an unknown kind", {"a": 1}, "application/json")
    await patch("strategic patch of a custom resource", {"metadata": {}}, STRATEGIC, f"{QUEUES}/nobody")


async def apply(server: Server) -> None:
    async def applied(name: str, path: str, body: Json, manager: str, more: str = "") -> None:
        text = yaml.safe_dump(body)
        query = f"?fieldManager={manager}{more}" if manager else ""
        await server.ask(name, "PATCH", f"{path}{query}", text, content_type=APPLY)

    one = a_map("applied", a="1", b="1")
    await applied("apply", f"{MAPS}/applied", one, "one")
    await applied("apply again", f"{MAPS}/applied", one, "one")
    await applied("apply of less", f"{MAPS}/applied", a_map("applied", a="1"), "one")
    await applied("apply against another", f"{MAPS}/applied", a_map("applied", a="2"), "two")
    await applied("apply with force", f"{MAPS}/applied", a_map("applied", a="2"), "two", "&force=true")
    await applied("apply without a manager", f"{MAPS}/applied", one, "")
    await applied("apply under another name", f"{MAPS}/other", one, "one")
    await applied("apply of a pod", f"{PODS}/applied", a_pod("applied"), "one")
    group = a_group("applied", minMember=2)
    await applied("apply of a group", f"{GROUPS}/applied", group, "one")
    await applied("apply of a group against another", f"{GROUPS}/applied", a_group("applied"), "two")
    await applied("apply of a wrong group", f"{GROUPS}/applied", a_group("applied", minMember="x"), "one")
