"""The main job in one command: a cluster in a box, real manifests, and what becomes of them.

Exit status 0 only if every step came out as told. The cluster is ended in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import NotFound
from kai.kube.resources import EVENTS, NODES, POD_GROUPS, PODS, QUEUES
from kai.model.objects import Node, Pod, PodGroup, Queue
from kai_cli.connection import Target
from kai_cli.looking.server import serving

from .screen import Screen
from .story import MANIFESTS, STORY, Step
from .world import World

KAI = (sys.executable, "-m", "kai_cli")


@dataclass(slots=True, kw_only=True)
class Options:
    """What the cluster looks like, and how long a step may take."""

    name: str
    nodes: int
    gpus_per_node: int
    binders: int
    patience: float
    real: bool = False
    #: Whether the page is served over it, which waits at the end.
    page: bool = False
    arguments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.arguments = (
            f"--nodes={self.nodes}", f"--gpus-per-node={self.gpus_per_node}", f"--binders={self.binders}",
            *(["--real"] if self.real else []), *(["--history"] if self.page else []),
        )  # fmt: skip


def main(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the cluster.")] = 2,
    gpus_per_node: Annotated[int, typer.Option(min=1, help="GPUs of each node.")] = 8,
    binders: Annotated[int, typer.Option(min=1, help="Binder processes.")] = 1,
    name: Annotated[str, typer.Option(help="Name of the embedded cluster.")] = "demo",
    patience: Annotated[float, typer.Option(help="Seconds that a step may take.")] = 60.0,
    real: Annotated[
        bool, typer.Option("--real", help="On etcd, kube-apiserver and KWOK; see `make controlplane`.")
    ] = False,
    page: Annotated[
        bool, typer.Option("--ui", help="Serve the page over it, and wait at the end until Enter or Ctrl-C.")
    ] = False,
) -> None:
    """Start an embedded cluster, schedule real workloads on it, and say whether all went as told."""
    if nodes * gpus_per_node < 14:
        typer.echo("demo: the story needs 14 GPUs; give more --nodes or --gpus-per-node", err=True)
        raise typer.Exit(2)
    options = Options(
        name=name,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        binders=binders,
        patience=patience,
        real=real,
        page=page,
    )
    # Whoever starts this in the background has it ignore Ctrl-C, which is how it ends in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with Screen(STORY) as screen:
        try:
            raise typer.Exit(0 if asyncio.run(play(options, screen)) else 1)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


async def play(options: Options, screen: Screen) -> bool:
    """All steps in order; whether each came out as told. The first that does not ends the story."""
    with tempfile.TemporaryDirectory(prefix="kai-demo-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        screen.say(f"starting a cluster of {options.nodes} nodes with {options.gpus_per_node} GPUs each")
        with cluster(options, kubeconfig, screen):
            async with (
                KubeClient.connect(str(kubeconfig), user_agent="kai-demo") as client,
                page(options, client, kubeconfig, screen),
            ):
                for number, step in enumerate(STORY):
                    if not await take(step, number, client, kubeconfig, options, screen):
                        return False
                if options.page:
                    await until_enter(screen)
        screen.say("the cluster is gone again; nothing is left")
    return True


@contextlib.asynccontextmanager
async def page(options: Options, client: KubeClient, kubeconfig: Path, screen: Screen) -> AsyncIterator[None]:
    """The page over the cluster while the block runs, where it is wanted."""
    if not options.page:
        yield
        return
    async with serving(Target(kubeconfig=kubeconfig), client, port=0) as address:
        screen.say(f"the page is at {address} (the address works once)")
        yield


async def until_enter(screen: Screen) -> None:
    """Until somebody who looks has seen enough; nobody does where there is no terminal."""
    if not sys.stdin.isatty():
        return
    screen.say("look at the page as long as you like; Enter or Ctrl-C ends the cluster")
    loop, pressed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
    finally:
        loop.remove_reader(sys.stdin)
        sys.stdin.readline()


async def take(
    step: Step, number: int, client: KubeClient, kubeconfig: Path, options: Options, screen: Screen
) -> bool:
    """Apply a step's manifests and look until it came out as told, or patience ends."""
    screen.begin(number)
    began = time.monotonic()
    gpus = options.nodes * options.gpus_per_node
    for file in step.manifests:
        await apply(client, documents(file, gpus))
    while True:
        world = await look(client, str(kubeconfig))
        seen = await asyncio.to_thread(step.look, world)
        screen.show(number, seen, world, time.monotonic() - began)
        if seen.done or time.monotonic() - began > options.patience:
            break
        await asyncio.sleep(0.2)
    screen.end(number, seen, time.monotonic() - began)
    if seen.done:
        for file in step.remove:
            await remove(client, documents(file, gpus))
    return seen.done


def documents(file: str, gpus: int) -> list[dict[str, Any]]:
    """The manifests of a file; a gang meant to be too large is made so for clusters of any size."""
    found = [body for body in yaml.safe_load_all((MANIFESTS / file).read_text()) if body]
    if file == "4-gang-too-large.yaml":
        for body in found:
            size = max(body["spec"]["parallelism"], gpus + 4)
            body["spec"]["parallelism"] = body["spec"]["completions"] = size
            body["metadata"]["annotations"]["kai.scheduler/batch-min-member"] = str(size)
    return found


async def apply(client: KubeClient, bodies: list[dict[str, Any]]) -> None:
    """Server-side apply, as ``kubectl apply --server-side`` does it."""
    for body in bodies:
        resource = await client.discover(body["apiVersion"], body["kind"])
        assert resource is not None, f"the server does not know {body['apiVersion']} {body['kind']}"
        namespace = body["metadata"].get("namespace", "default") if resource.namespaced else ""
        await client.patch(
            resource,
            body["metadata"]["name"],
            body,
            namespace=namespace,
            kind=PatchKind.APPLY,
            field_manager="kai-demo",
        )


async def remove(client: KubeClient, bodies: list[dict[str, Any]]) -> None:
    """Delete what a file holds, with all that it owns."""
    for body in bodies:
        resource = await client.discover(body["apiVersion"], body["kind"])
        assert resource is not None
        namespace = body["metadata"].get("namespace", "default") if resource.namespaced else ""
        with contextlib.suppress(NotFound):
            await client.delete(
                resource, body["metadata"]["name"], namespace=namespace, propagation="Background"
            )


async def look(client: KubeClient, kubeconfig: str) -> World:
    """One look at everything the story speaks of."""
    nodes, pods, queues, groups, events = await asyncio.gather(
        client.list(NODES, type=Node),
        client.list(PODS, type=Pod),
        client.list(QUEUES, type=Queue),
        client.list(POD_GROUPS, type=PodGroup),
        client.list(EVENTS),
    )
    return World(kubeconfig, nodes, pods, queues, groups, events)


@contextlib.contextmanager
def cluster(options: Options, kubeconfig: Path, screen: Screen) -> Iterator[None]:
    """An embedded cluster with all six services while the block runs."""
    up = (*KAI, "local", "up", f"--name={options.name}", *options.arguments, f"--kubeconfig={kubeconfig}")
    started = subprocess.run([*up, "--detach"], capture_output=True, text=True, check=False)
    if started.returncode != 0:
        screen.say(started.stdout + started.stderr)
        raise typer.Exit(1)
    try:
        yield
    finally:
        screen.say("ending the cluster")
        subprocess.run(
            [*KAI, "local", "down", f"--name={options.name}"], check=False, stdout=subprocess.DEVNULL
        )


if __name__ == "__main__":
    typer.run(main)
