"""The image that ours begin with: Debian and its Python, put together from packages."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from e2e import debian
from e2e.images import packages
from e2e.images.buildah import Buildah, BuildFailed

RELEASE: Final = "bookworm"
IMAGE: Final = f"localhost/kai-base:{RELEASE}"
#: What the Dockerfile asks of its base, beside the least that Debian is.
_PACKAGES: Final = "python3,python3-venv"
#: What the Dockerfile does first: an environment, and a package from the index.
_TRY: Final = "python3 -m venv /tmp/venv && /tmp/venv/bin/pip download --no-deps --dest /tmp/found pip"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS: Final = 600.0
#: What is of use to the package manager only.
_LEFT_OVER: Final = ("var/cache/apt", "var/lib/apt/lists", "var/log/apt", "var/cache/debconf")
_LAST_LINES: Final = 10


def make(buildah: Buildah) -> None:
    """Make the base, unless the store has it, and see that what the Dockerfile asks of it works.

    Raises:
        debian.Unavailable: what makes it cannot be had here.
        BuildFailed: it cannot be made.
    """
    if not buildah.has(IMAGE):
        _build(buildah)
    container = buildah.container(IMAGE)
    try:
        with packages.home() as home:
            buildah.run(container, "sh", "-c", _TRY, home=home)
    finally:
        buildah.call("rm", container)


def _build(buildah: Buildah) -> None:
    with tempfile.TemporaryDirectory(dir=buildah.folder) as folder:
        root = Path(folder) / "root"
        _debootstrap(root)
        for name in _LEFT_OVER:
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir(parents=True)
        container = buildah.call("from", "scratch").strip()
        try:
            buildah.call("copy", container, str(root), "/", seconds=_SECONDS)
            buildah.call("config", f"--env=PATH={_PATH}", container)
            buildah.call(
                "commit", f"--signature-policy={buildah.folder / 'policy.json'}", container, IMAGE,
                seconds=_SECONDS,
            )  # fmt: skip
        finally:
            buildah.call("rm", container)


def _debootstrap(root: Path) -> None:
    program = debian.installed("debootstrap")
    # It mounts /proc in there, and one that is cut off leaves it so: not for us, who remove the folder.
    command = ["unshare", "--mount", str(program), "--variant=minbase", f"--include={_PACKAGES}", RELEASE]
    command.append(str(root))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(f"debootstrap: no end within {_SECONDS:g} s") from error
    if done.returncode != 0:
        said = "\n".join(f"{done.stdout}\n{done.stderr}".strip().splitlines()[-_LAST_LINES:])
        raise BuildFailed(f"debootstrap ended with status {done.returncode}:\n{said}")
