"""Buildah: images are built, looked into and run without a daemon, in a store of our own."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e import debian
from kai_local.processes.slowness import slowness

#: Nothing is pulled, so nobody's signature is asked for.
_POLICY: Final = {"default": [{"type": "insecureAcceptAnything"}]}
_LAST_LINES: Final = 30
_PRUNE_SECONDS: Final = 600.0


class BuildFailed(Exception):
    """A command of Buildah failed; the message has its last lines."""


class Buildah:
    """One store of images, in a folder.

    Containers have no network of their own and see the whole file system of their image (``chroot``), which
    needs no runtime for containers, and root. Several processes may build in it at a time.
    """

    def __init__(self, folder: Path) -> None:
        """Find the program, or install Debian's.

        Raises:
            debian.Unavailable: it cannot be had here.
        """
        if os.geteuid() != 0:
            raise debian.Unavailable("images are built by root: the files in them belong to several users")
        self._program = debian.installed("buildah")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "policy.json").write_text(json.dumps(_POLICY))
        (folder / "registries.conf").write_text("")
        #: Held by whoever uses the store, until his process ends; alone by who clears it away.
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def call(self, command: str, *arguments: str, seconds: float = 120.0, text: str = "") -> str:
        """What a command printed; ``text`` is its input.

        Raises:
            BuildFailed: it failed, or was not done within ``seconds`` of a quick machine that is idle.
        """
        patience = seconds * slowness()
        store = (
            f"--root={self.folder / 'storage'}", f"--runroot={self.folder / 'run'}",
            "--storage-driver=overlay", f"--registries-conf={self.folder / 'registries.conf'}",
        )  # fmt: skip
        try:
            done = subprocess.run(
                [str(self._program), *store, command, *arguments],
                input=text,
                capture_output=True,
                text=True,
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildFailed(f"buildah {command}: no end within {patience:.0f} s") from error
        if done.returncode != 0:
            said = "\n".join(f"{done.stdout}\n{done.stderr}".strip().splitlines()[-_LAST_LINES:])
            raise BuildFailed(f"buildah {command} ended with status {done.returncode}:\n{said}")
        return done.stdout

    def has(self, image: str) -> bool:
        """Whether there is an image of this name."""
        return any(image in (each.get("names") or ()) for each in self._images())

    def forget_layers(self, *, beyond: int) -> None:
        """Remove what earlier builds left, where that is more than so many layers: the next one begins anew.

        Fewer are kept, as they make the next build quick. While others use the store all are kept: layers
        of what is being built have no name, either.
        """
        found = json.loads(self.call("images", "--all", "--json") or "[]") or []
        if sum(not each.get("names") for each in found) <= beyond:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._lock, fcntl.LOCK_SH)  # who asks in vain holds it no more
            return
        self.call("rm", "--all")  # containers of builds that were cut off would keep their layers
        self.call("rmi", "--prune", seconds=_PRUNE_SECONDS)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def mebibytes(self, image: str) -> float:
        """What an image takes in the store, with all its layers."""
        container = self.container(image)
        try:
            root = self.call("mount", container).strip()
            done = subprocess.run(["du", "-sk", root], capture_output=True, text=True, check=True)
        finally:
            self.call("rm", container)
        return int(done.stdout.split()[0]) / 1024

    def settings(self, image: str) -> Mapping[str, Any]:
        """What an image says of how it is run: ``User``, ``Cmd``, ``Env`` and others."""
        found: Mapping[str, Any] = json.loads(self.call("inspect", "--type=image", image))
        config: Mapping[str, Any] = found["OCIv1"]["config"]
        return config

    def container(self, image: str) -> str:
        """Make a container of an image, to be removed with ``rm``; its name."""
        return self.call(
            "from", "--pull-never", f"--signature-policy={self.folder / 'policy.json'}", image
        ).strip()

    def run(
        self,
        container: str,
        *command: str,
        text: str = "",
        seconds: float = 60.0,
        home: Path | None = None,
    ) -> str:
        """What a command in a container printed, run as the user of its image.

        ``home`` is laid over the home of root.

        Raises:
            BuildFailed: it failed, or was not done within ``seconds``.
        """
        laid = () if home is None else (f"--volume={home}:/root:ro",)
        return self.call(
            "run", "--isolation=chroot", *laid, container, "--", *command, text=text, seconds=seconds
        )

    def build(self, image: str, context: Path, *options: str, home: Path, seconds: float) -> None:
        """Build an image from the Dockerfile of a folder; ``home`` is laid over the home of root.

        Raises:
            BuildFailed: it cannot be built, or not within ``seconds``.
        """
        self.call(
            "build", "--isolation=chroot", "--network=host", "--pull-never", "--format=oci", "--layers",
            f"--signature-policy={self.folder / 'policy.json'}", f"--volume={home}:/root:ro",
            f"--tag={image}", *options, str(context), seconds=seconds,
        )  # fmt: skip

    def push(self, image: str, archive: Path, *, seconds: float) -> None:
        """Write an image to a file that containerd imports.

        Raises:
            BuildFailed: it cannot be written, or not within ``seconds``.
        """
        policy = f"--signature-policy={self.folder / 'policy.json'}"
        self.call("push", policy, image, f"oci-archive:{archive}:{image}", seconds=seconds)

    def _images(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.call("images", "--json") or "[]") or []
        return found
