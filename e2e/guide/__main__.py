"""``python -m e2e.guide``: build the images, bring two real nodes up, and play the guide on them.

Status 0 if all came out as told and nothing is left; 1 if not; 3 where this machine cannot play it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from e2e import debian, real_nodes
from e2e.guide import archives, figures, keeper
from e2e.guide.site import Site
from e2e.guide.story import STORY, Step
from e2e.guide.trouble import TROUBLE
from e2e.images import base
from e2e.images.buildah import Buildah, BuildFailed
from kai.kube.client import KubeClient
from kai_local.box.state import ClusterFiles
from kai_local.errors import ClusterError
from kai_local.node import needs
from kai_local.real import binaries
from kai_local.real.plane import look_for_programs

_KAI: Final = (sys.executable, "-m", "kai_cli")
_NODES, _GPUS = 2, 2
_OK, _BROKEN, _UNAVAILABLE = 0, 1, 3


def main() -> int:
    """Play it, and tell each step as it is done."""
    parser = argparse.ArgumentParser(prog="python -m e2e.guide")
    parser.add_argument("--name", default="guide", help="of the cluster")
    parser.add_argument("--check", action="store_true", help="only see that it can be played here")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    files = ClusterFiles.of(given.name)
    try:
        _prepare(files)
        if given.check:
            base.make(Buildah(debian.kept("images")))
            return _OK
        began = time.monotonic()
        images = _images()
        _down(files.name)  # what is left where even the end of an earlier one was cut short
        before = real_nodes.traces(files)
        told = _play(files, images)
        after = real_nodes.traces(files)
    except (debian.Unavailable, ClusterError) as error:
        sys.stderr.write(f"the guide cannot be played here: {error}\n")
        return _UNAVAILABLE
    except (AssertionError, BuildFailed, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return _BROKEN
    except KeyboardInterrupt:
        return 130
    if left := [what for what in before if before[what] != after[what]]:
        sys.stderr.write("".join(f"left on the machine: {what} {after[what]}\n" for what in left))
        return _BROKEN
    took = f"{time.monotonic() - began:.0f} s, at a load of {os.getloadavg()[1]:.1f}"
    _say(f"{'as the guide says, and nothing is left' if told else 'NOT AS TOLD'}  ({took})")
    return _OK if told else _BROKEN


def _prepare(files: ClusterFiles) -> None:
    """Install what Debian has of what nodes need, and see that all is there.

    Raises:
        debian.Unavailable: Debian's cannot be had.
        ClusterError: something else is missing.
    """
    for program in ("runc", "iptables"):
        debian.installed(program)
    if needs.cni_folder() is None:
        debian.install(needs.CNI_PACKAGE)
    if missing := [program for program in ("kubectl", "curl") if shutil.which(program) is None]:
        raise debian.Unavailable(f"there is no {' and no '.join(missing)} on the PATH")
    look_for_programs(files.directory, kubelets=_NODES)


def _images() -> list[Path]:
    """The archives of all images, built where they are not yet."""
    began = time.monotonic()
    built = []
    for image in archives.build():
        built.append(image.archive)
        _say(f"image {image.name}: {image.mebibytes:.0f} MiB, unpacked {image.unpacked_mebibytes:.0f}")
    _say(f"images  ({time.monotonic() - began:.0f} s)")
    return built


def _play(files: ClusterFiles, images: Sequence[Path]) -> bool:
    with tempfile.TemporaryDirectory(prefix="kai-guide-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        with _cluster(files.name, kubeconfig, images):
            return asyncio.run(_take_all(files, kubeconfig, (*STORY, *TROUBLE)))


async def _take_all(files: ClusterFiles, kubeconfig: Path, story: Sequence[Step]) -> bool:
    """All steps in order; the first that does not come out as told ends the story."""
    helm = binaries.find(("helm",))["helm"]
    async with KubeClient.connect(str(kubeconfig), user_agent="kai-guide") as client:
        site = Site(files, kubeconfig, client, helm)
        try:
            for step in story:
                if not await _take(site, step):
                    return False
        finally:
            figures.show(site.figures)
    return True


async def _take(site: Site, step: Step) -> bool:
    _say(f"▶ {step.title}")
    began = time.monotonic()
    try:
        facts = await step.play(site)
    except AssertionError as error:
        _say(f"  ✘ NOT AS TOLD: {error}  ({time.monotonic() - began:.1f} s)\n{await _picture(site)}")
        return False
    _say(f"  ✔ {facts}  ({time.monotonic() - began:.1f} s)")
    return True


async def _picture(site: Site) -> str:
    """What pods and events say, for somebody who was not there."""
    with contextlib.suppress(AssertionError):
        pods = await site.kubectl("get", "pods", "--all-namespaces", "-o", "wide")
        events = await site.kubectl("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp")
        return f"{pods}\n{events}"
    return "and the cluster does not answer"


@contextlib.contextmanager
def _cluster(name: str, kubeconfig: Path, images: Sequence[Path]) -> Iterator[None]:
    """Real nodes while the block runs, and no longer than this process, however it ends."""
    up = (
        *(*_KAI, "local", "up", f"--name={name}", "--real", f"--kubelets={_NODES}", "--nodes=0"),
        *(f"--gpus-per-node={_GPUS}", "--no-services", f"--kubeconfig={kubeconfig}", "--detach"),
        *(f"--image={archive}" for archive in images),
    )
    with keeper.keep((*_KAI, "local", "down", f"--name={name}")):
        began = time.monotonic()
        subprocess.run(up, check=True)
        _say(f"nodes are up  ({time.monotonic() - began:.0f} s)")
        yield
        began = time.monotonic()
    _say(f"nodes are down  ({time.monotonic() - began:.0f} s)")


def _down(name: str) -> None:
    if ClusterFiles.of(name).directory.exists():
        subprocess.run((*_KAI, "local", "down", f"--name={name}"), check=False)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
