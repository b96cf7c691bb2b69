"""The real kubectl works."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from deadlines import eventually, patience

pytestmark = [pytest.mark.kubectl, pytest.mark.integration]

CRDS = Path(__file__).parents[4] / "helm" / "kai-scheduler" / "crds"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1"}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: a}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: q}
spec: {priority: 7, resources: {gpu: {quota: 1, limit: -1, overQuotaWeight: 1}, cpu: {}, memory: {}}}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: g, namespace: default}
spec: {minMember: 2, queue: q}
"""


def timeout() -> str:
    return f"--timeout={patience():.0f}s"


async def good(kubectl, command, given=""):
    status, output = await kubectl(*command.split(), given=given)
    assert status == 0, output
    return output


async def bad(kubectl, command, given=""):
    status, output = await kubectl(*command.split(), given=given)
    assert status != 0, output
    return output


async def test_a_deployment_is_applied_changed_and_deleted(kubectl):
    assert "web created" in await good(kubectl, "apply -f -", DEPLOYMENT)
    assert "web unchanged" in await good(kubectl, "apply -f -", DEPLOYMENT)
    assert "web configured" in await good(
        kubectl, "apply -f -", DEPLOYMENT.replace("replicas: 2", "replicas: 4")
    )
    assert "web scaled" in await good(kubectl, "scale deployment web --replicas=3")
    assert "web labeled" in await good(kubectl, "label deployment web tier=front")
    assert "web annotated" in await good(kubectl, "annotate deployment web note=x")
    assert "image updated" in await good(kubectl, "set image deployment/web c=nginx:2")
    live = yaml.safe_load(await good(kubectl, "get deployment web -o yaml"))
    assert live["spec"]["replicas"] == 3
    assert live["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert "deleted" in await good(kubectl, "delete -f -", DEPLOYMENT)
    assert "No resources found" in await good(kubectl, "get deployments")


async def test_a_deployment_is_applied_by_kubectl_and_then_by_the_server(kubectl):
    await good(kubectl, "apply -f -", DEPLOYMENT)
    for replicas in (4, 5):
        edited = DEPLOYMENT.replace("replicas: 2", f"replicas: {replicas}")
        assert "serverside-applied" in await good(kubectl, "apply --server-side -f -", edited)
    assert "web" in await good(kubectl, "apply -f -", edited)
    assert await good(kubectl, "get deployment web -o jsonpath={.spec.replicas}") == "5"


async def test_pods_are_shown_as_anybody_likes(kubectl, api):
    await good(kubectl, "create -f -", POD)
    await api.post(
        "/api/v1/namespaces/default/pods/p/binding", {"target": {"kind": "Node", "name": "node-1"}}
    )
    header, row = (await good(kubectl, "get pods -o wide")).splitlines()
    assert header.split()[:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert row.split()[:4] == ["p", "0/1", "Pending", "0"]
    assert "node-1" in row
    columns = "custom-columns=N:.metadata.name,S:.spec.schedulerName"
    assert (await good(kubectl, f"get pods -o {columns}")).split() == ["N", "S", "p", "kai-scheduler"]
    assert (await good(kubectl, "get pods -A -l app=a -o name")).split() == ["pod/p"]
    assert "p " in await good(
        kubectl, "get pods --field-selector spec.nodeName=node-1 --sort-by=.metadata.name"
    )
    assert (await good(kubectl, "get pod p -o jsonpath={.spec.nodeName}")) == "node-1"
    described = await good(kubectl, "describe pod p")
    assert "nvidia.com/gpu:  1" in described
    assert "PodScheduled   True" in described


async def test_a_watch_prints_changes_as_they_come(kubectl, api):
    await good(kubectl, "create -f -", POD)
    watching = asyncio.create_task(kubectl("get", "pods", "-w", "--request-timeout=2s"))
    await eventually(lambda: api.get("/kai.local/requests"), lambda report: "pods" in report["watches"])
    await api.patch("/api/v1/namespaces/default/pods/p/status", {"status": {"phase": "Failed"}})
    _, output = await watching
    assert [line.split()[2] for line in output.splitlines() if line.startswith("p ")] == ["Pending", "Failed"]


CREATED = {
    "namespace team": "namespace/team created",
    "configmap c --from-literal=a=b": "configmap/c created",
    "secret generic s --from-literal=a=b": "secret/s created",
    "deployment d --image=x --replicas=2 --port=80": "deployment.apps/d created",
    "job j --image=x": "job.batch/j created",
    "cronjob cj --image=x --schedule=@daily": "cronjob.batch/cj created",
    "role r --verb=get --resource=pods": "role.rbac.authorization.k8s.io/r created",
    "rolebinding b --role=r --serviceaccount=default:x": "rolebinding.rbac.authorization.k8s.io/b created",
    "priorityclass pc --value=100": "priorityclass.scheduling.k8s.io/pc created",
    "poddisruptionbudget pdb --selector=app=a --min-available=1": "poddisruptionbudget.policy/pdb created",
    "service clusterip svc --tcp=80:8080": "service/svc created",
    "serviceaccount sa": "serviceaccount/sa created",
    "quota q --hard=cpu=1": "resourcequota/q created",
}


async def test_create_makes_all_kinds_that_it_knows(kubectl):
    made = {command: (await kubectl("create", *command.split()))[1].strip() for command in CREATED}
    assert made == CREATED
    secret = yaml.safe_load(await good(kubectl, "get secret s -o yaml"))
    assert (secret["type"], secret["data"]) == ("Opaque", {"a": "Yg=="})
    deployment = yaml.safe_load(await good(kubectl, "get deployment d -o yaml"))
    assert deployment["spec"]["template"]["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP"}
    ]
    service = yaml.safe_load(await good(kubectl, "get service svc -o yaml"))
    assert service["spec"]["ports"] == [
        {"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}
    ]


async def test_server_side_apply_tells_of_conflicts(kubectl):
    await good(kubectl, "apply --server-side -f -", DEPLOYMENT)
    other = DEPLOYMENT.replace("replicas: 2", "replicas: 5")
    output = await bad(kubectl, "apply --server-side --field-manager=other -f -", other)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas' in output.replace(
        " using apps/v1", ""
    )
    await good(kubectl, "apply --server-side --field-manager=other --force-conflicts -f -", other)
    assert "  replicas: 5\n" in await good(kubectl, "get deployment web -o yaml")


async def test_custom_resources_are_like_any_other(kubectl):
    if not CRDS.is_dir():
        pytest.skip("the chart with the custom resources is not beside the library")
    await good(kubectl, f"apply -f {CRDS}")
    await good(kubectl, f"wait --for=condition=established {timeout()} crd --all")
    await good(kubectl, "apply -f -", QUEUE)
    assert "NAME   PRIORITY   PARENT" in await good(kubectl, "get queues")
    assert "Min Member:  2" in await good(kubectl, "describe podgroup g")
    assert "minMember" in await good(kubectl, "explain podgroup.spec")
    output = await bad(kubectl, "apply -f -", QUEUE.replace("minMember: 2", "minMember: -2"))
    assert (
        "spec.minMember: Invalid value: -2: spec.minMember in body should be greater than or equal to 0"
        in output
    )
    output = await bad(kubectl, "apply -f -", QUEUE.replace("minMember", "minMembers"))
    assert 'unknown field "spec.minMembers"' in output


@pytest.mark.parametrize(
    ("kind", "name", "spec", "field"),
    [
        (
            "Config",
            "kai-config",
            {"global": {"tolerations": [{"key": "gpu"}, {"key": "lab", "operater": "Exists"}]}},
            "spec.global.tolerations[1].operater",
        ),
        (
            "Config",
            "kai-config",
            {"networkPolicy": {"egress": {"more": [{"ports": [{"prt": 443}]}]}}},
            "spec.networkPolicy.egress.more[0].ports[0].prt",
        ),
        (
            "SchedulingShard",
            "default",
            {"plugins": {"elastic": {"enabld": True}}},
            "spec.plugins.elastic.enabld",
        ),
    ],
    ids=["in a list", "in a list in a list", "in a map"],
)
async def test_a_slip_in_config_or_shard_is_told_by_its_place_however_it_is_written(
    kubectl, api, kind, name, spec, field
):
    if not CRDS.is_dir():
        pytest.skip("the chart with the custom resources is not beside the library")
    await good(kubectl, f"apply -f {CRDS}")
    await good(kubectl, f"wait --for=condition=established {timeout()} crd --all")
    manifest = {"apiVersion": "kai.scheduler/v1", "kind": kind, "metadata": {"name": name}, "spec": {}}
    await good(kubectl, "create -f -", json.dumps(manifest))
    before = await good(kubectl, f"get {kind} {name} -o json")

    told, slip = f'unknown field "{field}"', {**manifest, "spec": spec}
    assert told in await bad(kubectl, "apply --validate=strict -f -", json.dumps(slip))
    assert told in await bad(kubectl, "apply --server-side --validate=strict -f -", json.dumps(slip))
    path = f"/apis/kai.scheduler/v1/{kind.lower()}s/{name}?fieldValidation=Strict"
    for body, form in (
        ({"spec": spec}, "application/merge-patch+json"),
        ([{"op": "replace", "path": "/spec", "value": spec}], "application/json-patch+json"),
    ):
        status, refused = await api.call("PATCH", path, body, kind=form)
        assert (status, told in refused["message"]) == (400, True)
    assert await good(kubectl, f"get {kind} {name} -o json") == before
    patch = json.dumps({"spec": spec}, separators=(",", ":"))
    assert f"Warning: {told}" in await good(kubectl, f"patch {kind} {name} --type=merge -p {patch}")


async def test_deleting_waits_and_can_be_forced(kubectl, api):
    await good(kubectl, "create -f -", POD)
    await api.post("/api/v1/namespaces/default/pods/p/binding", {"target": {"kind": "Node", "name": "n"}})
    await good(kubectl, "delete pod p --wait=false")
    assert "Terminating" in await good(kubectl, "get pod p")
    await good(kubectl, "delete pod p --force --grace-period=0")
    assert "NotFound" in await bad(kubectl, "get pod p")
    await good(kubectl, "create namespace team")
    await good(kubectl, "create configmap c -n team")
    assert 'namespace "team" deleted' in await good(kubectl, f"delete namespace team {timeout()}")
    assert "NotFound" in await bad(kubectl, "get namespace team")


async def test_events_are_listed_and_described(kubectl, api):
    made = yaml.safe_load(await good(kubectl, "create -o yaml -f -", POD))
    regarding = {
        "kind": "Pod",
        "name": "p",
        "namespace": "default",
        "uid": made["metadata"]["uid"],
        "apiVersion": "v1",
    }
    await api.post(
        "/apis/events.k8s.io/v1/namespaces/default/events",
        {
            "metadata": {"name": "e"},
            "regarding": regarding,
            "reason": "Unschedulable",
            "note": "no node fits",
            "type": "Warning",
            "eventTime": "2026-01-02T03:04:05.000000Z",
            "reportingController": "kai-scheduler",
            "reportingInstance": "s-0",
            "action": "Schedule",
        },
    )
    sorted_by_time = "get events -A --sort-by=.lastTimestamp"
    for command in ("events", "get events", "events --for pod/p", "describe pod p", sorted_by_time):
        output = await good(kubectl, command)
        assert "Unschedulable" in output, command
        assert "no node fits" in output, command
        assert "<unknown>" not in output, command
    [listed] = (await api.get("/api/v1/namespaces/default/events"))["items"]
    assert (listed["eventTime"], listed["lastTimestamp"]) == ("2026-01-02T03:04:05.000000Z", None)


async def test_a_list_is_taken_apart(kubectl):
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("a", "b")]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    for command in ("create -f -", "apply -f -", "apply --server-side -f -", "replace -f -", "delete -f -"):
        output = await good(kubectl, command, listed)
        assert all(f"{name}" in output for name in ("a", "b")), command
    await good(kubectl, "create -f -", listed)
    printed = await good(kubectl, "get --raw /api/v1/namespaces/default/configmaps")
    assert "configured" in await good(kubectl, "apply -f -", printed)  # a ConfigMapList


ANSWERS = {
    "auth can-i create pods": "yes",
    "auth whoami": "kubernetes-admin",
    "version": "Server Version: v1.34.0",
    "explain pod.spec.schedulerName": "dispatched by specified scheduler",
    "api-resources --api-group=apps -o name": "deployments.apps",
    "cluster-info": "Kubernetes control plane",
    "get --raw /readyz": "ok",
    "get nodes": "No resources found",
    "get all -A": "",
}


async def test_questions_about_the_cluster_are_answered(kubectl):
    for command, text in ANSWERS.items():
        assert text in await good(kubectl, command), command


REFUSALS = {
    "get nothing": 'the server doesn\'t have a resource type "nothing"',
    "get pod none": 'Error from server (NotFound): pods "none" not found',
    "get pods --field-selector a=b": "field label not supported: a",
    "create configmap c -n nowhere": 'namespaces "nowhere" not found',
    "logs p": "the embedded cluster runs no containers",
}


async def test_mistakes_are_told_plainly(kubectl):
    await good(kubectl, "create -f -", POD)
    for command, text in REFUSALS.items():
        assert text in await bad(kubectl, command), command
    assert "is invalid: spec.containers[0].image: Required value" in await bad(
        kubectl, "apply -f -", POD.replace("name: p,", "name: x,").replace("image: i, ", "")
    )
    assert "no matches for kind" in await bad(
        kubectl, "apply -f -", "apiVersion: no.such/v1\nkind: X\nmetadata: {name: x}\n"
    )


async def test_a_rollout_is_followed(kubectl, api):
    await good(kubectl, "create -f -", DEPLOYMENT)
    following = asyncio.create_task(kubectl("rollout", "status", "deployment/web", timeout()))
    status = {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
    }
    await api.patch("/apis/apps/v1/namespaces/default/deployments/web/status", {"status": status})
    code, output = await following
    assert code == 0, output
    assert "successfully rolled out" in output


async def test_a_node_is_cordoned_and_drained(kubectl, api):
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    await good(kubectl, "create -f -", POD)
    await api.post("/api/v1/namespaces/default/pods/p/binding", {"target": {"kind": "Node", "name": "n"}})
    draining = asyncio.create_task(kubectl("drain", "n", "--force", timeout()))
    pod = "/api/v1/namespaces/default/pods/p"
    await eventually(lambda: api.get(pod), lambda found: "deletionTimestamp" in found["metadata"])
    await api.delete("/api/v1/namespaces/default/pods/p", {"gracePeriodSeconds": 0})
    code, output = await draining
    assert (code, "node/n drained" in output) == (0, True), output
    assert "SchedulingDisabled" in await good(kubectl, "get node n")
