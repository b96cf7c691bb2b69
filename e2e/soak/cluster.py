"""The cluster of one run: brought up without nodes of its own, and gone with it; its logs stay."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from e2e.harness import kai
from kai_local.box.state import ClusterFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a run is to be. ``folder`` takes the report and the logs."""

    #: Clusters are named after it.
    kind: ClassVar[str]

    minutes: float
    seed: int
    folder: Path
    keep: bool = False

    @property
    def name(self) -> str:
        """Of its cluster."""
        return f"{self.kind}-{os.getpid()}"

    @property
    def kubeconfig(self) -> Path:
        """Of its cluster's administrator."""
        return self.folder / "kubeconfig"


@contextlib.contextmanager
def cluster(options: RunOptions, *flags: str) -> Iterator[ClusterFiles]:
    """The cluster, with two binders and what ``flags`` of ``kai local up`` say."""
    name = f"--name={options.name}"
    kubeconfig = f"--kubeconfig={options.kubeconfig}"
    kai("local", "up", name, "--nodes=0", "--binders=2", *flags, kubeconfig, "--detach")
    files = ClusterFiles.of(options.name)
    try:
        yield files
    finally:
        shutil.copytree(files.logs, options.folder / "logs", dirs_exist_ok=True)
        if not options.keep:
            kai("local", "down", name)
