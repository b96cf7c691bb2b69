"""The NUMA placement exporter: one process on each node that has NUMA zones."""

from __future__ import annotations

from typing import Any, Final

from kai.operands import placement, security
from kai.operands.component import account, probes, service
from kai.operands.manifests import Installation, Manifest, an_object, labels, without_empty, yes
from kai.operands.spec.additions import NumaPlacementExporterSpec
from kai.operands.spec.flags import grace_seconds

NAME: Final = "numa-placement-exporter"
_METRICS, _HEALTH = 8080, 8081
#: Where the node's /sys is mounted: not over that of the container.
_SYSFS: Final = "/host/sys"
#: The kubelet's socket belongs to root.
_ROOT: Final = {"runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": False}


def operands(installation: Installation) -> list[Manifest]:
    """Its objects; none where it is switched off, or nobody said so and no shard looks at NUMA zones."""
    if not runs(installation):
        return []
    metrics = service(NAME, installation, {"http-metrics": (_METRICS, "http-metrics")})
    metrics["spec"]["clusterIP"] = "None"  # nobody wants just any of them
    return [account(NAME, installation), _daemon_set(installation), metrics]


def runs(installation: Installation) -> bool:
    """Whether there is one."""
    enabled = installation.config.numa_placement_exporter.service.enabled
    return any(shard.numa for shard in installation.shards) if enabled is None else enabled


def _daemon_set(installation: Installation) -> Manifest:
    spec = {
        "selector": {"matchLabels": {"app": NAME}},
        "template": {"metadata": {"labels": labels(NAME)}, "spec": _pod(installation)},
    }
    return an_object("apps/v1", "DaemonSet", NAME, namespace=installation.namespace, spec=spec)


def _pod(installation: Installation) -> Manifest:
    """It goes where its own node selector says, wherever the other processes have to go."""
    spec, everywhere = installation.config.numa_placement_exporter, installation.config.everywhere
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds(spec.service.extra_args),
        "securityContext": security.of_pod(installation),
        **without_empty(
            nodeSelector=dict(spec.node_selector),
            affinity=dict(spec.service.affinity),
            tolerations=[*everywhere.daemonsets_tolerations, *spec.tolerations],
            priorityClassName=everywhere.priority_class_name,
            imagePullSecrets=placement.pull_secrets(everywhere),
        ),
        "containers": [_container(installation)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            _of_the_host("podresources", spec.pod_resources_host_path),
            _of_the_host("sysfs", spec.sysfs_host_path),
        ],
    }


def _of_the_host(name: str, path: str) -> Manifest:
    return {"name": name, "hostPath": {"path": path, "type": "Directory"}}


def _container(installation: Installation) -> Manifest:
    spec = installation.config.numa_placement_exporter
    ports = {"health": _HEALTH, "http-metrics": _METRICS}
    node: dict[str, Any] = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    return {
        "name": NAME,
        "image": installation.image(spec.service.image),
        "imagePullPolicy": spec.service.image.pull_policy,
        "command": ["python", "-m", "kai_numa_placement_exporter"],
        "args": _flags(installation),
        "env": [{"name": "NODE_NAME", "valueFrom": node}],
        "ports": [
            {"name": name, "containerPort": number, "protocol": "TCP"} for name, number in ports.items()
        ],
        **probes("health"),
        **without_empty(resources=spec.service.resources.manifest()),
        "securityContext": {**security.of_container(installation), **_ROOT},
        "volumeMounts": _mounts(spec),
    }


def _mounts(spec: NumaPlacementExporterSpec) -> list[Manifest]:
    return [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 (an emptyDir)
        {"name": "podresources", "mountPath": spec.pod_resources_host_path, "readOnly": True},
        {"name": "sysfs", "mountPath": _SYSFS, "readOnly": True},
    ]


def _flags(installation: Installation) -> list[str]:
    spec = installation.config.numa_placement_exporter
    client = spec.service.k8s_client_config
    return [
        f"--namespace={installation.namespace}",
        f"--log-json={yes(installation.config.everywhere.json_log)}",
        *(f"--{flag}={said}" for flag, said in (("qps", client.qps), ("burst", client.burst)) if said),
        f"--health-probe-bind-address=:{_HEALTH}",
        f"--metrics-bind-address=:{_METRICS}",
        f"--podresources-socket={spec.socket}",
        f"--sysfs-root={_SYSFS}",
        f"--poll-interval={spec.poll_interval}",
        f"--drift-resync-interval={spec.drift_resync_interval}",
        *(f"--{flag}={said}" for flag, said in sorted(spec.service.extra_args.items())),
    ]
