"""What an image has compiled is used by the pods that name a command."""

import os
import re
import subprocess
import sys
from pathlib import Path

from deadlines import patience
from kai.runtime import compiled

ROOT = Path(__file__).resolve().parents[3]


def an_image(folder):
    (folder / "numba" / "packing").mkdir(parents=True)
    (folder / "numba" / "packing" / "losses.nbi").write_text("compiled")
    return folder


def test_it_is_copied_to_where_numba_looks(tmp_path):
    image, target = an_image(tmp_path / "opt"), tmp_path / "tmp" / "numba"
    compiled.lay_out(prefix=image, environment={"NUMBA_CACHE_DIR": str(target)})
    assert (target / "packing" / "losses.nbi").read_text() == "compiled"
    assert [path.name for path in target.parent.iterdir()] == ["numba"], "nothing else is left there"


def test_what_a_process_before_has_compiled_stays(tmp_path):
    image, target = an_image(tmp_path / "opt"), tmp_path / "numba"
    target.mkdir()
    compiled.lay_out(prefix=image, environment={"NUMBA_CACHE_DIR": str(target)})
    assert not [*target.iterdir()]


def test_it_starts_where_it_cannot_be_copied(tmp_path):
    image, full = an_image(tmp_path / "opt"), tmp_path / "full"
    full.write_text("a file, no folder")
    compiled.lay_out(prefix=image, environment={"NUMBA_CACHE_DIR": str(full / "numba")})


def test_nothing_is_done_where_there_is_no_image(tmp_path):
    target = tmp_path / "numba"
    compiled.lay_out(prefix=tmp_path / "venv", environment={"NUMBA_CACHE_DIR": str(target)})
    compiled.lay_out(prefix=an_image(tmp_path / "opt"), environment={})
    assert not target.exists()


def test_the_scheduler_does_it_before_it_serves():
    """In a process of its own: what the installation is read from is the folder of the interpreter."""
    program = (
        "from unittest import mock; from kai import runtime; from kai.runtime import compiled\n"
        "from kai_scheduler import __main__ as scheduler\n"
        "with mock.patch.object(compiled, 'lay_out') as laid, mock.patch.object(runtime, 'run') as run:\n"
        "    run.side_effect = lambda _: print('laid out' if laid.called else 'not laid out')\n"
        "    scheduler.main()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "libs"), str(ROOT / "services")])}
    said = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=patience(),
    )
    assert said.stdout == "laid out\n"


def test_nothing_depends_on_what_an_image_runs_before_a_command():
    """A pod that names a command is started without it, and all of ours do but one."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert not re.search("^ENTRYPOINT", dockerfile, flags=re.MULTILINE)
    assert "NUMBA_CACHE_DIR=/opt/kai/numba /opt/kai/bin/python" in dockerfile, "where it is looked for"
