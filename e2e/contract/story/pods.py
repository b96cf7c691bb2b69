"""Pods that are taken, pods that are refused, and how they get to a node."""

from __future__ import annotations

from typing import Any

from e2e.contract.exchange import Server
from e2e.contract.story.manifests import NODES, PODS, Json, a_map, a_pod


async def pods(server: Server) -> None:
    await server.ask("pod with defaults", "POST", PODS, a_pod("plain"))
    await server.ask("the pod as read", "GET", f"{PODS}/plain")
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
    await server.ask("pod with much in it", "POST", PODS, rich)
    generated = a_pod("")
    generated["metadata"] = {"generateName": "generated-"}
    await server.ask("pod with a generated name", "POST", PODS, generated)
    await server.ask("pod that exists", "POST", PODS, a_pod("plain"))
    await server.ask("pod created without a trace", "POST", f"{PODS}?dryRun=All", a_pod("dry"))
    await server.ask("the dry one is not there", "GET", f"{PODS}/dry")
    gated = a_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    await server.ask("pod with a scheduling gate", "POST", PODS, gated)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    train = {"metadata": {"name": "contract-train"}, "value": 50, "preemptionPolicy": "Never"}
    await server.ask("priority class", "POST", classes, train)
    await server.ask(
        "pod with a priority class", "POST", PODS, a_pod("urgent", priorityClassName="contract-train")
    )
    await server.ask(
        "pod with an unknown priority class", "POST", PODS, a_pod("vip", priorityClassName="nobody")
    )
    await server.ask("pod with a priority of its own", "POST", PODS, a_pod("vip", priority=7))
    stranger = a_pod("stranger", serviceAccountName="nobody")
    await server.ask("pod of an unknown service account", "POST", f"{PODS}?dryRun=All", stranger)


async def refused_pods(server: Server) -> None:
    async def refused(name: str, **spec: Any) -> None:
        await server.ask(f"pod {name}", "POST", f"{PODS}?dryRun=All", a_pod("wrong", **spec))

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
    await server.ask("pod with a name in capitals", "POST", PODS, named)
    labelled = a_pod("labelled")
    labelled["metadata"]["labels"] = {"a b": "c"}
    await server.ask("pod with a label that is none", "POST", PODS, labelled)
    valued = a_pod("valued")
    valued["metadata"]["labels"] = {"a": "not a value"}
    await server.ask("pod with a label value that is none", "POST", PODS, valued)
    elsewhere = a_pod("elsewhere")
    elsewhere["metadata"]["namespace"] = "default"
    await server.ask("pod for another namespace", "POST", PODS, elsewhere)
    nameless = a_pod("")
    del nameless["metadata"]["name"]
    await server.ask("pod without a name", "POST", PODS, nameless)
    await server.ask("body of another kind", "POST", PODS, a_map("wrong", a="1"))
    await server.ask("body that is no JSON", "POST", PODS, "{", content_type="application/json")
    await server.ask("body of an unknown type", "POST", PODS, "a", content_type="text/plain")
    unknown = a_pod("unknown") | {"flavour": "sweet"}
    await server.ask("unknown field, strict", "POST", f"{PODS}?fieldValidation=Strict", unknown)
    await server.ask("unknown field, warned of", "POST", f"{PODS}?fieldValidation=Warn", unknown)
    await server.ask("pod with a version", "POST", PODS, _with_version(a_pod("versioned"), "1"))


def _with_version(body: Json, version: str) -> Json:
    return body | {"metadata": body["metadata"] | {"resourceVersion": version}}


async def binding(server: Server) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "contract-node"},
            "status": {"capacity": {"cpu": "4", "nvidia.com/gpu": "8"},
                       "allocatable": {"cpu": "4", "nvidia.com/gpu": "8"}}}  # fmt: skip
    await server.ask("node", "POST", NODES, node)
    await server.ask("", "POST", PODS, a_pod("bound"), keep=False)

    def to(name: str, **meta: Any) -> Json:
        target = {"apiVersion": "v1", "kind": "Node", "name": "contract-node"}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name} | meta, "target": target}

    await server.ask(
        "binding of another with its name", "POST", f"{PODS}/bound/binding", to("bound", uid="x")
    )
    await server.ask(
        "binding", "POST", f"{PODS}/bound/binding", to("bound", annotations={"received": "Regular"})
    )
    await server.ask("the bound pod", "GET", f"{PODS}/bound")
    await server.ask("binding of a bound pod", "POST", f"{PODS}/bound/binding", to("bound"))
    await server.ask("binding of nobody", "POST", f"{PODS}/nobody/binding", to("nobody"))
    await server.ask("binding of a gated pod", "POST", f"{PODS}/gated/binding", to("gated"))
    empty = to("plain") | {"target": {"apiVersion": "v1", "kind": "Node", "name": ""}}
    await server.ask("binding to nothing", "POST", f"{PODS}/plain/binding", empty)
    kind = to("plain") | {"target": {"kind": "Pod", "name": "x"}}
    await server.ask("binding to what is no node", "POST", f"{PODS}/plain/binding", kind)
