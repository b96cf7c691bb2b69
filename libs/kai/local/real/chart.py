"""``python -m kai.local.real.chart OPTIONS``: install the chart with helm, and say what its pods would run.

Nothing of the installation is told to the services in another way than by the chart: flags, environment,
certificates, accounts and roles are those of the manifests that helm has put into the cluster. What a node
would do for them (network, DNS, mounts) is in :mod:`kai.local.real.pods`.
"""

from __future__ import annotations

import asyncio
import base64
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kai.local import probes
from kai.local.ports import LOOPBACK, free_ports
from kai.local.processes import Program
from kai.local.real.pods import Launch, Manifest, Surroundings, launch, port_of
from kai.local.state import ClusterError

RELEASE, NAMESPACE = "kai-scheduler", "kai-scheduler"
_CHART = Path(__file__).resolve().parents[4] / "helm" / "kai-scheduler"
_TOKEN_SECONDS = 7 * 24 * 3600
_HELM_PATIENCE = 180.0
_REDIS = "redis-server"
_SCHEDULER = "kai_scheduler"


@dataclass(frozen=True, slots=True)
class Installation:
    """What to install: with which helm, where, with which values. Files go to ``folder``."""

    helm: Path
    kubeconfig: Path
    folder: Path
    values: dict[str, Any] = field(default_factory=dict)
    #: Arguments among them that name files of this machine.
    ours: list[str] = field(default_factory=list)

    def command_line(self) -> tuple[str, ...]:
        """The command that does it; it leaves ``launches.json`` in the folder."""
        encoded = msgspec.json.encode(self, enc_hook=str).decode()
        return sys.executable, "-m", "kai.local.real.chart", encoded

    def programs(self) -> list[Program]:
        """What it left, to be run."""
        launches = msgspec.json.decode((self.folder / "launches.json").read_bytes(), type=list[Launch])
        return [
            Program(
                one.name,
                tuple(one.command),
                one.environment,
                ready=probes.http(one.health) if one.health else None,
                address=one.health.removesuffix("/readyz") or one.address,
                debug_address=one.debug_address,
                stop_after=one.stop_after,
            )
            for one in launches
        ]


def main() -> None:
    """Do it; what fails is told in one line, with status 1."""
    from kai.kube.errors import KubeError

    installation = msgspec.json.decode(sys.argv[1], type=Installation, dec_hook=lambda kind, v: kind(v))
    try:
        launches = asyncio.run(_install(installation))
    except (ClusterError, KubeError) as error:
        sys.exit(str(error))
    (installation.folder / "launches.json").write_bytes(msgspec.json.encode(launches))


async def _install(installation: Installation) -> list[Launch]:
    from kai.kube.client import KubeClient

    installation.folder.mkdir(exist_ok=True, mode=0o700)
    await asyncio.to_thread(_helm, installation)
    connection = KubeClient.connect(str(installation.kubeconfig), user_agent="kai-local", wait=30)
    async with connection as client:
        return await _launches(client, installation)


def _helm(installation: Installation) -> None:
    """``helm install``. It does not wait: pods will not run, their processes do."""
    values = installation.folder / "values.yaml"
    values.write_text(yaml.safe_dump(installation.values))
    command = [
        str(installation.helm),
        "upgrade",
        "--install",
        RELEASE,
        str(_CHART),
        f"--namespace={NAMESPACE}",
        "--create-namespace",
        f"--kubeconfig={installation.kubeconfig}",
        f"--values={values}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_HELM_PATIENCE, check=False)
    if done.returncode != 0:
        raise ClusterError(f"helm does not install the chart: {done.stderr.strip()}")


async def _launches(client: Any, installation: Installation) -> list[Launch]:
    from kai.kube import resources
    from kai.kube.resources import Resource

    deployments_ = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
    secrets_ = Resource("", "v1", "secrets", "Secret", namespaced=True)
    deployments, secrets, config_maps = await asyncio.gather(
        client.list(deployments_, namespace=NAMESPACE),
        client.list(secrets_, namespace=NAMESPACE),
        client.list(resources.CONFIG_MAPS, namespace=NAMESPACE),
    )
    instances = [
        (f"{_short(deployment)}-{number + 1}" if count > 1 else _short(deployment), deployment)
        for deployment in deployments
        for count in [deployment["spec"].get("replicas", 1)]
        for number in range(count)
    ]
    network = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"  # noqa: S311
    addresses = {name: f"{network}.{number}" for number, (name, _) in enumerate(instances, start=1)}
    by_service = {d["metadata"]["name"]: addresses[name] for name, d in reversed(instances)}
    around = Surroundings(
        namespace=NAMESPACE,
        secrets={s["metadata"]["name"]: _decoded(s.get("data")) for s in secrets},
        config_maps={c["metadata"]["name"]: _encoded(c.get("data")) for c in config_maps},
        addresses=by_service,
        ours=frozenset(installation.ours),
    )
    kubeconfigs = {
        account: await _kubeconfig_of(client, installation, account)
        for account in {_account(d) for d in deployments}
    }
    await _route(client, {d["metadata"]["name"]: d for d in deployments}, by_service)
    found = []
    for name, deployment in instances:
        one = launch(deployment, name, addresses[name], installation.folder / name, around)
        found.append(_at_home(one, str(kubeconfigs[_account(deployment)]), installation.folder / name))
    return found


def _short(deployment: Manifest) -> str:
    """The name by which the process goes: that of the service, whatever the shard."""
    name = str(deployment["metadata"]["name"])
    return {"kai-scheduler-default": "scheduler", "kai-redis": "redis"}.get(name, name)


def _account(deployment: Manifest) -> str:
    return str(deployment["spec"]["template"]["spec"].get("serviceAccountName") or "default")


def _at_home(one: Launch, kubeconfig: str, folder: Path) -> Launch:
    """What an image and a kubelet would bring: interpreter, Redis, and the way to the API server."""
    command, debug_address = list(one.command), ""
    environment = one.environment | {"MALLOC_ARENA_MAX": "2"}
    if command[0] == _REDIS:
        from kai.session.server import find_redis_server

        command = [str(find_redis_server()), *command[1:], "--bind", one.address]
    else:
        command[0] = sys.executable
        environment |= {"KAI_KUBECONFIG": kubeconfig, "TMPDIR": str(folder / "tmp")}
        if "kai_scheduler" in command:  # it listens on loopback, which a pod has to itself and we do not
            environment["KAI_PLUGIN_SERVER_PORT"] = "0"
    if _SCHEDULER in command:
        (port,) = free_ports(1)
        environment |= {"KAI_PLUGIN_SERVER_PORT": str(port)}
        debug_address = f"{LOOPBACK}:{port}"
    return replace(one, command=command, environment=environment, debug_address=debug_address)


async def _kubeconfig_of(client: Any, installation: Installation, account: str) -> Path:
    """A kubeconfig with a token of the service account, as a pod of its has one."""
    from kai.kube import resources

    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS},
    }
    answer = await client.create_subresource(
        resources.SERVICE_ACCOUNTS, account, "token", request, namespace=NAMESPACE
    )
    config = yaml.safe_load(installation.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = installation.folder / f"{account}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


async def _route(client: Any, deployments: Mapping[str, Manifest], addresses: Mapping[str, str]) -> None:
    """Lead the API server to the webhooks, as the network of a cluster would: by an address for a Service."""
    from kai.kube import resources
    from kai.kube.resources import Resource

    services = Resource("", "v1", "services", "Service", namespaced=True)
    routed: set[str] = set()
    for kind in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
        for configuration in await client.list(kind):
            ours = False
            for webhook in configuration.get("webhooks") or ():
                reference = webhook["clientConfig"].get("service")
                if not reference or reference["namespace"] != NAMESPACE:
                    continue
                service = await client.get(services, reference["name"], namespace=NAMESPACE)
                port = next(p for p in service["spec"]["ports"] if p["port"] == reference.get("port", 443))
                reference["port"] = port_of(deployments[reference["name"]], port["targetPort"])
                routed.add(reference["name"])
                ours = True
            if ours:
                patch = {"webhooks": configuration["webhooks"]}
                await client.patch(kind, configuration["metadata"]["name"], patch)
    for name in routed:
        spec = {
            "type": "ExternalName",
            "externalName": addresses[name],
            "clusterIP": None,
            "clusterIPs": None,
        }
        await client.patch(services, name, {"spec": spec}, namespace=NAMESPACE)


def _decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (data or {}).items()}


def _encoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: value.encode() for key, value in (data or {}).items()}


if __name__ == "__main__":
    main()
