"""Where the programs of a real control plane are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from kai_local.errors import ClusterError
from kai_local.processes import homes

#: The build that has a program; ``make controlplane`` builds it from the module of the same name.
BUILDS: Mapping[str, tuple[str, str]] = {
    "etcd": ("etcd", "v3.6.7"),
    "kube-apiserver": ("kubernetes", "v1.36.3"),
    "kube-controller-manager": ("kubernetes", "v1.36.3"),
    "kwok": ("kwok", "v0.7.0"),
    "helm": ("helm", "v3.21.4"),
    "kube-scheduler": ("kubernetes", "v1.36.3"),
    "kubelet": ("kubernetes", "v1.36.3"),
    "kube-proxy": ("kubernetes", "v1.36.3"),
    "containerd": ("containerd", "v2.2.1"),
    "containerd-shim-runc-v2": ("containerd", "v2.2.1"),
    "ctr": ("containerd", "v2.2.1"),
    "coredns": ("coredns", "v1.14.7"),
    "pause": ("pause", "v1.0.0"),
}
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "helm")
#: What real kubelets need beside it; built by ``make controlplane PROGRAMS=nodes``.
NODES = (
    *("kube-scheduler", "kubelet", "kube-proxy", "coredns"),
    *("containerd", "containerd-shim-runc-v2", "ctr", "pause"),
)


class BinariesMissing(ClusterError):
    """Programs were found nowhere; says which and where was looked."""


def cache_root(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this user's builds, outside of any checkout."""
    return homes.folder("XDG_CACHE_HOME", ".cache", environment) / "kai" / "controlplane"


def built(program: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the build of a program is, or would be."""
    module, version = BUILDS[program]
    return cache_root(environment) / f"{module}-{version}" / program


def locate(program: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """A program in ``$KUBEBUILDER_ASSETS``, on the PATH, or among our builds, in this order."""
    folders = [environment.get("KUBEBUILDER_ASSETS", ""), environment.get("PATH", "")]
    for folder in filter(None, folders):
        if found := shutil.which(program, path=folder):
            return Path(found)
    cached = built(program, environment)
    return cached if os.access(cached, os.X_OK) else None


def find(
    programs: Sequence[str] = CONTROL_PLANE,
    environment: Mapping[str, str] = os.environ,
    *,
    who: str = "a real control plane",
    target: str = "make controlplane",
) -> dict[str, Path]:
    """All of these programs, which ``who`` needs and ``target`` builds.

    Raises:
        BinariesMissing: at least one is nowhere.
    """
    found = {program: locate(program, environment) for program in programs}
    missing = [program for program, path in found.items() if path is None]
    if missing:
        raise BinariesMissing(
            f"{who} needs {', '.join(missing)}: found neither in $KUBEBUILDER_ASSETS, nor on "
            f"the PATH, nor in {cache_root(environment)}; `{target}` builds them where there is Go"
        )
    return {program: path for program, path in found.items() if path is not None}
