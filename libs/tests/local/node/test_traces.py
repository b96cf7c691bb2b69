"""What nodes have on a machine is found by the folder of their cluster alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from deadlines import patience
from kai_local.errors import ClusterError
from kai_local.node import cgroups
from kai_local.node.marks import Marks


def a_hierarchy(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").touch()
    return folder


def test_names_differ_by_folder_and_fit_into_an_interface() -> None:
    one, other = Marks.of(Path("/state/kai/one")), Marks.of(Path("/state/kai/other"))
    assert one != other
    assert Marks.of(Path("/state/kai/one")) == one
    assert len(one.port(7)) <= 15


def test_cgroups_are_made_in_each_hierarchy_with_what_a_cpuset_needs(tmp_path: Path) -> None:
    pids, cpuset = a_hierarchy(tmp_path, "pids"), a_hierarchy(tmp_path, "cpuset")
    (cpuset / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "not-one").mkdir()
    cgroups.make("kai-1", ["kubelet-0"], root=tmp_path)
    assert (pids / "kai-1" / "kubelet-0").is_dir()
    assert (cpuset / "kai-1" / "runtime").is_dir()
    assert not (tmp_path / "not-one" / "kai-1").exists()
    assert cgroups.members_file("kai-1", root=tmp_path) == pids / "kai-1" / "runtime" / "cgroup.procs"


def test_version_2_has_one_hierarchy_whose_controllers_are_handed_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu pids\n")
    (tmp_path / "cgroup.subtree_control").touch()
    cgroups.make("kai-1", [], root=tmp_path)
    assert cgroups.hierarchies(tmp_path) == [tmp_path]
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"  # the last of those told one by one
    assert cgroups.members_file("kai-1", root=tmp_path) == tmp_path / "kai-1" / "runtime" / "cgroup.procs"


def test_what_runs_in_a_cgroup_is_ended_before_that_is_removed(tmp_path: Path) -> None:
    child = a_hierarchy(tmp_path, "pids") / "kai-1" / "kubelet-0"
    child.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        (child / "cgroup.procs").write_text(f"{process.pid}\n")
        with pytest.raises(ClusterError, match=f"do not end: .{process.pid}"):
            cgroups.remove("kai-1", root=tmp_path, patience=0.0)  # a file, which no kernel empties
        assert process.wait(timeout=patience()) == -9
    (child / "cgroup.procs").unlink()
    cgroups.remove("kai-1", root=tmp_path)
    assert not child.parent.exists()
    cgroups.remove("kai-1", root=tmp_path)


def test_a_machine_without_cgroups_has_none_to_be_removed(tmp_path: Path) -> None:
    cgroups.remove("kai-1", root=tmp_path / "not-mounted")
