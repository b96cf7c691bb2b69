"""What a machine must have before it can have real nodes, told at once and by name."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from kai_local.errors import ClusterError
from kai_local.node import cgroups
from kai_local.node.commands import run

#: Programs of the system, and the Debian package that has each.
PROGRAMS: Final[Mapping[str, str]] = {
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "runc": "runc",
    "cc": "gcc libc6-dev",
}
CNI_PACKAGE: Final = "containernetworking-plugins"
_CNI_FOLDERS: Final = ("/usr/lib/cni", "/opt/cni/bin")
_CNI_PLUGINS: Final = ("bridge", "host-local", "loopback", "portmap")
_CONTROLLERS: Final = ("cpu", "cpuset", "memory", "pids")
#: They are a node's own, so what is below them on the machine cannot be seen from within.
HIDDEN: Final = ("/run", "/var/run", "/var/lib", "/var/log")
#: What each node does, tried where it harms nobody.
_TRIAL: Final = """
ip link add kai0 type bridge
ip link add kai1 type veth peer name kai2
iptables --wait --table nat --list-rules > /dev/null
mount --types tmpfs tmpfs /run
"""


class MachineLacks(ClusterError):
    """Something is missing; the message names all of it, each with what to do."""


def require(directory: Path) -> None:
    """See that nodes can run here, whose files are to be in ``directory``.

    Raises:
        MachineLacks: they cannot.
    """
    if lacking := list(_lacking(directory)):
        raise MachineLacks("real kubelets cannot run here:\n" + "\n".join(f"  {line}" for line in lacking))


def cni_folder() -> Path | None:
    """Where the machine has the plugins that give pods their network."""
    for folder in map(Path, _CNI_FOLDERS):
        if all((folder / plugin).exists() for plugin in _CNI_PLUGINS):
            return folder
    return None


def _lacking(directory: Path) -> Iterator[str]:
    if sys.platform != "linux":
        yield "this is not Linux: without --kubelets all nodes are simulated, on any system"
        return
    if os.geteuid() != 0:
        yield "containers, mounts and interfaces are made by root: run as root"
        return
    packages = {package: name for name, package in PROGRAMS.items() if shutil.which(name) is None}
    if cni_folder() is None:
        packages[CNI_PACKAGE] = f"the CNI plugins {', '.join(_CNI_PLUGINS)} in {' or '.join(_CNI_FOLDERS)}"
    for package, what in packages.items():
        yield f"there is no {what}: apt-get install {package}"
    if below := next((path for path in HIDDEN if directory.is_relative_to(path)), None):
        yield f"{directory} is below {below}, which each node has for itself: set XDG_STATE_HOME elsewhere"
    yield from _lacking_cgroups()
    if not packages:
        try:
            run("unshare", "--mount", "--net", "sh", "-ec", _TRIAL)
        except ClusterError as error:
            yield f"namespaces with a network of their own cannot be had: {error}"


def _lacking_cgroups() -> Iterator[str]:
    if not cgroups.ROOT.is_dir():
        yield f"there is no {cgroups.ROOT}: mount the cgroup file systems"
        return
    unified = cgroups.ROOT / "cgroup.controllers"
    there = (
        unified.read_text().split() if unified.exists() else [path.name for path in cgroups.ROOT.iterdir()]
    )
    if missing := [controller for controller in _CONTROLLERS if controller not in there]:
        yield f"{cgroups.ROOT} has no {', '.join(missing)}: mount them, or run outside a container"
    if refusing := [str(path) for path in cgroups.hierarchies() if not os.access(path, os.W_OK)]:
        yield f"{', '.join(refusing)} cannot be written: run outside a container, or in a privileged one"
