"""``python -m e2e.suites``: the end-to-end suites of the KAI Scheduler, on a cluster by our chart."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from e2e.harness import kai
from e2e.suites.run import NoSources, Suite, run, suites_in, table
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import NODES, QUEUES
from kai.model.objects import Node
from kai_local.kubelet.nodes import NodeShape, node_manifest, node_status
from kai_local.processes.ports import LOOPBACK

#: As the nodes that the suites are written for, and more of them: some topologies are of eight nodes.
_CLUSTER: Final = ("--nodes=8", "--gpus-per-node=8", "--gpu-memory=11441", "--cpus=16", "--memory=64Gi")
_LABELS: Final = {
    "nvidia.com/gpu.deploy.device-plugin": "true",
    "run.ai/simulated-gpu-node-pool": "default",
}


def main() -> int:
    """Status 0 if all that ran passed."""
    given = _arguments()
    try:
        names = suites_in(given.sources, given.suite)
    except NoSources as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    found: list[Suite] = []
    with _cluster(given.kubeconfig, given.out) as kubeconfig:
        for name in names:
            sys.stderr.write(f"{name} …\n")
            found.append(run(name, given.sources, kubeconfig, given.out, seconds=given.seconds))
    sys.stdout.write(f"{table(found)}\n")
    return 0 if all(each.well for each in found) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.suites")
    parser.add_argument("--sources", type=Path, required=True, help="a checkout of the KAI Scheduler")
    parser.add_argument(
        "--suite", action="append", default=[], help="those that begin so; repeatable; else all"
    )
    parser.add_argument("--kubeconfig", type=Path, help="this cluster, as it is, instead of one of our own")
    parser.add_argument(
        "--out", type=Path, default=Path("suites-report"), help="logs and reports; %(default)s"
    )
    parser.add_argument("--seconds", type=int, default=1800, help="for the specs of a suite; %(default)s")
    return parser.parse_args()


@contextlib.contextmanager
def _cluster(given: Path | None, out: Path) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    name, kubeconfig = f"suites-{uuid.uuid4().hex[:8]}", out / "kubeconfig"
    kai("local", "up", f"--name={name}", "--real", *_CLUSTER, f"--kubeconfig={kubeconfig}", "--detach")
    try:
        asyncio.run(_prepare(kubeconfig))
        yield kubeconfig
    finally:
        kai("local", "down", f"--name={name}")


async def _prepare(kubeconfig: Path) -> None:
    """The suites look for these labels and for a node without GPUs, and refuse a cluster with queues."""
    async with KubeClient.connect(str(kubeconfig), user_agent="suites") as client:
        for queue in await client.list(QUEUES):
            with contextlib.suppress(NotFound):
                await client.delete(QUEUES, queue["metadata"]["name"])
        for node in await client.list(NODES, type=Node):
            if "nvidia.com/gpu.count" in node.labels:
                await client.patch(NODES, node.metadata.name, {"metadata": {"labels": _LABELS}})
        manifest = node_manifest("without-gpus", NodeShape(gpus=0))
        manifest["status"] |= node_status("without-gpus", LOOPBACK, time.time())
        await client.create(NODES, manifest)


if __name__ == "__main__":
    sys.exit(main())
