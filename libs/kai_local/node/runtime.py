"""containerd of a node, and the images in its store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

#: Where it listens, in the room of its node.
SOCKET: Final = "/run/containerd/containerd.sock"
#: The containers of pods, and their images.
_NAMESPACE: Final = "k8s.io"
PAUSE_IMAGE: Final = "localhost/kai-local/pause:1"
#: What a RuntimeClass may name. Both lead to runc: without devices nothing has to be handed to anybody.
HANDLERS: Final = ("runc", "nvidia")

# restrict_oom_score_adj: a machine may not let us make a process less likely to be killed.
_CONFIGURATION = """\
version = 3
imports = []
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = {socket}

[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = {pause}

[plugins."io.containerd.cri.v1.images".registry]
config_path = {registries}

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{cni}]
conf_dir = {networks}
"""
_HANDLER = """
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}]
runtime_type = "io.containerd.runc.v2"
"""


def write_configuration(folder: Path, *, cni: Path, network: str) -> Path:
    """Write what containerd of the node in ``folder`` is told; the file.

    ``cni``: where the plugins for networks are; ``network``: what they are told.
    """
    networks = folder / "networks"
    networks.mkdir()
    (networks / "10-kai.conflist").write_text(network)
    text = _CONFIGURATION.format(
        socket=json.dumps(SOCKET),
        pause=json.dumps(PAUSE_IMAGE),
        registries=json.dumps(str(folder / "registries")),
        cni=json.dumps(str(cni)),
        networks=json.dumps(str(networks)),
    )
    file = folder / "containerd.toml"
    file.write_text(text + "".join(_HANDLER.format(name=name) for name in HANDLERS))
    return file


def import_command(ctr: Path, archive: Path) -> tuple[str, ...]:
    """Put the images of an archive into the store, which keeps them unpacked only."""
    told = ("images", "import", "--local", "--discard-unpacked-layers", str(archive))
    return str(ctr), f"--address={SOCKET}", f"--namespace={_NAMESPACE}", *told


def list_command(ctr: Path) -> tuple[str, ...]:
    """List the images of the store."""
    return str(ctr), f"--address={SOCKET}", f"--namespace={_NAMESPACE}", "images", "list"
