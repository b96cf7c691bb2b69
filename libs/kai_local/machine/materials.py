"""What a pod's process needs of the cluster before it can start."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Resource
from kai_local.machine.launch import CannotLaunch, Launch, Manifest, Surroundings, references
from kai_local.processes.ports import LOOPBACK, free_ports

#: As long as the certificates of the cluster: nobody renews what is written once, at the start of a process.
_TOKEN_SECONDS = 3650 * 24 * 3600
_PYTHON = "python"
_REDIS = "kai.session"
_SCHEDULER = "kai_scheduler"


async def surroundings(
    client: KubeClient, pod: Manifest, *, addresses: Mapping[str, str], ours: frozenset[str]
) -> Surroundings:
    """The Secrets and ConfigMaps that a pod refers to, as they are now.

    Raises:
        CannotLaunch: one does not exist.
    """
    namespace = pod["metadata"]["namespace"]
    secrets, config_maps = references(pod)
    return Surroundings(
        namespace=namespace,
        secrets={
            name: {k: base64.b64decode(v) for k, v in (found.get("data") or {}).items()}
            for name in secrets
            for found in [await _get(client, SECRETS, namespace, name)]
        },
        config_maps={
            name: {k: v.encode() for k, v in (found.get("data") or {}).items()}
            for name in config_maps
            for found in [await _get(client, CONFIG_MAPS, namespace, name)]
        },
        addresses=addresses,
        ours=ours,
    )


async def write_kubeconfig(client: KubeClient, pod: Manifest, admin: Path, folder: Path) -> Path:
    """A kubeconfig with a token of the pod's service account, as the pod would have one.

    Raises:
        CannotLaunch: there is no such account.
    """
    namespace = pod["metadata"]["namespace"]
    account = pod["spec"].get("serviceAccountName") or "default"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS},
    }
    try:
        answer = await client.create_subresource(
            SERVICE_ACCOUNTS, account, "token", request, namespace=namespace
        )
    except NotFound as error:
        raise CannotLaunch(f'serviceaccount "{account}" not found') from error
    config = yaml.safe_load(admin.read_text())  # noqa: ASYNC240 - a local file
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    config["contexts"][0]["context"]["namespace"] = namespace
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


def at_home(one: Launch, kubeconfig: Path | None, folder: Path) -> Launch:
    """What an image would bring: the interpreter; and the way to the API server.

    Raises:
        CannotLaunch: its program is none of ours.
    """
    command, debug_address = list(one.command), ""
    environment = one.environment | {"MALLOC_ARENA_MAX": "2", "TMPDIR": str(folder / "tmp")}
    if command[:2] != [_PYTHON, "-m"] or not command[2:3] or not _is_ours(command[2]):
        raise CannotLaunch(f"only programs of the chart run on this machine, not {' '.join(command[:3])!r}")
    command[0] = sys.executable
    #: Without an account's token there is none at all, and not that of whoever started the cluster.
    environment["KAI_KUBECONFIG"] = str(kubeconfig or folder / "no-kubeconfig")
    if _SCHEDULER in command:  # it serves snapshots on loopback, which a pod has to itself and we do not
        (port,) = free_ports(1)
        environment["KAI_PLUGIN_SERVER_PORT"] = str(port)
        debug_address = f"{LOOPBACK}:{port}"
    return replace(one, command=command, environment=environment, debug_address=debug_address)


def _is_ours(module: str) -> bool:
    return module.startswith("kai_") or module == _REDIS


async def _get(client: KubeClient, kind: Resource, namespace: str, name: str) -> Manifest:
    try:
        found: Manifest = await client.get(kind, name, namespace=namespace)
    except NotFound as error:
        raise CannotLaunch(f'{kind.kind.lower()} "{name}" not found') from error
    return found
