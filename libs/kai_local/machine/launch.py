"""A pod as a process of this machine, where no kubelet is.

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
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
#: Where our services look for their serving certificates unless they are told; told here, by environment.
#: Folder of what claims stand for, beside those of pods.
_CLAIMS = "claims"
_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108


class CannotLaunch(Exception):
    """The pod asks for what this machine does not do; says what."""


@dataclass(frozen=True, slots=True)
class Check:
    """A probe: what to ask (``http://…`` or ``tcp://host:port``), how often, and how many failures count."""

    url: str
    every: float
    failures: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A container as a process. ``ready`` and ``alive`` are its readiness and liveness probes.

    ``debug_address`` is where it serves snapshots on loopback itself, which pods here have in common.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    address: str
    ready: Check | None
    alive: Check | None
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


def launch(pod: Manifest, name: str, address: str, folder: Path, around: Surroundings) -> Launch:
    """The only container of a pod. Its volumes are written below ``folder``.

    Raises:
        CannotLaunch: the pod is not one that can be a process.
    """
    container = container_of(pod)
    mounts = write_mounts(pod, folder, around)
    # What every container has: our processes name themselves after it.
    environment = {"HOSTNAME": str(pod["metadata"]["name"])}
    for entry in container.get("env") or ():
        environment[entry["name"]] = around.resolve(_value(pod, entry, address, around))
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
        ready=_check(pod, container.get("readinessProbe"), address),
        alive=_check(pod, container.get("livenessProbe"), address),
        stop_after=_grace(pod),
    )


def _grace(pod: Manifest) -> float:
    seconds = pod["spec"].get("terminationGracePeriodSeconds")
    return 30.0 if seconds is None else float(seconds)


def container_of(pod: Manifest) -> Manifest:
    """The only container of a pod.

    Raises:
        CannotLaunch: it has several.
    """
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    if len(containers) != 1:
        listed = ", ".join(container["name"] for container in containers)
        raise CannotLaunch(f"a pod with one container can be a process here, this one has several: {listed}")
    container: Manifest = containers[0]
    if container.get("envFrom"):
        raise CannotLaunch("envFrom is not known here: name the variables in env")
    return container


def references(pod: Manifest) -> tuple[set[str], set[str]]:
    """Names of the Secrets and of the ConfigMaps that a pod needs before it can start."""
    volumes = pod["spec"].get("volumes") or ()
    sources = [
        entry["valueFrom"]
        for container in pod["spec"]["containers"]
        for entry in container.get("env") or ()
        if "valueFrom" in entry
    ]
    secrets = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    secrets |= {source["secretKeyRef"]["name"] for source in sources if "secretKeyRef" in source}
    config_maps = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    return secrets, config_maps


def port_of(pod: Manifest, port: str | int) -> int:
    """The number of a container's port, by its name."""
    (container,) = pod["spec"]["containers"]
    named = {one["name"]: one["containerPort"] for one in container.get("ports") or () if "name" in one}
    return int(named.get(port, port))


def write_mounts(pod: Manifest, folder: Path, around: Surroundings) -> dict[str, str]:
    """Write the volumes; where each mount path is now."""
    container = container_of(pod)
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    mounts = {}
    for mount in container.get("volumeMounts") or ():
        if mount["mountPath"].startswith(_ACCOUNT):
            continue  # the way to the API server is told otherwise
        if mount.get("subPath"):
            raise CannotLaunch(f"volume mount {mount['name']}: subPath is not known here")
        volume = volumes[mount["name"]]
        target = _place(volume, folder)
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        for key, data in _content(volume, around).items():
            _write(target / key, data)
        mounts[mount["mountPath"]] = str(target)
    return mounts


def _place(volume: Manifest, folder: Path) -> Path:
    """A volume is its pod's own, but what a claim stands for is there for the next pod as well."""
    if "persistentVolumeClaim" not in volume:
        return folder / str(volume["name"])
    return folder.parent / _CLAIMS / str(volume["persistentVolumeClaim"]["claimName"])


def _content(volume: Manifest, around: Surroundings) -> Mapping[str, bytes]:
    if "secret" in volume:
        source = volume["secret"]
        return _items(volume, source, around.secrets[source["secretName"]])
    if "configMap" in volume:
        source = volume["configMap"]
        return _items(volume, source, around.config_maps[source["name"]])
    if "emptyDir" in volume or "persistentVolumeClaim" in volume:
        return {}
    problem = f"volume {volume['name']} is neither an emptyDir nor a claim, a Secret or a ConfigMap"
    raise CannotLaunch(f"{problem}: nothing else is known here")


def _items(volume: Manifest, source: Manifest, data: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The keys that a volume names, each as the file that it says; all of them if it names none."""
    found = {}
    for item in source.get("items") or [{"key": key, "path": key} for key in data]:
        if item["key"] not in data:
            raise CannotLaunch(f"volume {volume['name']} references non-existent key {item['key']}")
        if "/" in item["path"]:
            raise CannotLaunch(f"volume {volume['name']}: path {item['path']} is in a folder, unknown here")
        found[item["path"]] = data[item["key"]]
    return found


def _write(path: Path, data: bytes) -> None:
    """For our eyes only, and never half of it; a file that says so already is left alone."""
    if path.exists() and path.read_bytes() == data:
        return
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_bytes(data)
    fresh.replace(path)


def _value(pod: Manifest, entry: Manifest, address: str, around: Surroundings) -> str:
    source = entry.get("valueFrom")
    if source is None:
        return str(entry.get("value", ""))
    if "secretKeyRef" in source:
        reference = source["secretKeyRef"]
        data = around.secrets[reference["name"]]
        if reference["key"] not in data:
            raise CannotLaunch(f"couldn't find key {reference['key']} in Secret {reference['name']}")
        return data[reference["key"]].decode()
    fields = {
        "status.podIP": address,
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"].get("uid", ""),
    }
    path = source.get("fieldRef", {}).get("fieldPath")
    if path in fields:
        return str(fields[path])
    raise CannotLaunch(f"environment variable {entry['name']}: {source} is not known here")


def _word(word: str, environment: Mapping[str, str], address: str, mounts: Mapping[str, str]) -> str:
    """One argument: references filled in, paths moved (in addresses of files too), and a listener on all
    addresses bound to the pod's own.
    """
    word = _REFERENCE.sub(lambda match: environment.get(match[1], match[0]), word)
    word = _LISTEN.sub(rf"\g<1>{address}:\g<2>", word)
    for path in sorted(mounts, key=len, reverse=True):
        moved = re.sub(rf"(?:(?<==)|(?<=:///)|^){re.escape(path)}(?=/|$)", mounts[path], word)
        if moved != word:
            return moved
    return word


def _check(pod: Manifest, probe: Manifest | None, address: str) -> Check | None:
    if probe is None:
        return None
    if "httpGet" in probe:
        url = f"http://{address}:{port_of(pod, probe['httpGet']['port'])}{probe['httpGet']['path']}"
    elif "tcpSocket" in probe:
        url = f"tcp://{address}:{port_of(pod, probe['tcpSocket']['port'])}"
    else:
        return None
    return Check(url, float(probe.get("periodSeconds", 10)), int(probe.get("failureThreshold", 3)))
