"""Standard input and output as a shell may give them: full, closed, or in another encoding."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deadlines import patience

pytestmark = pytest.mark.integration


def kai(command: str, **variables: str) -> tuple[int, str, str]:
    """Status, output and errors of a command in a shell, where ``kai`` is this program."""
    found = subprocess.run(
        ["/bin/sh", "-c", f'kai() {{ "{sys.executable}" -m kai_cli "$@"; }}\n{command}'],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=patience(),
        check=False,
    )
    assert b"Traceback" not in found.stderr
    return found.returncode, found.stdout.decode("latin-1"), found.stderr.decode("latin-1")


@pytest.mark.parametrize("arguments", ["group --kinds", "group --kinds -o json", "--help", "--version"])
def test_output_for_which_there_is_no_room_is_told_in_a_line(arguments):
    status, _, told = kai(f"kai {arguments} > /dev/full")
    assert (status, told) == (1, "kai: the output cannot be written: No space left on device\n")


def test_a_reader_who_has_seen_enough_is_told_nothing():
    assert kai("kai group --kinds | true") == (0, "", "")


def test_output_that_nobody_wants_is_left_out():
    status, _, told = kai("kai group --kinds >&-")
    assert (status, told) == (0, "")


def test_what_an_encoding_does_not_have_is_replaced(tmp_path):
    queue = "\N{GREEK SMALL LETTER ALPHA}"
    file = tmp_path / "division.yaml"
    file.write_text(f"totalResource: {{GPU: 1}}\nqueues: [{{uid: {queue}}}]\n", encoding="utf-8")
    status, printed, told = kai(f"kai simulate fair-share -f {file}", PYTHONIOENCODING="latin-1")
    assert (status, told) == (0, "")
    assert printed.splitlines()[1].startswith("? ")


def test_errors_in_another_encoding_are_told_too():
    status, _, told = kai(
        "kai group -f '\N{GREEK SMALL LETTER ALPHA}'", PYTHONIOENCODING="latin-1", PYTHONUTF8="1"
    )
    assert status == 1
    assert told.startswith("kai: cannot read the manifest: ")


@pytest.mark.parametrize("command", ["group", "render", "simulate fair-share"])
def test_that_there_is_no_standard_input_is_told(command):
    status, _, told = kai(f"kai {command} -f - <&-")
    assert status == 1
    assert "there is no standard input; name a file" in told
