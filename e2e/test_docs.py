"""Every command in the README and in docs/ is run, in order, as a reader would."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.harness import REAL, ROOT

#: Blocks that are not run here, and where they are instead.
ELSEWHERE = {
    "make demo": "test_demo.py runs it",
    "make test": "this is it",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!-- not run: .+? -->\n```sh\n.*?^```", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """The blocks to run. A block that needs what a test machine lacks says so in a comment before it."""
    blocks = BLOCK.findall(COMMENT.sub("", page.read_text()))
    return [block.strip() for block in blocks if block.strip() not in ELSEWHERE]


@pytest.mark.kubectl
@pytest.mark.skipif(REAL, reason="the pages bring up a cluster of their own, an embedded one")
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_work(page, tmp_path, request):
    if "kubectl" in page.read_text() and shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the PATH")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
    environment |= {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    if any("helm " in block for block in commands(page)):
        helm = Path(request.getfixturevalue("helm_program"))
        environment["PATH"] = f"{helm.parent}{os.pathsep}{environment['PATH']}"
    script = tmp_path / "page.sh"
    script.write_text("set -eux -o pipefail\n" + "\n".join(commands(page)) + "\n")
    try:
        result = subprocess.run(
            ["bash", str(script)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"{page.name}\n{result.stdout}\n{result.stderr}"
    finally:
        subprocess.run(
            [str(ROOT / ".venv/bin/kai"), "local", "down"], env=environment, capture_output=True, check=False
        )
