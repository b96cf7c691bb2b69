"""The questions, in an order in which each finds what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from e2e.contract.exchange import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, Server
from e2e.harness import ROOT

Json = dict[str, Any]

_NAMESPACE = "contract"
_PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_MAPS = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{_NAMESPACE}/leases"
_NODES = "/api/v1/nodes"
_QUEUES = "/apis/scheduling.run.ai/v2/queues"
_GROUPS = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{_NAMESPACE}/podgroups"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def tell(server: Server) -> None:
    """Ask everything."""
    await _prepare(server)
    for chapter in (
        discovery, unknown_things, pods, refused_pods, updates, patches, binding, lists, watches, config_maps,
        deletion, custom_resources, refused_custom_resources, apply, tables, leases, access, webhooks,
    ):  # fmt: skip
        await chapter(server)


# --- manifests -----------------------------------------------------------------------------------
def a_pod(name: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "busybox"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": _NAMESPACE, "labels": {"app": "contract"}},
        "spec": {"containers": [container], "schedulerName": "nobody"} | spec,
    }


def a_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def a_queue(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def a_group(name: str, **spec: Any) -> Json:
    meta = {"name": name, "namespace": _NAMESPACE}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": 1, "queue": "contract-queue"} | spec,
    }


def crd_manifests() -> list[Json]:
    folder: Path = ROOT / "helm" / "kai-scheduler" / "crds"
    return [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]


# --- chapters ------------------------------------------------------------------------------------
async def _prepare(server: Server) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
    await server.ask("namespace is created", "POST", "/api/v1/namespaces", namespace)
    # No controller runs beside either server, and a pod needs the account that one would make.
    accounts = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts"
    await server.ask(
        "",
        "POST",
        accounts,
        {"metadata": {"name": "default"}, "automountServiceAccountToken": False},
        keep=False,
    )


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
    await server.ask("pod that is not there", "GET", f"{_PODS}/nobody")
    await server.ask("pod in a namespace that is not there", "GET", "/api/v1/namespaces/none/pods/nobody")
    await server.ask("list in a namespace that is not there", "GET", "/api/v1/namespaces/none/pods")
    await server.ask(
        "create in a namespace that is not there",
        "POST",
        "/api/v1/namespaces/none/configmaps",
        a_map("lost", a="1"),
    )
    await server.ask("delete of a pod that is not there", "DELETE", f"{_PODS}/nobody")
    await server.ask("a verb that a resource lacks", "POST", f"{_PODS}/nobody")
    await server.ask("a subresource that is not there", "GET", f"{_PODS}/nobody/nothing")


async def pods(server: Server) -> None:
    await server.ask("pod with defaults", "POST", _PODS, a_pod("plain"))
    await server.ask("the pod as read", "GET", f"{_PODS}/plain")
    rich = a_pod(
        "rich",
        restartPolicy="OnFailure",
        terminationGracePeriodSeconds=3,
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        containers=[
            {
                "name": "main",
                "image": "registry.example.com/train:v1",
                "command": ["sleep", "3"],
                "resources": {"limits": {"nvidia.com/gpu": 2, "cpu": "1500m", "memory": "1Gi"}},
                "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "ports": [{"containerPort": 80}],
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
            },
            {"name": "side", "image": "busybox:latest", "resources": {"requests": {"cpu": "0.25"}}},
        ],
        initContainers=[{"name": "first", "image": "busybox:1.0", "restartPolicy": "Always"}],
        volumes=[
            {"name": "config", "configMap": {"name": "settings"}},
            {"name": "secret", "secret": {"secretName": "keys"}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "down", "downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "settings"}}]}},
        ],
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"app": "contract"}}}
        ],
    )  # fmt: skip
    await server.ask("pod with much in it", "POST", _PODS, rich)
    generated = a_pod("")
    generated["metadata"] = {"generateName": "generated-"}
    await server.ask("pod with a generated name", "POST", _PODS, generated)
    await server.ask("pod that exists", "POST", _PODS, a_pod("plain"))
    await server.ask("pod created without a trace", "POST", f"{_PODS}?dryRun=All", a_pod("dry"))
    await server.ask("the dry one is not there", "GET", f"{_PODS}/dry")
    gated = a_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    await server.ask("pod with a scheduling gate", "POST", _PODS, gated)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    train = {"metadata": {"name": "contract-train"}, "value": 50, "preemptionPolicy": "Never"}
    await server.ask("priority class", "POST", classes, train)
    await server.ask(
        "pod with a priority class", "POST", _PODS, a_pod("urgent", priorityClassName="contract-train")
    )
    await server.ask(
        "pod with an unknown priority class", "POST", _PODS, a_pod("vip", priorityClassName="nobody")
    )
    await server.ask("pod with a priority of its own", "POST", _PODS, a_pod("vip", priority=7))
    stranger = a_pod("stranger", serviceAccountName="nobody")
    await server.ask("pod of an unknown service account", "POST", f"{_PODS}?dryRun=All", stranger)


async def refused_pods(server: Server) -> None:
    async def refused(name: str, **spec: Any) -> None:
        await server.ask(f"pod {name}", "POST", f"{_PODS}?dryRun=All", a_pod("wrong", **spec))

    def container(**fields: Any) -> list[Json]:
        return [{"name": "main", "image": "busybox"} | fields]

    await refused("without containers", containers=[])
    await refused("without an image", containers=[{"name": "main"}])
    await refused("with two containers of one name", containers=container() * 2)
    await refused("with a name that is none", containers=container(name="Main_1"))
    await refused("with a negative request", containers=container(resources={"requests": {"cpu": "-1"}}))
    await refused(
        "with a request above its limit",
        containers=container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    )
    await refused("with half a GPU", containers=container(resources={"limits": {"nvidia.com/gpu": "500m"}}))
    await refused(
        "with a GPU request and no limit",
        containers=container(resources={"requests": {"nvidia.com/gpu": "1"}}),
    )
    await refused("with a quantity that is none", containers=container(resources={"limits": {"cpu": "much"}}))
    await refused("with an unknown restart policy", restartPolicy="Sometimes")
    await refused("with a volume mount of nothing", containers=container(
        volumeMounts=[{"name": "none", "mountPath": "/x"}]))  # fmt: skip
    await refused("with a toleration that is none", tolerations=[{"operator": "Exists", "value": "x"}])
    await refused("with a list where an object belongs", securityContext=[])
    await refused("with a negative grace period", terminationGracePeriodSeconds=-1)
    named = a_pod("UPPER")
    await server.ask("pod with a name in capitals", "POST", _PODS, named)
    labelled = a_pod("labelled")
    labelled["metadata"]["labels"] = {"a b": "c"}
    await server.ask("pod with a label that is none", "POST", _PODS, labelled)
    valued = a_pod("valued")
    valued["metadata"]["labels"] = {"a": "not a value"}
    await server.ask("pod with a label value that is none", "POST", _PODS, valued)
    elsewhere = a_pod("elsewhere")
    elsewhere["metadata"]["namespace"] = "default"
    await server.ask("pod for another namespace", "POST", _PODS, elsewhere)
    nameless = a_pod("")
    del nameless["metadata"]["name"]
    await server.ask("pod without a name", "POST", _PODS, nameless)
    await server.ask("body of another kind", "POST", _PODS, a_map("wrong", a="1"))
    await server.ask("body that is no JSON", "POST", _PODS, "{", content_type="application/json")
    await server.ask("body of an unknown type", "POST", _PODS, "a", content_type="text/plain")
    unknown = a_pod("unknown") | {"flavour": "sweet"}
    await server.ask("unknown field, strict", "POST", f"{_PODS}?fieldValidation=Strict", unknown)
    await server.ask("unknown field, warned of", "POST", f"{_PODS}?fieldValidation=Warn", unknown)
    await server.ask("pod with a version", "POST", _PODS, _with_version(a_pod("versioned"), "1"))


def _with_version(body: Json, version: str) -> Json:
    return body | {"metadata": body["metadata"] | {"resourceVersion": version}}


async def updates(server: Server) -> None:
    read = await server.ask("", "GET", f"{_PODS}/plain", keep=False)
    fresh, old = read.body, read.body["metadata"]["resourceVersion"]
    fresh["metadata"]["labels"]["round"] = "one"
    await server.ask("update", "PUT", f"{_PODS}/plain", fresh)
    await server.ask("update of what has changed meanwhile", "PUT", f"{_PODS}/plain", fresh)
    free = {**fresh, "metadata": {k: v for k, v in fresh["metadata"].items() if k != "resourceVersion"}}
    await server.ask("update without a version", "PUT", f"{_PODS}/plain", free)
    same = await server.ask("", "GET", f"{_PODS}/plain", keep=False)
    again = await server.ask("update that changes nothing", "PUT", f"{_PODS}/plain", same.body)
    server.note(
        "a write that changes nothing keeps the version",
        again.body["metadata"]["resourceVersion"] == same.body["metadata"]["resourceVersion"],
    )
    server.note("versions rise", int(same.body["metadata"]["resourceVersion"]) > int(old))
    renamed = {**same.body, "metadata": same.body["metadata"] | {"name": "other"}}
    await server.ask("update under another name", "PUT", f"{_PODS}/plain", renamed)
    moved = {**same.body, "spec": same.body["spec"] | {"schedulerName": "another"}}
    answer = await server.ask("", "PUT", f"{_PODS}/plain", moved, keep=False)
    server.note("update of what cannot change", _without_message(answer.body))
    missing = {**same.body, "metadata": {"name": "nobody", "namespace": _NAMESPACE}}
    await server.ask("update of what is not there", "PUT", f"{_PODS}/nobody", missing)
    stranger = {**same.body, "metadata": same.body["metadata"] | {"uid": "other"}}
    await server.ask("update of another one with its name", "PUT", f"{_PODS}/plain", stranger)
    status = {**same.body, "status": {"phase": "Running"}, "spec": same.body["spec"] | {"nodeName": "x"}}
    await server.ask("update of the status", "PUT", f"{_PODS}/plain/status", status)


def _without_message(status: Json) -> Json:
    """Some messages quote the whole object; what programs read is the rest."""
    details = status.get("details") or {}
    causes = [{k: v for k, v in cause.items() if k != "message"} for cause in details.get("causes") or []]
    return {**status, "message": "<message>", "details": details | {"causes": causes}}


async def patches(server: Server) -> None:
    async def patch(name: str, body: Any, kind: str, path: str = f"{_PODS}/plain") -> None:
        await server.ask(name, "PATCH", path, body, content_type=kind)

    await patch("merge patch", {"metadata": {"annotations": {"a": "1", "b": "2"}}}, MERGE)
    await patch("merge patch with null", {"metadata": {"annotations": {"a": None}}}, MERGE)
    await patch("merge patch of a list", {"spec": {"tolerations": None}}, MERGE)
    await patch("merge patch with a stale version", {"metadata": {"resourceVersion": "1"}}, MERGE)
    await patch("merge patch with a wrong uid", {"metadata": {"uid": "other"}}, MERGE)
    await patch("status patch with a wrong uid", {"metadata": {"uid": "other"}, "status": {"phase": "x"}},
                STRATEGIC, f"{_PODS}/plain/status")  # fmt: skip
    await patch("merge patch that is no object", [1], MERGE)
    await patch("patch of what is not there", {"metadata": {}}, MERGE, f"{_PODS}/nobody")
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
                f"{_PODS}/plain/status")  # fmt: skip
    await patch("strategic patch of one more", {"status": {"conditions": [condition]}}, STRATEGIC,
                f"{_PODS}/plain/status")  # fmt: skip
    await patch("strategic patch that removes one", {"status": {"conditions": [
        {"$patch": "delete", "type": "Ready"}]}}, STRATEGIC, f"{_PODS}/plain/status")  # fmt: skip
    await patch("strategic patch of a container", {"spec": {"containers": [
        {"name": "main", "image": "busybox:2"}]}}, STRATEGIC)  # fmt: skip
    await patch("status patch that touches the spec", {"spec": {"nodeName": "x"}}, MERGE,
                f"{_PODS}/plain/status")  # fmt: skip
    await patch("patch that touches the status", {"status": {"phase": "Failed"}}, MERGE)
    await patch("patch of an unknown kind", {"a": 1}, "application/json")
    await patch("strategic patch of a custom resource", {"metadata": {}}, STRATEGIC, f"{_QUEUES}/nobody")


async def binding(server: Server) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "contract-node"},
            "status": {"capacity": {"cpu": "4", "nvidia.com/gpu": "8"},
                       "allocatable": {"cpu": "4", "nvidia.com/gpu": "8"}}}  # fmt: skip
    await server.ask("node", "POST", _NODES, node)
    await server.ask("", "POST", _PODS, a_pod("bound"), keep=False)

    def to(name: str, **meta: Any) -> Json:
        target = {"apiVersion": "v1", "kind": "Node", "name": "contract-node"}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name} | meta, "target": target}

    await server.ask(
        "binding of another with its name", "POST", f"{_PODS}/bound/binding", to("bound", uid="x")
    )
    await server.ask(
        "binding", "POST", f"{_PODS}/bound/binding", to("bound", annotations={"received": "Regular"})
    )
    await server.ask("the bound pod", "GET", f"{_PODS}/bound")
    await server.ask("binding of a bound pod", "POST", f"{_PODS}/bound/binding", to("bound"))
    await server.ask("binding of nobody", "POST", f"{_PODS}/nobody/binding", to("nobody"))
    await server.ask("binding of a gated pod", "POST", f"{_PODS}/gated/binding", to("gated"))
    empty = to("plain") | {"target": {"apiVersion": "v1", "kind": "Node", "name": ""}}
    await server.ask("binding to nothing", "POST", f"{_PODS}/plain/binding", empty)
    kind = to("plain") | {"target": {"kind": "Pod", "name": "x"}}
    await server.ask("binding to what is no node", "POST", f"{_PODS}/plain/binding", kind)


async def lists(server: Server) -> None:
    async def names(name: str, query: str, path: str = _PODS) -> None:
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
    await names("list by a field of a custom resource", "fieldSelector=spec.queue%3Dx", _GROUPS)
    await names("list from a cache", "resourceVersion=0")
    await names("list with a version that is none", "resourceVersion=x")
    await names("list with a rule and no version", "resourceVersionMatch=Exact")
    await names("list with an unknown rule", "resourceVersion=1&resourceVersionMatch=Nearly")
    await names("list with a limit that is none", "limit=x")
    await names("list with a token that is none", "limit=1&continue=x")
    first = await server.ask("", "GET", f"{_PODS}?limit=2", keep=False)
    server.note("a page", {"names": [i["metadata"]["name"] for i in first.body["items"]],
                           "more": bool(first.body["metadata"].get("continue")),
                           "remaining": first.body["metadata"].get("remainingItemCount")})  # fmt: skip
    token = first.body["metadata"]["continue"]
    second = await server.ask("", "GET", f"{_PODS}?limit=2&continue={token}", keep=False)
    server.note("the next page", [i["metadata"]["name"] for i in second.body["items"]])
    server.note(
        "pages show one version",
        first.body["metadata"]["resourceVersion"] == second.body["metadata"]["resourceVersion"],
    )


async def watches(server: Server) -> None:
    listed = await server.ask("", "GET", _MAPS, keep=False)
    start = listed.body["metadata"]["resourceVersion"]
    labelled = a_map("watched", a="1")
    labelled["metadata"]["labels"] = {"seen": "yes"}
    await server.ask("", "POST", _MAPS, labelled, keep=False)
    await server.ask("", "PATCH", f"{_MAPS}/watched", {"data": {"a": "2"}}, content_type=MERGE, keep=False)
    await server.ask("", "PATCH", f"{_MAPS}/watched", {"metadata": {"labels": {"seen": "no"}}},
                     content_type=MERGE, keep=False)  # fmt: skip
    await server.ask("", "DELETE", f"{_MAPS}/watched", keep=False)
    since = f"watch=1&resourceVersion={start}&timeoutSeconds=3"
    await server.watch("watch", f"{_MAPS}?{since}", events=4)
    await server.watch("watch by label", f"{_MAPS}?{since}&labelSelector=seen%3Dyes", events=3)
    await server.watch("watch by name", f"{_MAPS}?{since}&fieldSelector=metadata.name%3Dother", events=1,
                       within=2)  # fmt: skip
    await server.ask("", "POST", _MAPS, a_map("first", a="1"), keep=False)
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    await server.watch("watch with initial events", f"{_MAPS}?watch=1&{initial}&timeoutSeconds=3", events=2)
    await server.watch("watch from no version", f"{_MAPS}?watch=1&timeoutSeconds=2", events=1, within=2)
    await server.watch("initial events without a rule", f"{_MAPS}?watch=1&sendInitialEvents=true", events=1)
    await server.watch("watch from a version that is none", f"{_MAPS}?watch=1&resourceVersion=x", events=1)
    await server.watch(
        "watch with an unknown rule",
        f"{_MAPS}?watch=1&resourceVersion=1&resourceVersionMatch=Exact",
        events=1,
    )


async def config_maps(server: Server) -> None:
    await server.ask("config map", "POST", _MAPS, a_map("settings", a="1"))
    wrong = a_map("wrong", a="1")
    wrong["data"] = {"bad key": "1"}
    await server.ask("config map with a bad key", "POST", _MAPS, wrong)
    wrong["data"] = {"a": 1}
    await server.ask("config map with a number", "POST", _MAPS, wrong)
    fixed = a_map("fixed", a="1") | {"immutable": True}
    await server.ask("", "POST", _MAPS, fixed, keep=False)
    patch = {"data": {"a": "2"}}
    await server.ask("immutable config map", "PATCH", f"{_MAPS}/fixed", patch, content_type=MERGE)
    create_by_put = a_map("new", a="1")
    await server.ask("update of a config map that is not there", "PUT", f"{_MAPS}/new", create_by_put)


async def deletion(server: Server) -> None:
    for name in ("one", "two", "kept"):
        await server.ask("", "POST", _PODS, a_pod(name), keep=False)
    wrong = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}
    await server.ask("deletion of another with its name", "DELETE", f"{_PODS}/one", wrong)
    stale = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}}
    await server.ask("deletion of what has changed", "DELETE", f"{_PODS}/one", stale)
    await server.ask("deletion of a pod that waits", "DELETE", f"{_PODS}/one")
    await server.ask("it is gone at once", "GET", f"{_PODS}/one")
    await server.ask("deletion of a bound pod", "DELETE", f"{_PODS}/bound")
    await server.ask("it takes its time", "GET", f"{_PODS}/bound")
    await server.ask("its deletion at once", "DELETE", f"{_PODS}/bound?gracePeriodSeconds=0")
    await server.ask("then it is gone", "GET", f"{_PODS}/bound")
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    await server.ask("", "PATCH", f"{_PODS}/two", held, content_type=MERGE, keep=False)
    await server.ask("deletion of a pod with a finalizer", "DELETE", f"{_PODS}/two")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    answer = await server.ask("", "PATCH", f"{_PODS}/two", more, content_type=MERGE, keep=False)
    server.note("no finalizer is added to what is being deleted", answer.status)
    free: Json = {"metadata": {"finalizers": None}}
    await server.ask("without its finalizer", "PATCH", f"{_PODS}/two", free, content_type=MERGE)
    await server.ask("the pod that was held is gone", "GET", f"{_PODS}/two")
    await server.ask("deletion of a config map", "DELETE", f"{_MAPS}/settings")
    orphan = "/api/v1/namespaces/contract/configmaps/fixed?propagationPolicy=Sideways"
    await server.ask("deletion with an unknown policy", "DELETE", orphan)
    await server.ask("deletion of many", "DELETE", f"{_MAPS}?labelSelector=nothing%3Dhere")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "kept"}}
    await server.ask("eviction", "POST", f"{_PODS}/kept/eviction", eviction)
    await server.ask("eviction of nobody", "POST", f"{_PODS}/nobody/eviction",
                     eviction | {"metadata": {"name": "nobody"}})  # fmt: skip


async def custom_resources(server: Server) -> None:
    for manifest in crd_manifests():
        await server.ask("", "POST", _CRDS, manifest, keep=False)
    await server.ask("definition that exists", "POST", _CRDS, crd_manifests()[0])
    await _until_served(server, _QUEUES)
    await _until_served(server, _GROUPS)
    free = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    queue = a_queue("contract-queue", resources={"gpu": free, "cpu": free, "memory": free})
    await server.ask("queue", "POST", _QUEUES, queue)
    await server.ask("queue that exists", "POST", _QUEUES, queue)
    await server.ask("queue with unknown fields", "POST", _QUEUES, a_queue("pruned", colour="red"))
    await server.ask("queue with unknown fields, strict", "POST", f"{_QUEUES}?fieldValidation=Strict",
                     a_queue("strict", colour="red"))  # fmt: skip
    await server.ask("pod group", "POST", _GROUPS, a_group("gang", minMember=2))
    status = {"status": {"schedulingConditions": []}, "spec": {"queue": "other"}}
    await server.ask("status of a pod group", "PATCH", f"{_GROUPS}/gang/status", status, content_type=MERGE)
    spec = {"spec": {"minMember": 3}, "status": {"phase": "Running"}}
    await server.ask("spec of a pod group", "PATCH", f"{_GROUPS}/gang", spec, content_type=MERGE)
    read = await server.ask("pod group as read", "GET", f"{_GROUPS}/gang")
    old = read.body
    await server.ask("", "PATCH", f"{_GROUPS}/gang", {"spec": {"minMember": 4}}, content_type=MERGE,
                     keep=False)  # fmt: skip
    await server.ask("update of a group that has changed", "PUT", f"{_GROUPS}/gang", old)
    del old["metadata"]["resourceVersion"]
    await server.ask("update of a group without a version", "PUT", f"{_GROUPS}/gang", old)
    await server.ask("strategic patch of a group", "PATCH", f"{_GROUPS}/gang", {"spec": {"minMember": 5}},
                     content_type=STRATEGIC)  # fmt: skip
    other = {"metadata": {"uid": "other", "annotations": {"a": "1"}}}
    await server.ask("patch of another group with its name", "PATCH", f"{_GROUPS}/gang", other,
                     content_type=MERGE)  # fmt: skip
    await server.ask("status patch of another group", "PATCH", f"{_GROUPS}/gang/status",
                     other | {"status": {"phase": "x"}}, content_type=MERGE)  # fmt: skip
    stale = {"metadata": {"resourceVersion": "1", "annotations": {"a": "1"}}}
    await server.ask("patch of a stale group", "PATCH", f"{_GROUPS}/gang", stale, content_type=MERGE)
    await server.ask("deletion of a group", "DELETE", f"{_GROUPS}/gang")
    await server.ask("deletion of a group that is gone", "DELETE", f"{_GROUPS}/gang")
    listed = await server.ask("", "GET", "/apis/scheduling.run.ai/v2", keep=False)
    for entry in listed.body["resources"]:
        entry.pop("storageVersionHash", None)
        server.note(f"discovery of {entry['name']}", entry)


async def _until_served(server: Server, path: str) -> None:
    import asyncio

    for _ in range(100):
        answer = await server.ask("", "GET", path, keep=False)
        if answer.status == 200:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} is not served")


async def refused_custom_resources(server: Server) -> None:
    async def refused(name: str, body: Json, path: str = _GROUPS) -> None:
        await server.ask(f"{name}", "POST", path, body)

    await refused("pod group with a word for a number", a_group("wrong", minMember="many"))
    await refused("pod group with a negative size", a_group("wrong", minMember=-1))
    await refused("pod group with an unknown preemptibility", a_group("wrong", preemptibility="maybe"))
    await refused("pod group with a list for an object", a_group("wrong", topologyConstraint=[]))
    await refused("pod group with a name in capitals", a_group("Wrong"))
    await refused(
        "queue with a word for a quota", a_queue("wrong", resources={"gpu": {"quota": "a"}}), _QUEUES
    )
    await refused("queue with a list for a spec", a_queue("wrong") | {"spec": []}, _QUEUES)
    await refused(
        "queue of another group", a_queue("wrong") | {"apiVersion": "scheduling.run.ai/v9"}, _QUEUES
    )
    await refused("queue of another kind", a_queue("wrong") | {"kind": "Quay"}, _QUEUES)
    scaled = {"spec": {"minMember": "x"}}
    await server.ask("", "POST", _GROUPS, a_group("right"), keep=False)
    await server.ask(
        "patch that makes a group wrong", "PATCH", f"{_GROUPS}/right", scaled, content_type=MERGE
    )
    definition = crd_manifests()[0]
    broken = {**definition, "metadata": {"name": "wrong.example.com"}}
    answer = await server.ask("", "POST", _CRDS, broken, keep=False)
    server.note("definition under a wrong name", {"status": answer.status, "reason": answer.body["reason"]})


async def apply(server: Server) -> None:
    async def applied(name: str, path: str, body: Json, manager: str, more: str = "") -> None:
        text = yaml.safe_dump(body)
        query = f"?fieldManager={manager}{more}" if manager else ""
        await server.ask(name, "PATCH", f"{path}{query}", text, content_type=APPLY)

    one = a_map("applied", a="1", b="1")
    await applied("apply", f"{_MAPS}/applied", one, "one")
    await applied("apply again", f"{_MAPS}/applied", one, "one")
    await applied("apply of less", f"{_MAPS}/applied", a_map("applied", a="1"), "one")
    await applied("apply against another", f"{_MAPS}/applied", a_map("applied", a="2"), "two")
    await applied("apply with force", f"{_MAPS}/applied", a_map("applied", a="2"), "two", "&force=true")
    await applied("apply without a manager", f"{_MAPS}/applied", one, "")
    await applied("apply under another name", f"{_MAPS}/other", one, "one")
    await applied("apply of a pod", f"{_PODS}/applied", a_pod("applied"), "one")
    group = a_group("applied", minMember=2)
    await applied("apply of a group", f"{_GROUPS}/applied", group, "one")
    await applied("apply of a group against another", f"{_GROUPS}/applied", a_group("applied"), "two")
    await applied("apply of a wrong group", f"{_GROUPS}/applied", a_group("applied", minMember="x"), "one")


async def tables(server: Server) -> None:
    for name, path in (
        ("pods", _PODS), ("nodes", _NODES), ("queues", _QUEUES), ("pod groups", _GROUPS), ("namespaces",
        "/api/v1/namespaces?fieldSelector=metadata.name%3Dcontract"), ("config maps", _MAPS),
        ("priority classes", "/apis/scheduling.k8s.io/v1/priorityclasses?labelSelector=none"),
    ):  # fmt: skip
        await server.ask(f"table of {name}", "GET", path, accept=TABLE)
    await server.ask("table of one pod", "GET", f"{_PODS}/plain", accept=TABLE)
    await server.ask("an answer in no known form", "GET", f"{_PODS}/plain", accept="text/html2")


async def leases(server: Server) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"},
             "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15,
                      "renewTime": "2026-01-02T03:04:05.000000Z"}}  # fmt: skip
    made = await server.ask("lease", "POST", _LEASES, lease)
    taken = {**made.body, "spec": made.body["spec"] | {"holderIdentity": "b"}}
    await server.ask("lease that is taken over", "PUT", f"{_LEASES}/leader", taken)
    await server.ask("lease that somebody else took over", "PUT", f"{_LEASES}/leader", taken)
    wrong = {**lease, "metadata": {"name": "wrong"}, "spec": {"leaseDurationSeconds": 0}}
    await server.ask("lease of no duration", "POST", f"{_LEASES}?dryRun=All", wrong)
    short = {**lease, "metadata": {"name": "wrong"}, "spec": {"renewTime": "yesterday"}}
    await server.ask("lease with a time that is none", "POST", _LEASES, short)


async def access(server: Server) -> None:
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"verb": "create", "resource": "pods", "namespace": "x"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await server.ask("", "POST", reviews, review, keep=False)
    server.note(
        "may the administrator", {"status": answer.status, "allowed": answer.body["status"]["allowed"]}
    )
    stranger = {"Impersonate-User": "stranger"}
    await server.ask("list that is forbidden", "GET", _PODS, headers=stranger)
    await server.ask("read that is forbidden", "GET", f"{_PODS}/plain", headers=stranger)
    await server.ask("create that is forbidden", "POST", _QUEUES, a_queue("x"), headers=stranger)
    await server.ask("status that is forbidden", "PATCH", f"{_GROUPS}/right/status", {"status": {}},
                     content_type=MERGE, headers=stranger)  # fmt: skip
    accounts = "/api/v1/namespaces/contract/serviceaccounts/default/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = await server.ask("", "POST", accounts, request, keep=False)
    server.note("token request", {"status": token.status, "token": bool(token.body["status"]["token"])})


async def webhooks(server: Server) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    hook = {"name": "absent.example.com", "rules": [rule], "sideEffects": "None", "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _NAMESPACE}},
            "matchConditions": [{"name": "named", "expression": "object.metadata.name == 'refused'"}],
            }  # fmt: skip
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "contract"}, "webhooks": [hook]}  # fmt: skip
    await server.ask("webhook configuration", "POST", path, body)
    import asyncio

    for _ in range(100):  # the server looks for new ones now and then
        answer = await server.ask("", "POST", f"{_MAPS}?dryRun=All", a_map("refused", a="1"), keep=False)
        if answer.status != 201:
            break
        await asyncio.sleep(0.1)
    await server.ask("what a webhook that is absent must admit", "POST", _MAPS, a_map("refused", a="1"))
    await server.ask("what it is not asked about", "POST", _MAPS, a_map("admitted", a="1"))
    await server.ask("", "DELETE", f"{path}/contract", keep=False)
