"""The programs of a real control plane with their flags."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kai_local.node.kubelet import REAL_LABEL
from kai_local.processes import probes
from kai_local.processes.ports import LOOPBACK, free_ports
from kai_local.processes.programs import Program
from kai_local.real import credentials

_EGRESS = "egress.yaml"
_EGRESS_CONFIGURATION = """\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {{uds: {{udsName: {socket}}}}}
"""
_STAGES = Path(__file__).with_name("stages.yaml")
_POD_NETWORK, _SERVICE_NETWORK = "10.244.0.0/16", "10.96.0.0/16"
#: KWOK renews at a quarter of it: seldom, for heartbeats of hundreds of nodes are load that no test is about.
_NODE_LEASE_SECONDS = 1200
#: How long a node may be silent.
_NODE_GRACE = "3600s"
#: The same where kubelets are real: they renew at every other second, and one that is gone is to be noticed.
_LEASE_BESIDE_KUBELETS, _GRACE_BESIDE_KUBELETS = 40, "20s"
#: No request of a controller shall wait behind its default limit of 20 a second: that is not what is tested.
_CONTROLLER_QPS = 1000


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """One control plane on loopback; its files are below ``folder``."""

    binaries: Mapping[str, Path]
    folder: Path
    etcd_port: int
    etcd_peer_port: int
    api_port: int
    controllers_port: int
    kwok_port: int
    #: Socket of the proxy through which the API server reaches Services and kubelets; empty for none.
    egress: str = ""
    #: Which versions the API server has, beside those that are on by default.
    runtime_config: str = ""
    #: Where the API server listens: on this machine alone, or also where real nodes reach it.
    address: str = LOOPBACK
    #: The network of Services, and the address of the API server in it.
    service_network: str = _SERVICE_NETWORK
    service_address: str = ""
    #: Real nodes: addresses by name.
    kubelets: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://{self.address}:{self.api_port}"

    @property
    def _gates(self) -> tuple[str, ...]:
        """Before 1.34 versions of ``resource.k8s.io`` were nothing without the gate of what they are for."""
        claims = "resource.k8s.io/" in self.runtime_config
        return ("--feature-gates=DynamicResourceAllocation=true",) if claims else ()

    def credentials(self) -> Program:
        """Makes the keys; it ends by itself."""
        command = credentials.command_line(self.folder, self.url, self.service_address, nodes=self.kubelets)
        return Program("credentials", command)

    def etcd(self) -> Program:
        """The store. It does not wait for the disk: a cluster like this does not outlive its machine."""
        client, peer = (f"http://{LOOPBACK}:{port}" for port in (self.etcd_port, self.etcd_peer_port))
        command = (
            str(self.binaries["etcd"]),
            "--name=kai",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=kai={peer}",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={4 * 2**30}",
            "--log-level=warn",
        )
        return Program("etcd", command, ready=probes.http(f"{client}/health"), address=client)

    def write_egress(self) -> None:
        """Tell the API server in a file of its own what leads to the cluster's network."""
        if self.egress:
            (self.folder / _EGRESS).write_text(_EGRESS_CONFIGURATION.format(socket=json.dumps(self.egress)))

    def api_server(self) -> Program:
        """The API server with RBAC and the admission plugins that are on by default."""
        command = (
            str(self.binaries["kube-apiserver"]),
            f"--etcd-servers=http://{LOOPBACK}:{self.etcd_port}",
            f"--bind-address={self.address}",
            f"--secure-port={self.api_port}",
            f"--advertise-address={self.address}",
            *self._ways_of_pods,
            f"--service-cluster-ip-range={self.service_network}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged",
            f"--client-ca-file={self.folder / credentials.AUTHORITY}",
            f"--tls-cert-file={self.folder / credentials.SERVER_CERTIFICATE}",
            f"--tls-private-key-file={self.folder / credentials.SERVER_KEY}",
            f"--service-account-key-file={self.folder / credentials.TOKEN_CERTIFICATE}",
            f"--service-account-signing-key-file={self.folder / credentials.TOKEN_KEY}",
            "--service-account-issuer=https://kubernetes.default.svc",
            *([f"--egress-selector-config-file={self.folder / _EGRESS}"] if self.egress else ()),
            *([f"--runtime-config={self.runtime_config}"] if self.runtime_config else ()),
            *self._gates,
        )
        ready = probes.http(f"{self.url}/readyz", self.folder / credentials.AUTHORITY)
        return Program("apiserver", command, ready=ready, address=self.url)

    @property
    def _ways_of_pods(self) -> tuple[str, ...]:
        """How pods reach the server, and the server kubelets. Loopback nothing of the cluster could reach."""
        if not self.kubelets:
            return ("--endpoint-reconciler-type=none",)
        return (
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={self.folder / credentials.AUTHORITY}",
            f"--kubelet-client-certificate={self.folder / credentials.KUBELET_CLIENT_CERTIFICATE}",
            f"--kubelet-client-key={self.folder / credentials.KUBELET_CLIENT_KEY}",
        )

    def controllers(self) -> Program:
        """All controllers, each with its own service account."""
        url = f"https://{LOOPBACK}:{self.controllers_port}"
        command = (
            str(self.binaries["kube-controller-manager"]),
            f"--kubeconfig={self.folder / credentials.KUBECONFIG}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.controllers_port}",
            f"--tls-cert-file={self.folder / credentials.SERVER_CERTIFICATE}",
            f"--tls-private-key-file={self.folder / credentials.SERVER_KEY}",
            f"--root-ca-file={self.folder / credentials.AUTHORITY}",
            f"--service-account-private-key-file={self.folder / credentials.TOKEN_KEY}",
            "--use-service-account-credentials",
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",  # else it makes one on the machine
            "--leader-elect=false",
            f"--node-monitor-grace-period={_GRACE_BESIDE_KUBELETS if self.kubelets else _NODE_GRACE}",
            f"--kube-api-qps={_CONTROLLER_QPS}",
            f"--kube-api-burst={2 * _CONTROLLER_QPS}",
            *self._gates,
        )
        ready = probes.http(f"{url}/healthz", self.folder / credentials.AUTHORITY)
        return Program("controllers", command, ready=ready, address=url)

    def kwok(self) -> Program:
        """Plays all nodes and the lives of the pods on them, as ``stages.yaml`` tells."""
        address = f"{LOOPBACK}:{self.kwok_port}"
        lease = _LEASE_BESIDE_KUBELETS if self.kubelets else _NODE_LEASE_SECONDS
        others = f"--manage-nodes-with-label-selector=!{REAL_LABEL}"
        command = (
            str(self.binaries["kwok"]),
            f"--kubeconfig={self.folder / credentials.KUBECONFIG}",
            f"--config={_STAGES}",
            others if self.kubelets else "--manage-all-nodes",
            f"--cidr={_POD_NETWORK}",
            f"--node-ip={LOOPBACK}",
            f"--node-lease-duration-seconds={lease}",
            f"--server-address={address}",
        )
        ready = probes.http(f"http://{address}/healthz")
        return Program("kwok", command, ready=ready, address=f"http://{address}")

    def scheduler(self) -> Program:
        """The scheduler of all pods that name no other one, where kubelets are real."""
        (port,) = free_ports(1)
        url = f"https://{LOOPBACK}:{port}"
        command = (
            str(self.binaries["kube-scheduler"]),
            f"--kubeconfig={self.folder / credentials.KUBE_SCHEDULER_KUBECONFIG}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={self.folder / credentials.SERVER_CERTIFICATE}",
            f"--tls-private-key-file={self.folder / credentials.SERVER_KEY}",
            "--leader-elect=false",
        )
        ready = probes.http(f"{url}/healthz", self.folder / credentials.AUTHORITY)
        return Program("kube-scheduler", command, ready=ready, address=url)

    def devices(self, *shape: str) -> Program:
        """Makes the Node objects and stands in for the device plugin. ``shape`` are its flags."""
        ready_file = self.folder / "devices.ready"
        flags = [f"--kubeconfig={self.folder / credentials.KUBECONFIG}", f"--ready-file={ready_file}", *shape]
        command = (sys.executable, "-m", "kai_local.real.devices", *flags)
        return Program("devices", command, {"MALLOC_ARENA_MAX": "2"}, ready=probes.file(ready_file))
