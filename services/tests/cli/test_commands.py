"""Every command is there, and none costs more to start than what it uses."""

import subprocess
import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

from kai_cli.__main__ import app
from kai_cli.commands import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_begins_with_what_it_does(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert f"Usage: root {name}" in result.output
    assert "--install-completion" not in result.output


def test_all_commands_are_listed() -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    assert all(f"│ {name} " in listed for name in COMMANDS)


def test_an_unknown_command_is_named() -> None:
    result = CliRunner().invoke(app, ["shedule"])
    assert result.exit_code == 2
    assert "No such command 'shedule'" in result.output


def test_commands_about_this_machine_load_no_client_and_no_engine() -> None:
    heavy = ("aiohttp", "grpc", "numpy", "kubernetes", "kai.engine")
    code = f"import sys, kai_cli.local, kai_cli.__main__; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"kai {metadata.version('kai-scheduler')}\n")
