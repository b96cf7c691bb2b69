"""Every command is there, and none costs more to start than what it uses."""

import subprocess
import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

from kai_cli.__main__ import app
from kai_cli.commands import COMMANDS, loaded


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


@pytest.mark.parametrize("name", COMMANDS)
def test_what_help_lists_of_a_command_is_what_the_command_says_of_itself(name: str) -> None:
    said = " ".join(str(loaded(name).help).split("\n\n")[0].split())
    assert said.startswith(COMMANDS[name].summary)


def test_help_loads_no_command_and_nothing_heavy() -> None:
    heavy = ("aiohttp", "grpc", "numpy", "kubernetes", "structlog", "kai.kube", "kai.engine", "kai_cli.get")
    code = f"""
import sys
from kai_cli.__main__ import main
try:
    main()
finally:
    print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.stderr == "[]\n"
    assert "explain" in done.stdout


@pytest.mark.parametrize(("verbose", "told"), [(False, ""), (True, "a word")])
def test_what_goes_on_behind_the_scenes_is_told_on_standard_error_to_who_asks(
    verbose: bool, told: str
) -> None:
    """Also by what was not loaded yet when that was decided."""
    code = f"""
from kai_cli.logs import configure_logs, note
configure_logs(verbose={verbose})
import structlog
note("kai_cli.explain", "a word")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == ""
    assert told in done.stderr
    assert bool(done.stderr) is verbose


def test_the_client_of_insight_loads_nothing_that_writes_lines() -> None:
    code = "import sys, kai.wire.history; print('structlog' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_a_command_that_is_nearly_right_is_suggested() -> None:
    assert "Did you mean 'get'?" in CliRunner().invoke(app, ["gett"]).output


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"kai {metadata.version('kai-scheduler')}\n")
