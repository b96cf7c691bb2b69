"""Nodes come up wherever the files of their cluster are."""

import shlex
import subprocess
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from kai_local.node import dns
from kai_local.node.room import Room

pytestmark = pytest.mark.parametrize("name", ["plain", "two words", "it's mine", 'a "b" c'])


def test_mounts_are_made_of_the_folders_that_are_meant(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    script = Room("room-0", folder, tmp_path / "members").furnish()
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    mounted = [words[2] for line in script.splitlines() if (words := shlex.split(line))[1:2] == ["--bind"]]
    assert mounted[:2] == [str(folder / "kubelet"), str(folder / "log")]
    assert all(Path(each).exists() for each in mounted)


def test_the_server_of_names_is_told_its_kubeconfig_as_one_word(tmp_path: Path, name: str) -> None:
    kubeconfig = tmp_path / name / "kubeconfig"
    dns.program(Path("coredns"), folder=tmp_path, kubeconfig=kubeconfig, address=IPv4Address("198.18.0.1"))
    lines = (tmp_path / "Corefile").read_text().splitlines()
    [told] = [line for line in lines if "kubeconfig" in line.split()[0]]
    # Its lexer has words in double quotes, in which a backslash is before a quote alone.
    assert shlex.split(told) == ["kubeconfig", str(kubeconfig)]
