"""Lists, watches and tables."""

from __future__ import annotations

from e2e.contract.exchange import MERGE, TABLE, Server
from e2e.contract.story.manifests import GROUPS, MAPS, NODES, PODS, QUEUES, a_map


async def lists(server: Server) -> None:
    async def names(name: str, query: str, path: str = PODS) -> None:
        answer = await server.ask("", "GET", f"{path}?{query}", keep=False)
        if answer.status != 200:
            server.answers[name] = answer.as_json()
            return
        found = [item["metadata"]["name"] for item in answer.body.get("items") or []]
        meta = {key: bool(value) for key, value in answer.body["metadata"].items()}
        server.note(name, {"kind": answer.body["kind"], "names": found, "metadata": meta})

    await names("list", "")
    await names("list by label", "labelSelector=app%3Dcontract,round%20notin%20(two)")
    await names("list by a label that is not there", "labelSelector=!round")
    await names("list by no label selector", "labelSelector=a%3D%3D%3Db")
    await names("list by field", "fieldSelector=spec.nodeName%3Dcontract-node")
    await names("list by phase", "fieldSelector=status.phase!%3DPending")
    await names("list by name", "fieldSelector=metadata.name%3Dplain")
    await names("list by scheduler", "fieldSelector=spec.schedulerName%3Dnobody")
    await names("list by a field that cannot select", "fieldSelector=spec.hostname2%3Dx")
    await names("list by a field of a custom resource", "fieldSelector=spec.queue%3Dx", GROUPS)
    await names("list from a cache", "resourceVersion=0")
    await names("list with a version that is none", "resourceVersion=x")
    await names("list with a rule and no version", "resourceVersionMatch=Exact")
    await names("list with an unknown rule", "resourceVersion=1&resourceVersionMatch=Nearly")
    await names("list with a limit that is none", "limit=x")
    await names("list with a token that is none", "limit=1&continue=x")
    first = await server.ask("", "GET", f"{PODS}?limit=2", keep=False)
    server.note("a page", {"names": [i["metadata"]["name"] for i in first.body["items"]],
                           "more": bool(first.body["metadata"].get("continue")),
                           "remaining": first.body["metadata"].get("remainingItemCount")})  # fmt: skip
    token = first.body["metadata"]["continue"]
    second = await server.ask("", "GET", f"{PODS}?limit=2&continue={token}", keep=False)
    server.note("the next page", [i["metadata"]["name"] for i in second.body["items"]])
    server.note(
        "pages show one version",
        first.body["metadata"]["resourceVersion"] == second.body["metadata"]["resourceVersion"],
    )


async def watches(server: Server) -> None:
    listed = await server.ask("", "GET", MAPS, keep=False)
    start = listed.body["metadata"]["resourceVersion"]
    labelled = a_map("watched", a="1")
    labelled["metadata"]["labels"] = {"seen": "yes"}
    await server.ask("", "POST", MAPS, labelled, keep=False)
    await server.ask("", "PATCH", f"{MAPS}/watched", {"data": {"a": "2"}}, content_type=MERGE, keep=False)
    await server.ask("", "PATCH", f"{MAPS}/watched", {"metadata": {"labels": {"seen": "no"}}},
                     content_type=MERGE, keep=False)  # fmt: skip
    await server.ask("", "DELETE", f"{MAPS}/watched", keep=False)
    since = f"watch=1&resourceVersion={start}&timeoutSeconds=3"
    await server.watch("watch", f"{MAPS}?{since}", events=4)
    await server.watch("watch by label", f"{MAPS}?{since}&labelSelector=seen%3Dyes", events=3)
    await server.watch("watch by name", f"{MAPS}?{since}&fieldSelector=metadata.name%3Dother", events=1)
    await server.ask("", "POST", MAPS, a_map("first", a="1"), keep=False)
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    await server.watch("watch with initial events", f"{MAPS}?watch=1&{initial}&timeoutSeconds=3", events=2)
    await server.watch("watch from no version", f"{MAPS}?watch=1&timeoutSeconds=9", events=1)
    await server.watch("initial events without a rule", f"{MAPS}?watch=1&sendInitialEvents=true", events=1)
    await server.watch("watch from a version that is none", f"{MAPS}?watch=1&resourceVersion=x", events=1)
    await server.watch(
        "watch with an unknown rule",
        f"{MAPS}?watch=1&resourceVersion=1&resourceVersionMatch=Exact",
        events=1,
    )


async def tables(server: Server) -> None:
    for name, path in (
        ("pods", PODS), ("nodes", NODES), ("queues", QUEUES), ("pod groups", GROUPS), ("namespaces",
        "/api/v1/namespaces?fieldSelector=metadata.name%3Dcontract"), ("config maps", MAPS),
        ("priority classes", "/apis/scheduling.k8s.io/v1/priorityclasses?labelSelector=none"),
    ):  # fmt: skip
        await server.ask(f"table of {name}", "GET", path, accept=TABLE)
    await server.ask("table of one pod", "GET", f"{PODS}/plain", accept=TABLE)
    await server.ask("an answer in no known form", "GET", f"{PODS}/plain", accept="text/html2")
