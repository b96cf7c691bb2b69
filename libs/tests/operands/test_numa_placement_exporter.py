"""Whether there is a NUMA placement exporter, and what its process is told."""

import pytest

from kai.operands import Facts, operands_of_config, read_config, read_shard
from kai_numa_placement_exporter.settings import NumaPlacementExporterSettings

NAME = "numa-placement-exporter"


def objects_of(exporter=None, *, numa=True, **spec):
    config = read_config({"spec": {"numaPlacementExporter": exporter or {}, **spec}})
    plugins = {"numa": {"enabled": True}} if numa else {}
    shard = read_shard({"metadata": {"name": "default"}, "spec": {"plugins": plugins}}, config)
    objects = operands_of_config(config, Facts(repository="example.com/kai", tag="v1"), (shard,))
    return {(o["kind"], o["metadata"]["name"]): o for o in objects}


def pod_of(objects):
    return objects["DaemonSet", NAME]["spec"]["template"]["spec"]


def container_of(objects):
    (container,) = pod_of(objects)["containers"]
    return container


@pytest.mark.parametrize(
    ("enabled", "numa", "there"),
    [
        (None, False, False),
        (None, True, True),
        (True, False, True),
        (True, True, True),
        (False, True, False),
        (False, False, False),
    ],
)
def test_it_runs_where_that_is_said_or_else_where_a_shard_looks_at_zones(enabled, numa, there):
    said = {} if enabled is None else {"service": {"enabled": enabled}}
    kinds = {kind for kind, name in objects_of(said, numa=numa) if name == NAME}
    assert kinds == ({"DaemonSet", "NetworkPolicy", "Service", "ServiceAccount"} if there else set())


@pytest.mark.parametrize(
    ("told", "socket"),
    [
        ({}, "/var/lib/kubelet/pod-resources/kubelet.sock"),
        ({"podResourcesHostPath": "/var/lib/k0s/pod-resources/"}, "/var/lib/k0s/pod-resources/kubelet.sock"),
        ({"podResourcesHostPath": "/run/pr", "podResourcesSocket": "/run/pr/s"}, "/run/pr/s"),
    ],
)
def test_the_kubelet_answers_in_the_folder_that_is_said(told, socket):
    assert f"--podresources-socket={socket}" in container_of(objects_of(told))["args"]


def test_its_process_takes_what_it_is_told(monkeypatch):
    monkeypatch.setenv("NODE_NAME", "n1")
    told = {
        "pollInterval": "2s",
        "driftResyncInterval": "0s",
        "podResourcesHostPath": "/var/lib/k0s/kubelet/pod-resources",
        "podResourcesSocket": "/var/lib/k0s/kubelet/pod-resources/kubelet.sock",
        "service": {"extraArgs": {"log-level": "debug"}},
    }
    settings = NumaPlacementExporterSettings.parse(container_of(objects_of(told))["args"])
    settings.check()
    assert (settings.poll_interval, settings.drift_resync_interval) == (2, 0)
    assert settings.pod_resources_socket == told["podResourcesSocket"]
    assert settings.log_level == "debug"


def test_it_sees_two_folders_of_its_node_and_may_change_neither():
    exporter = {"podResourcesHostPath": "/run/pr", "podResourcesSocket": "/run/pr/s", "sysfsHostPath": "/s"}
    objects = objects_of(exporter)
    hosts = {v["name"]: v["hostPath"]["path"] for v in pod_of(objects)["volumes"] if "hostPath" in v}
    assert hosts == {"podresources": "/run/pr", "sysfs": "/s"}
    mounts = {m["name"]: m for m in container_of(objects)["volumeMounts"]}
    assert {name: mounts[name]["mountPath"] for name in hosts} == {
        "podresources": "/run/pr",
        "sysfs": "/host/sys",
    }
    assert all(mounts[name]["readOnly"] for name in hosts)
    assert "--sysfs-root=/host/sys" in container_of(objects)["args"]


def test_it_is_root_without_anything_that_root_could_do():
    security = container_of(objects_of())["securityContext"]
    assert (security["runAsUser"], security["runAsNonRoot"]) == (0, False)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True


def test_it_goes_to_nodes_with_zones_and_not_where_the_other_processes_go():
    taint = {"key": "gpu", "operator": "Exists"}
    everywhere = {
        "nodeSelector": {"role": "control"},
        "tolerations": [{"key": "control", "operator": "Exists"}],
        "daemonsetsTolerations": [taint],
        "priorityClassName": "system-node-critical",
    }
    pod = pod_of(objects_of(**{"global": everywhere}))
    assert pod["nodeSelector"] == {"feature.node.kubernetes.io/memory-numa": "true"}
    assert pod["tolerations"] == [taint]
    assert pod["priorityClassName"] == "system-node-critical"
    own = {"nodeSelector": {"numa": "yes"}, "tolerations": [{"key": "own", "operator": "Exists"}]}
    pod = pod_of(objects_of(own, **{"global": everywhere}))
    assert pod["nodeSelector"] == {"numa": "yes"}
    assert pod["tolerations"] == [taint, {"key": "own", "operator": "Exists"}]


def test_the_node_is_told_by_the_downward_api():
    (node,) = container_of(objects_of())["env"]
    assert node == {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
