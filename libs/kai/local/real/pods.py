"""The pods of Deployments as processes of this machine, where no kubelet is.

What a manifest says is what runs: its command, arguments and environment, its Secrets and ConfigMaps, the
token of its service account. What a pod has to itself is given in other ways: an address of its own on
loopback instead of a network, a folder of its own instead of a root directory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Manifest = dict[str, Any]

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_LISTEN = re.compile(r"^(--[a-z-]+=)?:(\d+)$")
#: Where our services look for their serving certificates unless they are told; told here, by environment.
_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108


@dataclass(frozen=True, slots=True)
class Launch:
    """A container as a process. ``health`` is the URL that its readiness probe asks, empty without one.

    ``debug_address`` is where it serves snapshots on loopback itself, which pods here have in common.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    address: str
    health: str
    stop_after: float
    debug_address: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What manifests refer to: data of Secrets and ConfigMaps by name, addresses by name of the Service."""

    namespace: str
    secrets: Mapping[str, Mapping[str, bytes]]
    config_maps: Mapping[str, Mapping[str, bytes]]
    addresses: Mapping[str, str] = field(default_factory=dict)
    #: Arguments that name files of this machine, and not of the pod.
    ours: frozenset[str] = frozenset()

    def resolve(self, text: str) -> str:
        """Names of Services replaced by their addresses, as a cluster's DNS would."""
        for service, address in self.addresses.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(service)}\.{self.namespace}\.svc(?![\w-])", address, text)
        return text


def launch(deployment: Manifest, name: str, address: str, folder: Path, around: Surroundings) -> Launch:
    """The only container of a Deployment's pod. Its volumes are written below ``folder``."""
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = _mount(spec, container, folder, around)
    environment = {
        entry["name"]: around.resolve(_value(entry, address, around)) for entry in container.get("env") or ()
    }
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    command = [
        word if word in around.ours else _word(around.resolve(word), environment, address, mounts)
        for word in words
    ]
    if _CERTIFICATES in mounts:
        environment["KAI_CERT_DIR"] = mounts[_CERTIFICATES]
    return Launch(
        name=name,
        command=command,
        environment=environment,
        address=address,
        health=_health(container, address),
        stop_after=float(spec.get("terminationGracePeriodSeconds") or 30),
    )


def port_of(deployment: Manifest, port: str | int) -> int:
    """The number of a container's port, by its name."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    named = {one["name"]: one["containerPort"] for one in container.get("ports") or ()}
    return int(named.get(port, port))


def _mount(spec: Manifest, container: Manifest, folder: Path, around: Surroundings) -> dict[str, str]:
    """Write the volumes; where each mount path is now."""
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    mounts = {}
    for mount in container.get("volumeMounts") or ():
        volume, target = volumes[mount["name"]], folder / mount["name"]
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        content: Mapping[str, bytes] = {}
        if "secret" in volume:
            content = around.secrets[volume["secret"]["secretName"]]
        elif "configMap" in volume:
            content = around.config_maps[volume["configMap"]["name"]]
        for key, data in content.items():
            (target / key).touch(mode=0o600)
            (target / key).write_bytes(data)
        mounts[mount["mountPath"]] = str(target)
    return mounts


def _value(entry: Manifest, address: str, around: Surroundings) -> str:
    source = entry.get("valueFrom")
    if source is None:
        return str(entry.get("value", ""))
    if "secretKeyRef" in source:
        reference = source["secretKeyRef"]
        return around.secrets[reference["name"]][reference["key"]].decode()
    if source.get("fieldRef", {}).get("fieldPath") == "status.podIP":
        return address
    raise ValueError(f"environment variable {entry['name']}: {source} is not known here")


def _word(word: str, environment: Mapping[str, str], address: str, mounts: Mapping[str, str]) -> str:
    """One argument: references filled in, paths moved, a listener on all addresses bound to the pod's own."""
    word = _REFERENCE.sub(lambda match: environment.get(match[1], match[0]), word)
    word = _LISTEN.sub(rf"\g<1>{address}:\g<2>", word)
    for path in sorted(mounts, key=len, reverse=True):
        moved = re.sub(rf"(?:(?<==)|^){re.escape(path)}(?=/|$)", mounts[path], word)
        if moved != word:
            return moved
    return word


def _health(container: Manifest, address: str) -> str:
    probe = (container.get("readinessProbe") or {}).get("httpGet")
    if probe is None:
        return ""
    named = {one["name"]: one["containerPort"] for one in container.get("ports") or ()}
    return f"http://{address}:{named.get(probe['port'], probe['port'])}{probe['path']}"
