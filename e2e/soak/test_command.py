"""How a run ends that somebody ends."""

import subprocess
import sys

PROGRAM = """
import asyncio, pathlib, sys
from e2e.soak.command import carry_out

async def run(say):
    try:
        say("up")
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.01)
        pathlib.Path(sys.argv[1], "gone").touch()

carry_out(run, pathlib.Path(sys.argv[1]))
"""


def test_what_was_started_is_taken_down(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stdout.readline() == "up\n"
        running.terminate()
        running.communicate()
    assert running.returncode != 0
    assert (tmp_path / "gone").exists()
