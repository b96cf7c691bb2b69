"""The programs of a real control plane with their flags."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kai_local.processes import probes
from kai_local.processes.ports import LOOPBACK
from kai_local.processes.supervisor import Program
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

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://{LOOPBACK}:{self.api_port}"

    @property
    def _gates(self) -> tuple[str, ...]:
        """Before 1.34 versions of ``resource.k8s.io`` were nothing without the gate of what they are for."""
        claims = "resource.k8s.io/" in self.runtime_config
        return ("--feature-gates=DynamicResourceAllocation=true",) if claims else ()

    def credentials(self) -> Program:
        """Makes the keys; it ends by itself."""
        return Program("credentials", credentials.command_line(self.folder, self.url))

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
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.api_port}",
            f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none",  # nothing of the cluster's could reach loopback
            f"--service-cluster-ip-range={_SERVICE_NETWORK}",
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
            "--leader-elect=false",
            f"--node-monitor-grace-period={_NODE_GRACE}",
            f"--kube-api-qps={_CONTROLLER_QPS}",
            f"--kube-api-burst={2 * _CONTROLLER_QPS}",
            *self._gates,
        )
        ready = probes.http(f"{url}/healthz", self.folder / credentials.AUTHORITY)
        return Program("controllers", command, ready=ready, address=url)

    def kwok(self) -> Program:
        """Plays all nodes and the lives of the pods on them, as ``stages.yaml`` tells."""
        address = f"{LOOPBACK}:{self.kwok_port}"
        command = (
            str(self.binaries["kwok"]),
            f"--kubeconfig={self.folder / credentials.KUBECONFIG}",
            f"--config={_STAGES}",
            "--manage-all-nodes",
            f"--cidr={_POD_NETWORK}",
            f"--node-ip={LOOPBACK}",
            f"--node-lease-duration-seconds={_NODE_LEASE_SECONDS}",
            f"--server-address={address}",
        )
        ready = probes.http(f"http://{address}/healthz")
        return Program("kwok", command, ready=ready, address=f"http://{address}")

    def devices(self, *shape: str) -> Program:
        """Makes the Node objects and stands in for the device plugin. ``shape`` are its flags."""
        ready_file = self.folder / "devices.ready"
        flags = [f"--kubeconfig={self.folder / credentials.KUBECONFIG}", f"--ready-file={ready_file}", *shape]
        command = (sys.executable, "-m", "kai_local.real.devices", *flags)
        return Program("devices", command, {"MALLOC_ARENA_MAX": "2"}, ready=probes.file(ready_file))
