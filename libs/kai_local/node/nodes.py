"""The real nodes of a cluster, brought up one after the other."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kai.model import names
from kai_local.kubelet.nodes import NodeShape, device_id, node_manifest
from kai_local.node import archive, cgroups, dns, kubelet, network, nvml, runtime
from kai_local.node.kubelet import Identity
from kai_local.node.marks import Marks
from kai_local.node.needs import cni_folder
from kai_local.node.room import Room, held_by
from kai_local.processes import probes
from kai_local.processes.programs import Program
from kai_local.processes.supervisor import Supervisor

_START_PATIENCE: Final = 60.0
_LEAN: Final = {"MALLOC_ARENA_MAX": "2"}
#: Of which each node has its own.
_KINDS: Final = ("kubelet", "device-plugin", "kube-proxy", "containerd", "room")


class Nodes:
    """As many real nodes as asked for, with stand-in GPUs. Their files are below ``directory``/nodes.

    ``programs``: where those are that nodes are made of.
    """

    def __init__(
        self, directory: Path, *, count: int, shape: NodeShape, programs: Mapping[str, Path]
    ) -> None:
        """Raises :class:`ClusterError` where no network is free."""
        self.names = [f"kubelet-{index}" for index in range(count)]
        self._marks = Marks.of(directory)
        self.network = network.free_network(self._marks)
        self._directory = directory
        self._folder = directory / "nodes"
        self._shape = shape
        self._programs = programs

    @property
    def program_names(self) -> list[str]:
        """Of all their programs, in the order in which they are to end."""
        return [f"{kind}-{index}" for kind in _KINDS for index in range(len(self.names))] + ["dns"]

    def identity(self, index: int, credentials: Path) -> Identity:
        """Of the n-th node; ``credentials`` is the folder of its keys."""
        name = self.names[index]
        return Identity(
            name=name,
            address=self.network.node(index),
            kubeconfig=credentials / f"{name}.kubeconfig",
            certificate=credentials / f"{name}.crt",
            key=credentials / f"{name}.key",
            authority=credentials / "ca.crt",
        )

    def prepare(self) -> None:
        """Make what they share on the machine: cgroups, the bridge, the library, the image of pauses.

        Raises:
            ClusterError: something cannot be made.
        """
        self._folder.mkdir(parents=True)
        cgroups.make(self._marks.cgroup, self.names)
        network.raise_bridge(self._marks, self.network, len(self.names))
        nvml.build(self._folder)
        archive.write(
            self._pause,
            image=runtime.PAUSE_IMAGE,
            program=self._programs["pause"],
            machine=os.uname().machine,
        )
        (self._folder / "resolv.conf").write_text("# Pods find names by the cluster's own server.\n")

    def names_server(self, credentials: Path) -> Program:
        """What tells addresses of Services and pods by name."""
        return dns.program(
            self._programs["coredns"],
            folder=self._folder,
            kubeconfig=credentials / "kubeconfig",
            address=self.network.gateway,
        )

    async def start(self, supervisor: Supervisor, credentials: Path, archives: Sequence[Path] = ()) -> None:
        """Start all nodes, whose stores have the images of ``archives``; returns when they are ready.

        Raises:
            ClusterError: the machine refuses something.
            ProcessFailed: a part does not start.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for index in range(len(self.names)):
                    tasks.create_task(self._start_one(supervisor, index, credentials, archives))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None  # one tells what is wrong with all
        command = (sys.executable, "-m", "kai_local.node.joined", str(credentials / "kubeconfig"))
        wanted = (str(len(self.names)), str(self._shape.gpus))
        await supervisor.run_to_end(Program("joined", (*command, *wanted)))

    @property
    def _pause(self) -> Path:
        return self._folder / "pause.tar"

    async def _start_one(
        self, supervisor: Supervisor, index: int, credentials: Path, archives: Sequence[Path]
    ) -> None:
        """1. its room  2. containerd with images  3. kubelet, device plugin and kube-proxy."""
        node = self.identity(index, credentials)
        folder = self._folder / node.name
        members = cgroups.members_file(self._marks.cgroup)
        room = Room(f"room-{index}", folder, members)
        pid = await self._open(supervisor, room, index)
        await self._start_containerd(supervisor, room, index, pid)
        for number, each in enumerate((self._pause, *archives)):
            command = runtime.import_command(self._programs["ctr"], each)
            await supervisor.run_to_end(Program(f"image-{index}-{number}", room.inside(pid, *command)))
        programs = self._programs_of(node, room, index, pid, credentials)
        for program in programs:
            supervisor.start(program)
        await supervisor.wait_ready([program.name for program in programs], _START_PATIENCE)

    async def _open(self, supervisor: Supervisor, room: Room, index: int) -> int:
        """Make the node's namespaces, with its mounts and its place in the network; who holds them."""
        script = "\n".join((room.furnish(), network.inside_script(self.network, index, len(self.names))))
        child = supervisor.start(room.holder())
        await supervisor.wait_ready([room.name], _START_PATIENCE)
        assert child.identity is not None, "it is ready"
        pid = child.identity.pid
        while not await held_by(pid)():  # noqa: ASYNC110 - another process, no event
            await asyncio.sleep(0.02)
        await asyncio.to_thread(network.plug_in, self._marks, index, pid)
        await supervisor.run_to_end(Program(f"furnish-{index}", room.inside(pid, "sh", "-exc", script)))
        return pid

    async def _start_containerd(self, supervisor: Supervisor, room: Room, index: int, pid: int) -> None:
        cni = cni_folder()
        assert cni is not None, "that it is there was seen before"
        configuration = runtime.write_configuration(
            room.folder, cni=cni, network=network.cni_configuration(self.network, index)
        )
        containerd = self._programs["containerd"]
        shims = self._programs["containerd-shim-runc-v2"].parent
        program = Program(
            f"containerd-{index}",
            room.inside(pid, str(containerd), f"--config={configuration}"),
            {"PATH": f"{shims}{os.pathsep}{os.environ['PATH']}"},
            ready=probes.file(Path(f"/proc/{pid}/root{runtime.SOCKET}")),
        )
        supervisor.start(program)
        await supervisor.wait_ready([program.name], _START_PATIENCE)

    def _programs_of(
        self, node: Identity, room: Room, index: int, pid: int, credentials: Path
    ) -> list[Program]:
        told = kubelet.kubelet_configuration(
            node,
            cgroup=f"{self._marks.cgroup}/{node.name}",
            dns=self.network.gateway,
            resolver=self._folder / "resolv.conf",
        )
        file = kubelet.write_yaml(room.folder / "kubelet.yaml", told)
        command = kubelet.kubelet_command(self._programs["kubelet"], node, file, self._labels(node.name))
        told = kubelet.proxy_configuration(
            node, kubeconfig=credentials / "kube-proxy.kubeconfig", pods=self.network.all_pods
        )
        proxy = kubelet.write_yaml(room.folder / "kube-proxy.yaml", told)
        unhealthy, broken = room.folder / "unhealthy", room.folder / "broken"
        unhealthy.mkdir()
        broken.mkdir()
        plugin = (
            *(sys.executable, "-m", "kai_local.node.device_plugin"),
            *(f"--unhealthy={unhealthy}", f"--broken={broken}", f"--library={self._folder / nvml.LIBRARY}"),
            *(device_id(node.name, names.NVIDIA_GPU, number) for number in range(self._shape.gpus)),
        )
        address = f"https://{node.address}:10250"
        return [
            Program(
                f"kubelet-{index}",
                room.inside(pid, *command),
                ready=kubelet.kubelet_ready(node),
                address=address,
            ),
            Program(
                f"kube-proxy-{index}",
                room.inside(pid, str(self._programs["kube-proxy"]), f"--config={proxy}"),
                ready=kubelet.proxy_ready(node),
            ),
            Program(f"device-plugin-{index}", room.inside(pid, *plugin), _LEAN),
        ]

    def _labels(self, name: str) -> dict[str, str]:
        """What the GPU operator tells of a node's devices."""
        labels = node_manifest(name, self._shape)["metadata"]["labels"]
        return {key: value for key, value in labels.items() if key.startswith("nvidia.com/")}
