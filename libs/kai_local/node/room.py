"""The room of a node: a mount namespace and a network namespace, held by a process that does nothing else.

What kubelet, containerd and their like keep at well-known paths is there each node's own. When the process
that holds the room and those in it are gone, the kernel takes down all mounts, interfaces and rules of it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kai_local.processes.probes import Probe
from kai_local.processes.programs import Program

#: Folders of a node that are kept on disk, and where they are seen in its room. Images and containers are in
#: memory: tens of thousands of files, which some disks take minutes to remove.
_KEPT: Final = {"kubelet": "/var/lib/kubelet", "log": "/var/log"}
#: What a kubelet wants of the kernel and would set for the whole machine. In its room it finds it so.
_TUNED: Final = {
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
#: A process joins the cgroup by which it is found, and becomes what it is to be.
_JOIN: Final = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True, slots=True)
class Room:
    """The room of the node ``name``, whose files are in ``folder``.

    ``members``: the file by which processes join those of the cluster.
    """

    name: str
    folder: Path
    members: Path

    def holder(self) -> Program:
        """What holds the namespaces."""
        command = ("unshare", "--mount", "--net", "--propagation=private", "sleep", "infinity")
        return Program(self.name, self._counted(*command), is_final=lambda status: True)

    def furnish(self) -> str:
        """The script that makes the mounts, to be run inside."""
        tuned = self.folder / "tuned"
        tuned.mkdir(parents=True)
        lines = ["mount --make-rshared /"]  # a volume's mount has to reach the containers that run already
        lines += [f"mount --types tmpfs --options mode=755 tmpfs {path}" for path in ("/run", "/var/lib")]
        for kept, seen in _KEPT.items():
            (self.folder / kept).mkdir()
            lines += [f"mkdir -p {seen}", f"mount --bind {shlex.quote(str(self.folder / kept))} {seen}"]
        for setting, value in _TUNED.items():
            file = tuned / setting.replace("/", ".")
            file.write_text(f"{value}\n")
            lines.append(f"mount --bind {shlex.quote(str(file))} /proc/sys/{setting}")
        return "\n".join(lines)

    def inside(self, pid: int, *command: str) -> tuple[str, ...]:
        """``command``, to be run in the room that the process ``pid`` holds."""
        return self._counted("nsenter", f"--target={pid}", "--mount", "--net", "--", *command)

    def _counted(self, *command: str) -> tuple[str, ...]:
        return "sh", "-c", _JOIN, str(self.members), *command


def held_by(pid: int) -> Probe:
    """Ready when the process has namespaces of its own."""
    own, its = Path("/proc/self/ns"), Path(f"/proc/{pid}/ns")

    async def ask() -> bool:
        try:
            return all((its / kind).readlink() != (own / kind).readlink() for kind in ("mnt", "net"))
        except OSError:
            return False

    return ask
