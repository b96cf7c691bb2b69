"""What is to be done in the end is done, however the end comes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deadlines import until
from e2e.guide.keeper import keep

ROOT = Path(__file__).resolve().parents[2]
KEEPS = """
import sys, time
from e2e.guide.keeper import keep
with keep(("touch", sys.argv[2])):
    open(sys.argv[1], "w").close()
    time.sleep(600)
"""


def test_it_is_done_at_the_end_of_the_block(tmp_path):
    with keep(("touch", str(tmp_path / "done"))):
        assert not (tmp_path / "done").exists()
    assert (tmp_path / "done").exists()


@pytest.mark.integration
def test_it_is_done_when_our_whole_process_group_is_killed(tmp_path):
    begun, done = tmp_path / "begun", tmp_path / "done"
    process = subprocess.Popen(
        [sys.executable, "-c", KEEPS, str(begun), str(done)], cwd=ROOT, start_new_session=True
    )
    until(begun.exists, what="the block is entered")
    assert not done.exists()
    subprocess.run(["kill", f"-{signal.SIGKILL.value}", "--", f"-{process.pid}"], check=True)
    process.wait()
    until(done.exists, what="it is done")
