"""An image of one program that needs nothing else, as an archive that containerd imports."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def write(archive: Path, *, image: str, program: Path, machine: str) -> None:
    """Write the image ``image``, in which ``program`` is run; ``machine`` as the kernel calls it."""
    name = f"/{program.name}"
    layer = _tar({name.lstrip("/"): program.read_bytes()}, mode=0o755)
    config = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Entrypoint": [name], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    blobs: dict[str, bytes] = {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _blob(blobs, _CONFIG, json.dumps(config).encode()),
        "layers": [_blob(blobs, _LAYER, layer)],
    }
    described = _blob(blobs, _MANIFEST, json.dumps(manifest).encode())
    described["annotations"] = {"io.containerd.image.name": image}
    index = {"schemaVersion": 2, "manifests": [described]}
    files = blobs | {
        "index.json": json.dumps(index).encode(),
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
    }
    archive.write_bytes(_tar(files, mode=0o644))


def _blob(blobs: dict[str, bytes], kind: str, content: bytes) -> dict[str, Any]:
    """Put a blob in, and describe it."""
    digest = hashlib.sha256(content).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = content
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
