"""``python -m kai_local.installation.chart OPTIONS``: have helm install the chart; wait until it is ready.

Nothing of the installation is told to the services in another way than by the chart: flags, environment,
certificates, accounts and roles are those of the manifests that helm has put into the cluster. What runs the
pods is :mod:`kai_local.machine`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kai_local.errors import ClusterError
from kai_local.processes.slowness import slowness
from kai_local.real import binaries

RELEASE, NAMESPACE = "kai-scheduler", "kai-scheduler"
_CHART = Path(__file__).resolve().parents[3] / "helm" / "kai-scheduler"
#: On a quick machine that is idle.
_HELM_PATIENCE = 180.0
_READY_PATIENCE = 120.0
_LOOK_EVERY = 0.2

Manifest = dict[str, Any]


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
        """The command that does it."""
        encoded = msgspec.json.encode(self, enc_hook=str).decode()
        return sys.executable, "-m", "kai_local.installation.chart", encoded


def find_helm() -> Path:
    """The helm that installs the chart.

    Raises:
        BinariesMissing: there is none.
    """
    return binaries.find(("helm",), who="an installation by the chart (--chart)")["helm"]


def chart_values(
    *, binders: int, flags: Mapping[str, Mapping[str, str]], autoscaling: bool = False, history: bool = False
) -> dict[str, Any]:
    """The values that a cluster in a box installs the chart with: parts of GPUs may be asked for.

    ``flags`` are more flags by service.
    """
    values: dict[str, dict[str, Any]] = {
        "global": {"gpuSharing": True, "clusterAutoscaling": autoscaling},
        "binder": {"replicas": binders},
        # Its pods run on this machine, and so long as the cluster does.
        "insight": {"enabled": history, "persistence": {"enabled": False}},
    }
    for service, added in flags.items():
        values.setdefault(service.replace("-", ""), {})["args"] = dict(added)
    return values


def installation(
    kubeconfig: Path,
    folder: Path,
    *,
    binders: int,
    flags: Mapping[str, Mapping[str, str]],
    autoscaling: bool = False,
    history: bool = False,
) -> Installation:
    """The chart as a cluster in a box needs it."""
    return Installation(
        helm=find_helm(),
        kubeconfig=kubeconfig,
        folder=folder,
        values=chart_values(binders=binders, flags=flags, autoscaling=autoscaling, history=history),
        ours=[f"--{flag}={value}" for added in flags.values() for flag, value in added.items()],
    )


def main() -> None:
    """Do it; what fails is told, with status 1."""
    from kai.kube.errors import KubeError

    installation = msgspec.json.decode(sys.argv[1], type=Installation, dec_hook=lambda kind, v: kind(v))
    try:
        asyncio.run(_install(installation))
    except (ClusterError, KubeError) as error:
        sys.exit(str(error))


async def _install(installation: Installation) -> None:
    from kai.kube.client import KubeClient

    installation.folder.mkdir(exist_ok=True, mode=0o700)
    await asyncio.to_thread(_helm, installation)
    connection = KubeClient.connect(str(installation.kubeconfig), user_agent="kai-local", wait=30)
    async with connection as client:
        await _until_ready(client)


def _helm(installation: Installation) -> None:
    """``helm install``. It does not wait: it would look once in two seconds."""
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
    patience = _HELM_PATIENCE * slowness()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        raise ClusterError(f"helm did not install the chart within {patience:.0f} s") from None
    if done.returncode != 0:
        raise ClusterError(f"helm does not install the chart: {done.stderr.strip()}")


async def _until_ready(client: Any) -> None:
    """Return when Config and all shards say that they are, and all pods of all Deployments are ready.

    Raises:
        ClusterError: some are not in time; says which, and what their status says.
    """
    began = time.monotonic()
    while late := await _late(client):
        waited = time.monotonic() - began
        if waited > _READY_PATIENCE * slowness():
            names = ", ".join(late)
            raise ClusterError(f"not ready after {waited:.0f} s: {names}\n{await _states(client)}")
        await asyncio.sleep(_LOOK_EVERY)


async def _late(client: Any) -> list[str]:
    """What is not ready, by name, with what it says of that."""
    from kai.kube.resources import CONFIGS, DEPLOYMENTS, SCHEDULING_SHARDS

    late = [
        f"{resource.kind} {owner['metadata']['name']}{why and f' ({why})'}"
        for resource in (CONFIGS, SCHEDULING_SHARDS)
        for owner in await client.list(resource)
        if (why := _missing(owner)) is not None
    ]
    deployments = await client.list(DEPLOYMENTS, namespace=NAMESPACE)
    return late + [one["metadata"]["name"] for one in deployments if not _is_ready(one)]


def _missing(owner: Manifest) -> str | None:
    """What keeps a Config or a shard from being ready, as far as it says so; None if it is."""
    conditions = (owner.get("status") or {}).get("conditions") or ()
    told: Manifest = next((one for one in conditions if one["type"] == "Ready"), {})
    if told.get("observedGeneration") != owner["metadata"].get("generation"):
        return ""
    return None if told.get("status") == "True" else str(told.get("message", ""))


def _is_ready(deployment: Manifest) -> bool:
    status = deployment.get("status") or {}
    observed = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)
    wanted = int(deployment["spec"].get("replicas", 1))
    return observed and int(status.get("readyReplicas", 0)) >= wanted


async def _states(client: Any) -> str:
    """A line for each pod."""
    from kai.kube.resources import PODS

    lines = []
    for pod in await client.list(PODS, namespace=NAMESPACE):
        states = [one.get("state") for one in (pod.get("status") or {}).get("containerStatuses") or ()]
        lines.append(f"  {pod['metadata']['name']}: {states or pod['status'].get('phase')}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
