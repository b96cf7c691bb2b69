"""What a machine lacks is told at once, by name, with what to do."""

import os
import shutil
from pathlib import Path

import pytest

from kai_local.errors import ClusterError
from kai_local.node import needs
from kai_local.node.commands import run


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs, "run", lambda *command: "")


def test_all_that_is_missing_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("runc", "nsenter") else name)
    monkeypatch.setattr(needs, "_CNI_FOLDERS", (str(tmp_path),))
    with pytest.raises(needs.MachineLacks) as lacking:
        needs.require(tmp_path)
    told = str(lacking.value)
    assert "no runc: apt-get install runc" in told
    assert "apt-get install util-linux" in told
    assert "apt-get install containernetworking-plugins" in told
    assert "iproute2" not in told


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(needs.MachineLacks, match="run as root"):
        needs.require(tmp_path)


def test_files_where_nodes_have_folders_of_their_own_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    with pytest.raises(needs.MachineLacks, match="set XDG_STATE_HOME elsewhere"):
        needs.require(Path("/var/lib/state/kai/local"))


def test_a_machine_that_gives_no_namespaces_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*command: str) -> str:
        raise ClusterError("unshare failed: Operation not permitted")

    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(needs, "cni_folder", lambda: tmp_path)
    monkeypatch.setattr(needs, "run", refuse)
    with pytest.raises(needs.MachineLacks, match="Operation not permitted"):
        needs.require(tmp_path)


def test_a_command_that_fails_says_its_last_word() -> None:
    with pytest.raises(ClusterError, match=r"status 3: not so$"):
        run("sh", "-c", "echo first >&2; echo not so >&2; exit 3")


def test_a_command_that_does_not_end_is_ended() -> None:
    with pytest.raises(ClusterError, match=r"not done within 0.1 s"):
        run("sleep", "600", seconds=0.1)


def test_a_command_that_there_is_not_is_named() -> None:
    with pytest.raises(ClusterError, match="no no-such-program on the PATH"):
        run("no-such-program")
