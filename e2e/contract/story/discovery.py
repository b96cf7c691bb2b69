"""What is served, and what is not."""

from __future__ import annotations

from e2e.contract.exchange import Server
from e2e.contract.story.manifests import PODS, a_map


async def discovery(server: Server) -> None:
    version = await server.ask("", "GET", "/version", keep=False)
    server.note("fields of /version", sorted(version.body))
    await server.ask("api versions", "GET", "/api")
    listed = await server.ask("", "GET", "/api/v1", keep=False)
    wanted = ("pods", "pods/status", "pods/binding", "pods/eviction", "nodes", "namespaces", "configmaps")
    for entry in listed.body["resources"]:
        if entry["name"] in wanted:
            entry.pop("storageVersionHash", None)
            server.note(f"discovery of {entry['name']}", entry)


async def unknown_things(server: Server) -> None:
    await server.ask("unknown path", "GET", "/nowhere")
    await server.ask("unknown group", "GET", "/apis/nowhere.example.com/v1/things")
    await server.ask("unknown kind", "GET", "/api/v1/namespaces/contract/things")
    await server.ask("pod that is not there", "GET", f"{PODS}/nobody")
    await server.ask("pod in a namespace that is not there", "GET", "/api/v1/namespaces/none/pods/nobody")
    await server.ask("list in a namespace that is not there", "GET", "/api/v1/namespaces/none/pods")
    await server.ask(
        "create in a namespace that is not there",
        "POST",
        "/api/v1/namespaces/none/configmaps",
        a_map("lost", a="1"),
    )
    await server.ask("delete of a pod that is not there", "DELETE", f"{PODS}/nobody")
    await server.ask("a verb that a resource lacks", "POST", f"{PODS}/nobody")
    await server.ask("a subresource that is not there", "GET", f"{PODS}/nobody/nothing")
