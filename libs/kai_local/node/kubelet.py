"""kubelet and kube-proxy of a node, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Final

import yaml

from kai_local.node.dns import DOMAIN
from kai_local.node.runtime import SOCKET
from kai_local.processes import probes
from kai_local.processes.probes import Probe

#: Labels of nodes that are real; KWOK and what stands in for device plugins leave them alone.
REAL_LABEL: Final = "kai.local/node"
REAL_VALUE: Final = "real"
_KUBELET_HEALTH, _PROXY_HEALTH = 10248, 10256
#: How long a node's heartbeat is good for. It comes at a quarter of that.
_LEASE_SECONDS: Final = 8


@dataclass(frozen=True, slots=True)
class Identity:
    """A node: its name and address, and its keys as files."""

    name: str
    address: IPv4Address
    kubeconfig: Path
    certificate: Path
    key: Path
    authority: Path


def kubelet_configuration(node: Identity, *, cgroup: str, dns: IPv4Address, resolver: Path) -> dict[str, Any]:
    """What a kubelet is told. Nothing of it reaches out of its room, but for its cgroups."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(node.address),
        "healthzBindAddress": str(node.address),
        "healthzPort": _KUBELET_HEALTH,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(node.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(node.certificate),
        "tlsPrivateKeyFile": str(node.key),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "clusterDNS": [str(dns)],
        "clusterDomain": DOMAIN,
        "resolvConf": str(resolver),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "nodeLeaseDurationSeconds": _LEASE_SECONDS,
        "nodeStatusUpdateFrequency": "2s",
        # Images come from archives and from nowhere else: what is thrown away is gone.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
        "evictionPressureTransitionPeriod": "5s",
    }


def proxy_configuration(node: Identity, *, kubeconfig: Path, pods: IPv4Network) -> dict[str, Any]:
    """What kube-proxy is told. Limits of connections are of the whole machine, so it leaves them alone."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": str(node.address),
        "healthzBindAddress": f"{node.address}:{_PROXY_HEALTH}",
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "mode": "iptables",
        "clusterCIDR": str(pods),
        "detectLocalMode": "ClusterCIDR",
        "hostnameOverride": node.name,
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "100ms"},
    }


def kubelet_command(kubelet: Path, node: Identity, file: Path, labels: dict[str, str]) -> tuple[str, ...]:
    """The kubelet's command line."""
    told = labels | {REAL_LABEL: REAL_VALUE}
    return (
        str(kubelet),
        f"--config={file}",
        f"--kubeconfig={node.kubeconfig}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in told.items())}",
    )


def kubelet_ready(node: Identity) -> Probe:
    """Whether the kubelet says that it is well."""
    return probes.http(f"http://{node.address}:{_KUBELET_HEALTH}/healthz")


def proxy_ready(node: Identity) -> Probe:
    """Whether Services lead somewhere."""
    return probes.http(f"http://{node.address}:{_PROXY_HEALTH}/healthz")


def write_yaml(file: Path, document: dict[str, Any]) -> Path:
    """Write a configuration; the file."""
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file
