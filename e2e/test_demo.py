"""`make demo`, without the terminal."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deadlines import patience
from e2e.harness import REAL, ROOT
from e2e.visiting import Visitor, address_in


@contextlib.contextmanager
def playing(home, *flags):
    """The demo while the block runs, by somebody with a home of his own."""
    environment = os.environ | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    # Programs of a real control plane stay where they were built.
    environment.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "e2e.demo", f"--patience={patience()}", *flags),
            *(["--real"] if REAL else []),
        ],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def nothing_is_left(home):
    left = [
        p.info["cmdline"]
        for p in psutil.process_iter(["cmdline"])
        if str(home) in " ".join(p.info["cmdline"] or ())
    ]
    assert not left
    assert not list((home / "state").rglob("*.json"))


def test_every_step_of_the_demo_comes_out_as_told_and_nothing_is_left(tmp_path):
    with playing(tmp_path, "--name=demo-test") as demo:
        told, _ = demo.communicate()
    assert demo.returncode == 0, told
    assert told.count("✔") == 10
    nothing_is_left(tmp_path)


@pytest.mark.skipif(REAL, reason="the page is the same on any cluster")
def test_the_demo_serves_a_page_of_its_cluster_to_the_first_who_opens_it_until_it_is_ended(tmp_path):
    with playing(tmp_path, "--name=demo-page", "--nodes=3", "--ui") as demo:
        address = next(filter(None, map(address_in, demo.stdout)))
        visitor = Visitor(address)
        assert (visitor.status, Visitor(address).status) == (200, 403)
        assert "app.js" in visitor.page()
        assert visitor.cluster()["nodes"] == 3
        demo.send_signal(signal.SIGTERM)
        rest, _ = demo.communicate()
    assert demo.returncode == 130, rest
    assert "ending the cluster" in rest
    assert "Traceback" not in rest
    nothing_is_left(tmp_path)
