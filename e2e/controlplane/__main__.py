"""``python -m e2e.controlplane [PROGRAM...]``: build what this machine lacks, once, outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from kai_local.real.binaries import BUILDS, CONTROL_PLANE, NODES, built, locate

_MODULES = Path(__file__).parent
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_VERSION = "k8s.io/component-base/version"
#: Where a program's main package is, and what the linker is told.
_PACKAGES = {
    "etcd": ".",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "helm": "helm.sh/helm/v3/cmd/helm",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "containerd": f"{_CONTAINERD}/containerd",
    "containerd-shim-runc-v2": f"{_CONTAINERD}/containerd-shim-runc-v2",
    "ctr": f"{_CONTAINERD}/ctr",
    "coredns": ".",
    "pause": ".",
}
#: What a module's programs are built without: each would need a library in C.
_TAGS = {"containerd": "no_btrfs,no_devmapper,no_zfs"}
#: All programs of nodes at once.
_GROUPS = {"nodes": NODES}


def main() -> int:
    """Build the programs named, or those of a control plane; ``nodes`` are those of real kubelets.

    The exit status is 1 when one is missing and cannot be built.
    """
    wanted = [program for named in sys.argv[1:] or CONTROL_PLANE for program in _GROUPS.get(named, (named,))]
    if unknown := [program for program in wanted if program not in BUILDS]:
        return _fail(f"unknown program {unknown[0]!r}; there are {', '.join((*BUILDS, *_GROUPS))}")
    missing = []
    for program in wanted:
        if found := locate(program):
            _say(f"{program}: {found}")
        else:
            missing.append(program)
    if missing and shutil.which("go") is None:
        return _fail(
            f"to build {', '.join(missing)} needs Go 1.26 or newer on the PATH; "
            "or name a folder that holds programs with KUBEBUILDER_ASSETS"
        )
    return next((status for program in missing if (status := _build(program))), 0)


def _build(program: str) -> int:
    """Build one program; it appears in the cache when it is complete."""
    module, version = BUILDS[program]
    target, began = built(program), time.monotonic()
    _say(f"{program}: building {module} {version}, some minutes on a small machine")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{program}.{os.getpid()}")
    flags = f"-s -w {_stamps(version)}" if module == "kubernetes" else "-s -w"
    command = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", flags]
    command += ["-tags", _TAGS[module]] if module in _TAGS else []
    result = subprocess.run(
        [*command, "-o", str(unfinished), _PACKAGES[program]],
        cwd=_MODULES / module,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        check=False,
    )
    if result.returncode != 0:
        unfinished.unlink(missing_ok=True)
        return _fail(f"{program} could not be built; see above")
    unfinished.replace(target)
    _say(f"{program}: {target} ({time.monotonic() - began:.0f} s)")
    return 0


def _stamps(version: str) -> str:
    """Without them Kubernetes would say v0.0.0 of itself."""
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X {_VERSION}.{key}={value}" for key, value in stamps.items())


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _fail(text: str) -> int:
    sys.stderr.write(f"controlplane: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
