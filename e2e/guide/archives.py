"""The images of the guide, built without a daemon, as archives that nodes load."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e import debian
from e2e.images import base, packages
from e2e.images.buildah import Buildah
from e2e.images.claims import ROOT

_BUILD_SECONDS: Final = 1200.0
_OF_NO_IMAGE: Final = {"tests", "__pycache__", "node_modules"}


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its name, the folder with its Dockerfile, and what of that folder it is made of."""

    name: str
    context: Path
    sources: tuple[str, ...]
    options: tuple[str, ...] = ()

    def files(self) -> Iterator[Path]:
        """All that the image is made of, in order."""
        for source in sorted(self.sources):
            path = self.context / source
            found = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (each for each in found if each.is_file() and _OF_NO_IMAGE.isdisjoint(each.parts))


SERVICES: Final = Image(
    "localhost/kai-scheduler:dev",
    ROOT,
    (
        *(
            "Dockerfile",
            "LICENSE",
            "README.md",
            "libs/kai",
            "pyproject.toml",
            "sbom.py",
            "services",
            "slim.py",
        ),
        *("requirements-image.lock", "requirements-sbom.lock"),
    ),
    ("--target=services",),
)
MODEL: Final = Image(
    "docker.io/vllm/vllm-openai:latest", Path(__file__).parent / "model", ("Dockerfile", "vllm")
)


@dataclass(frozen=True, slots=True)
class Built:
    """An image as it is loaded, its layers compressed."""

    name: str
    archive: Path

    @property
    def mebibytes(self) -> float:
        """Of the archive."""
        return self.archive.stat().st_size / 2**20

    @property
    def unpacked_mebibytes(self) -> float:
        """Of what is in it, on a disk."""
        return float(_beside(self.archive).read_text())


def build() -> Iterator[Built]:
    """Build them, unless there are archives of the same sources.

    Raises:
        debian.Unavailable: what builds them cannot be had here.
        BuildFailed: one cannot be built.
    """
    buildah = Buildah(debian.kept("images"))
    for image in (SERVICES, MODEL):
        folder = buildah.folder / "archives" / image.name.replace("/", "_").replace(":", "_")
        archive = folder / f"{_digest(image)}.tar"
        if not (archive.exists() and _beside(archive).exists()):
            base.make(buildah)
            _build(buildah, image)
            _write(buildah, image.name, archive)
        yield Built(image.name, archive)


def _digest(image: Image) -> str:
    """What tells these sources from any others."""
    told = hashlib.sha256(base.IMAGE.encode())
    for file in image.files():
        told.update(f"{file.relative_to(image.context)} {file.stat().st_size}\n".encode())
        told.update(file.read_bytes())
    return told.hexdigest()


def _build(buildah: Buildah, image: Image) -> None:
    with packages.home() as home:
        buildah.build(
            image.name, image.context, f"--build-arg=BASE_IMAGE={base.IMAGE}", *image.options,
            home=home, seconds=_BUILD_SECONDS,
        )  # fmt: skip


def _write(buildah: Buildah, image: str, archive: Path) -> None:
    """Write the archive, in place of those of other sources."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(".fresh")
    fresh.unlink(missing_ok=True)
    buildah.push(image, fresh, seconds=_BUILD_SECONDS)
    for other in (*archive.parent.glob("*.tar"), *archive.parent.glob("*.size")):
        other.unlink()
    _beside(archive).write_text(f"{buildah.mebibytes(image):.1f}\n")
    fresh.replace(archive)


def _beside(archive: Path) -> Path:
    """The file that says how large an archive is, unpacked."""
    return archive.with_suffix(".size")
