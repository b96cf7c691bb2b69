"""How objects go."""

from __future__ import annotations

from e2e.contract.exchange import MERGE, Server
from e2e.contract.story.manifests import MAPS, PODS, Json, a_pod


async def deletion(server: Server) -> None:
    for name in ("one", "two", "kept"):
        await server.ask("", "POST", PODS, a_pod(name), keep=False)
    wrong = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}
    await server.ask("deletion of another with its name", "DELETE", f"{PODS}/one", wrong)
    stale = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}}
    await server.ask("deletion of what has changed", "DELETE", f"{PODS}/one", stale)
    await server.ask("deletion of a pod that waits", "DELETE", f"{PODS}/one")
    await server.ask("it is gone at once", "GET", f"{PODS}/one")
    await server.ask("deletion of a bound pod", "DELETE", f"{PODS}/bound")
    await server.ask("it takes its time", "GET", f"{PODS}/bound")
    await server.ask("its deletion at once", "DELETE", f"{PODS}/bound?gracePeriodSeconds=0")
    await server.ask("then it is gone", "GET", f"{PODS}/bound")
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    await server.ask("", "PATCH", f"{PODS}/two", held, content_type=MERGE, keep=False)
    await server.ask("deletion of a pod with a finalizer", "DELETE", f"{PODS}/two")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    answer = await server.ask("", "PATCH", f"{PODS}/two", more, content_type=MERGE, keep=False)
    server.note("no finalizer is added to what is being deleted", answer.status)
    free: Json = {"metadata": {"finalizers": None}}
    await server.ask("without its finalizer", "PATCH", f"{PODS}/two", free, content_type=MERGE)
    await server.ask("the pod that was held is gone", "GET", f"{PODS}/two")
    await server.ask("deletion of a config map", "DELETE", f"{MAPS}/settings")
    orphan = "/api/v1/namespaces/contract/configmaps/fixed?propagationPolicy=Sideways"
    await server.ask("deletion with an unknown policy", "DELETE", orphan)
    await server.ask("deletion of many", "DELETE", f"{MAPS}?labelSelector=nothing%3Dhere")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "kept"}}
    await server.ask("eviction", "POST", f"{PODS}/kept/eviction", eviction)
    await server.ask("eviction of nobody", "POST", f"{PODS}/nobody/eviction",
                     eviction | {"metadata": {"name": "nobody"}})  # fmt: skip
