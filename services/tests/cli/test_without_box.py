"""``kai`` in an image of the services, which has no cluster in a box."""

import pkgutil
import subprocess
import sys

import pytest

import kai_cli
from deadlines import patience

#: Python as it is where the package `kai_local` is not installed; what follows is the command line.
WITHOUT = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "kai_local":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from kai_cli.__main__ import main
main()
"""
NEEDS_BOX = {"kai_cli.local", "kai_cli.run"}


def kai(*arguments: str, code: str = WITHOUT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience())


@pytest.mark.parametrize(
    "arguments",
    [
        ("local", "up", "--nodes", "3"),
        ("local",),
        ("local", "status", "-o", "json"),
        ("run", "binder", "--install"),
    ],
    ids=" ".join,
)
def test_commands_of_a_cluster_in_a_box_say_what_is_missing_and_what_to_do(arguments):
    done = kai(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"kai: `kai {arguments[0]}` needs the cluster in a box (kai_local), which is not installed"
    )
    assert "docker build --target local" in line
    assert "make install" in line


def test_a_snapshot_is_asked_for_by_address():
    done = kai("snapshot")
    assert done.returncode == 1
    assert "needs the cluster in a box (kai_local), which is not installed" in done.stderr
    assert "--address 127.0.0.1:8081" in done.stderr
    assert "no scheduler answers at 127.0.0.1:1" in kai("snapshot", "--address", "127.0.0.1:1").stderr


def test_help_lists_all_commands_and_says_which_are_not_here():
    done = kai("--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Not in this installation") == len(NEEDS_BOX)


def test_all_other_commands_are_there():
    names = [f"kai_cli.{module.name}" for module in pkgutil.iter_modules(kai_cli.__path__)]
    found = kai(
        code=WITHOUT.rpartition("from kai_cli")[0]
        + f"""
import importlib
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(name)
"""
    )
    assert found.returncode == 0, found.stderr
    assert set(found.stdout.split()) == NEEDS_BOX | {"kai_cli.local_options"}


def test_another_missing_package_is_no_missing_cluster_in_a_box():
    done = kai("local", code=WITHOUT.replace('"kai_local"', '"msgspec"'))
    assert "No module named 'msgspec'" in done.stderr
    assert "cluster in a box" not in done.stderr
