"""Real nodes for tests: whether this machine can have them, and what they have left on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from kai_local.box.state import ClusterFiles
from kai_local.errors import ClusterError
from kai_local.node import cgroups
from kai_local.node.commands import run
from kai_local.node.marks import Marks
from kai_local.real.plane import look_for_programs

#: Where kubelets and runtimes keep things of a whole machine.
_FOLDERS: Final = ("/var/lib", "/run", "/var/log", "/opt", "/etc", "/etc/cni/net.d", "/usr/libexec")
_SETTINGS: Final = (
    *(
        "kernel/panic",
        "kernel/panic_on_oops",
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/keys/root_maxkeys",
    ),
    *("net/ipv4/ip_forward", "net/netfilter/nf_conntrack_max", "net/bridge/bridge-nf-call-iptables"),
)
_NAMES: Final = ("kube", "containerd", "cni", "pods", "containers", "netns", "runc", "flexvolume")


def require(files: ClusterFiles) -> None:
    """Skip the test where the machine cannot have real nodes, and say what it lacks."""
    try:
        look_for_programs(files.directory, kubelets=1)
    except ClusterError as error:
        pytest.skip(str(error))


def traces(files: ClusterFiles) -> Mapping[str, Any]:
    """What there is on the machine of a cluster's nodes, and what nodes may have changed of it."""
    mark, here = Marks.of(files.directory).name, str(files.directory)
    return {
        "processes": [
            each.info for each in psutil.process_iter(["pid", "cmdline"]) if _belongs(each, mark, here)
        ],
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if here in line],
        "interfaces": sorted(path.name for path in Path("/sys/class/net").glob(f"{mark}*")),
        "cgroups": [str(root / mark) for root in cgroups.hierarchies() if (root / mark).exists()],
        "rules": [rule for rule in run("iptables-save").splitlines() if not rule.startswith(("#", ":"))],
        "routes": [route for route in run("ip", "route").splitlines() if mark in route],
        "settings": {
            name: file.read_text() for name in _SETTINGS if (file := Path("/proc/sys", name)).exists()
        },
        "folders": sorted(
            str(path)
            for folder in map(Path, _FOLDERS)
            if folder.is_dir()
            for path in folder.iterdir()
            if any(name in path.name for name in _NAMES)
        ),
        "files": sorted(map(str, files.directory.parent.glob(f"{files.name}*"))),
    }


def _belongs(process: psutil.Process, mark: str, here: str) -> bool:
    try:
        return here in " ".join(process.cmdline()) or mark in Path(f"/proc/{process.pid}/cgroup").read_text()
    except (psutil.Error, OSError):
        return False


def own_state(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str) -> ClusterFiles:
    """The files of a cluster that no other one has a part in."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return ClusterFiles.of(name, os.environ)
