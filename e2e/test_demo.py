"""`make demo`, without the terminal."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from deadlines import patience
from e2e.harness import REAL, ROOT


def test_every_step_of_the_demo_comes_out_as_told_and_nothing_is_left(tmp_path):
    environment = os.environ | {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    # Programs of a real control plane stay where they were built.
    environment.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "e2e.demo",
            f"--patience={patience()}",
            "--name=demo-test",
            *(["--real"] if REAL else []),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("✔") == 10
    left = [
        p.info["cmdline"]
        for p in psutil.process_iter(["cmdline"])
        if str(tmp_path) in " ".join(p.info["cmdline"] or ())
    ]
    assert not left
    assert not list((tmp_path / "state").rglob("*.json"))
