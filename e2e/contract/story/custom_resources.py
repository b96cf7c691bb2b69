"""Definitions, and objects of the kinds that they define."""

from __future__ import annotations

import deadlines
from e2e.contract.exchange import MERGE, STRATEGIC, Server
from e2e.contract.story.manifests import CRDS, GROUPS, QUEUES, Json, a_group, a_queue
from kai_local.installation.bootstrap import definitions


async def custom_resources(server: Server) -> None:
    for manifest in definitions():
        await server.ask("", "POST", CRDS, manifest, keep=False)
    await server.ask("definition that exists", "POST", CRDS, definitions()[0])
    await _until_served(server, QUEUES)
    await _until_served(server, GROUPS)
    free = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    queue = a_queue("contract-queue", resources={"gpu": free, "cpu": free, "memory": free})
    await server.ask("queue", "POST", QUEUES, queue)
    await server.ask("queue that exists", "POST", QUEUES, queue)
    await server.ask("queue with unknown fields", "POST", QUEUES, a_queue("pruned", colour="red"))
    await server.ask("queue with unknown fields, strict", "POST", f"{QUEUES}?fieldValidation=Strict",
                     a_queue("strict", colour="red"))  # fmt: skip
    await server.ask("pod group", "POST", GROUPS, a_group("gang", minMember=2))
    status = {"status": {"schedulingConditions": []}, "spec": {"queue": "other"}}
    await server.ask("status of a pod group", "PATCH", f"{GROUPS}/gang/status", status, content_type=MERGE)
    spec = {"spec": {"minMember": 3}, "status": {"phase": "Running"}}
    await server.ask("spec of a pod group", "PATCH", f"{GROUPS}/gang", spec, content_type=MERGE)
    read = await server.ask("pod group as read", "GET", f"{GROUPS}/gang")
    old = read.body
    await server.ask("", "PATCH", f"{GROUPS}/gang", {"spec": {"minMember": 4}}, content_type=MERGE,
                     keep=False)  # fmt: skip
    await server.ask("update of a group that has changed", "PUT", f"{GROUPS}/gang", old)
    del old["metadata"]["resourceVersion"]
    await server.ask("update of a group without a version", "PUT", f"{GROUPS}/gang", old)
    await server.ask("strategic patch of a group", "PATCH", f"{GROUPS}/gang", {"spec": {"minMember": 5}},
                     content_type=STRATEGIC)  # fmt: skip
    other = {"metadata": {"uid": "other", "annotations": {"a": "1"}}}
    await server.ask("patch of another group with its name", "PATCH", f"{GROUPS}/gang", other,
                     content_type=MERGE)  # fmt: skip
    await server.ask("status patch of another group", "PATCH", f"{GROUPS}/gang/status",
                     other | {"status": {"phase": "x"}}, content_type=MERGE)  # fmt: skip
    stale = {"metadata": {"resourceVersion": "1", "annotations": {"a": "1"}}}
    await server.ask("patch of a stale group", "PATCH", f"{GROUPS}/gang", stale, content_type=MERGE)
    await server.ask("deletion of a group", "DELETE", f"{GROUPS}/gang")
    await server.ask("deletion of a group that is gone", "DELETE", f"{GROUPS}/gang")
    listed = await server.ask("", "GET", "/apis/scheduling.run.ai/v2", keep=False)
    for entry in listed.body["resources"]:
        entry.pop("storageVersionHash", None)
        server.note(f"discovery of {entry['name']}", entry)


async def _until_served(server: Server, path: str) -> None:
    await deadlines.eventually(
        lambda: server.ask("", "GET", path, keep=False),
        lambda answer: answer.status == 200,
        what=f"{path} is served",
    )


async def refused_custom_resources(server: Server) -> None:
    async def refused(name: str, body: Json, path: str = GROUPS) -> None:
        await server.ask(f"{name}", "POST", path, body)

    await refused("pod group with a word for a number", a_group("wrong", minMember="many"))
    await refused("pod group with a negative size", a_group("wrong", minMember=-1))
    await refused("pod group with an unknown preemptibility", a_group("wrong", preemptibility="maybe"))
    await refused("pod group with a list for an object", a_group("wrong", topologyConstraint=[]))
    await refused("pod group with a name in capitals", a_group("Wrong"))
    await refused(
        "queue with a word for a quota", a_queue("wrong", resources={"gpu": {"quota": "a"}}), QUEUES
    )
    await refused("queue with a list for a spec", a_queue("wrong") | {"spec": []}, QUEUES)
    await refused("queue of another group", a_queue("wrong") | {"apiVersion": "scheduling.run.ai/v9"}, QUEUES)
    await refused("queue of another kind", a_queue("wrong") | {"kind": "Quay"}, QUEUES)
    scaled = {"spec": {"minMember": "x"}}
    await server.ask("", "POST", GROUPS, a_group("right"), keep=False)
    await server.ask("patch that makes a group wrong", "PATCH", f"{GROUPS}/right", scaled, content_type=MERGE)
    definition = definitions()[0]
    broken = {**definition, "metadata": {"name": "wrong.example.com"}}
    answer = await server.ask("", "POST", CRDS, broken, keep=False)
    server.note("definition under a wrong name", {"status": answer.status, "reason": answer.body["reason"]})
    for name, said in (
        ("definition of a protected group without approval", None),
        ("definition of a protected group with any word for approval", "yes"),
        ("definition of a protected group that says it is unapproved", "unapproved, for a test"),
    ):
        answer = await server.ask("", "POST", CRDS, _protected(definition, said), keep=False)
        causes = (answer.body.get("details") or {}).get("causes")
        server.note(name, {"status": answer.status, "reason": answer.body.get("reason"), "causes": causes})


def _protected(definition: Json, said: str | None) -> Json:
    """The definition in a group of Kubernetes' community, with what it says of its approval."""
    group = "contract.k8s.io"
    metadata = {"name": f"{definition['spec']['names']['plural']}.{group}"}
    if said is not None:
        metadata |= {"annotations": {"api-approved.kubernetes.io": said}}
    return {**definition, "metadata": metadata, "spec": {**definition["spec"], "group": group}}
