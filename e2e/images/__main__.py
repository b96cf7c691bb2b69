"""``python -m e2e.images``: build both images without a daemon, and ask of them what the documentation says.

Status 0 if all holds, 1 if not, 3 where they cannot be built on this machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from e2e import debian
from e2e.images import base, packages
from e2e.images.buildah import Buildah, BuildFailed
from e2e.images.claims import CLAIMS, ROOT, Broken, Subject

_BUILD_SECONDS: Final = 1200.0
#: A build makes some 40, most of them again when packages change: 8 GiB or so.
_KEPT_LAYERS: Final = 160
_OK, _BROKEN, _UNAVAILABLE = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Image:
    """One target of the Dockerfile."""

    name: str
    target: str
    lock: str
    boxed: bool = False


IMAGES: Final = (
    Image("localhost/kai-scheduler:dev", "services", "requirements-image.lock"),
    Image("localhost/kai-scheduler-local:dev", "local", "requirements-local.lock", boxed=True),
)


def main() -> int:
    """Build, ask, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m e2e.images")
    parser.add_argument("--out", type=Path, help="also write them there, as archives that containerd imports")
    parser.add_argument("--base", action="store_true", help="only see that images can be built and run here")
    given = parser.parse_args()
    try:
        buildah = Buildah(debian.kept("images"))
        with _timed("base"):
            base.make(buildah)
        return _OK if given.base else _built(buildah, given.out)
    except debian.Unavailable as error:
        sys.stderr.write(f"images cannot be built here: {error}\n")
        return _UNAVAILABLE
    except BuildFailed as error:
        sys.stderr.write(f"{error}\n")
        return _BROKEN


def _built(buildah: Buildah, out: Path | None) -> int:
    buildah.forget_layers(beyond=_KEPT_LAYERS)
    for image in IMAGES:
        with _timed(image.name), packages.home() as home:
            buildah.build(
                image.name, ROOT, f"--build-arg=BASE_IMAGE={base.IMAGE}", f"--target={image.target}",
                home=home, seconds=_BUILD_SECONDS,
            )  # fmt: skip
    rows = [row for image in IMAGES for row in _asked(buildah, image)]
    _show(rows)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for image in IMAGES:
            archive = out / f"{image.name.split('/')[1].split(':')[0]}.tar"
            archive.unlink(missing_ok=True)
            buildah.push(image.name, archive, seconds=_BUILD_SECONDS)
            sys.stdout.write(f"{archive}\n")
    return _OK if all(row.holds for row in rows) else _BROKEN


@contextmanager
def _timed(what: str) -> Iterator[None]:
    sys.stdout.write(f"{what}: ")
    sys.stdout.flush()
    began = time.monotonic()
    yield
    sys.stdout.write(f"{time.monotonic() - began:.0f} s\n")


@dataclass(frozen=True, slots=True)
class _Row:
    image: str
    claim: str
    holds: bool
    seen: str


def _asked(buildah: Buildah, image: Image) -> Iterator[_Row]:
    container = buildah.container(image.name)
    subject = Subject(buildah, image.name, container, image.lock, image.boxed)
    try:
        for claim in CLAIMS:
            if claim.boxed and not image.boxed:
                continue
            try:
                yield _Row(image.name, claim.text, holds=True, seen=claim.ask(subject))
            except Broken as error:
                yield _Row(image.name, claim.text, holds=False, seen=str(error))
    finally:
        buildah.call("rm", container)


def _show(rows: Sequence[_Row]) -> None:
    table = Table("image", "what holds", "", "seen")
    for row in rows:
        table.add_row(row.image, row.claim, "yes" if row.holds else "NO", row.seen)
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
