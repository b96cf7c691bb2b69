"""A cluster's name is taken while it runs, and its files tell about it."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from kai_local.box import ending, kubeconfig
from kai_local.box.cluster import Cluster
from kai_local.box.kubeconfig import Entry, add, current_context, use_context
from kai_local.box.options import ClusterOptions
from kai_local.box.progress import Lines
from kai_local.box.state import (
    DEFAULT_NAME,
    ClusterFiles,
    ClusterRecord,
    KubeconfigRecord,
    earlier_contexts,
    known_clusters,
    of_context,
)
from kai_local.errors import ClusterError
from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.records import ProcessRecord


def files(tmp_path: Path, name: str = "box") -> ClusterFiles:
    return ClusterFiles.of(name, {"XDG_STATE_HOME": str(tmp_path)})


def a_record(**more: object) -> ClusterRecord:
    supervisor = ProcessRecord("supervisor", "ready", os.getpid(), "another start")
    return ClusterRecord("box", "ready", 1.0, supervisor, **more)  # type: ignore[arg-type]


def test_files_lie_where_state_belongs(tmp_path: Path) -> None:
    assert files(tmp_path).directory == tmp_path / "kai" / "box"
    home = ClusterFiles.of("box", {"HOME": str(tmp_path)})
    assert home.directory == tmp_path / ".local/state/kai/box"


def test_a_folder_that_would_be_another_one_elsewhere_is_ignored(tmp_path: Path) -> None:
    relative = ClusterFiles.of("box", {"XDG_STATE_HOME": "state", "HOME": str(tmp_path)})
    assert relative.directory == tmp_path / ".local/state/kai/box"


def test_who_has_no_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ClusterError, match=r"user \d+ has no home: say with HOME"):
        ClusterFiles.of("box", {"HOME": ""})
    assert files(tmp_path).directory == tmp_path / "kai" / "box"


@pytest.mark.parametrize("name", ["", "Box", "a/b", "..", "-a", "a-", "x" * 41])
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ClusterError, match="cannot be used"):
        files(tmp_path, name)


def test_a_name_is_taken_once_and_free_again_afterwards(tmp_path: Path) -> None:
    with files(tmp_path).claimed():
        with (
            pytest.raises(ClusterError, match=r"cluster 'box' already; .*kai local down --name box"),
            files(tmp_path).claimed(),
        ):
            pass
        with files(tmp_path, "other").claimed():
            pass
    with files(tmp_path).claimed():
        pass
    assert list((tmp_path / "kai").iterdir()) == []


def test_a_name_is_free_when_its_owner_was_killed(tmp_path: Path) -> None:
    code = f"""
import sys, time
from kai_local.box.state import ClusterFiles
with ClusterFiles.of("box", {{"XDG_STATE_HOME": {str(tmp_path)!r}}}).claimed():
    print("claimed", flush=True)
    time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    assert owner.stdout.readline() == "claimed\n"
    with pytest.raises(ClusterError), files(tmp_path).claimed():
        pass
    owner.kill()
    owner.communicate()
    with files(tmp_path).claimed():
        pass


def test_a_name_whose_folder_was_removed_is_nobodys_and_then_that_of_who_claims_it(tmp_path: Path) -> None:
    with files(tmp_path).claimed() as first:
        assert not first.lost
        shutil.rmtree(tmp_path / "kai")
        assert first.lost
        with files(tmp_path).claimed() as second:
            assert first.lost
            assert not second.lost
    with files(tmp_path).claimed() as first:
        shutil.rmtree(tmp_path / "kai")
        second = files(tmp_path).claimed()
        second.__enter__()
    assert [path.name for path in (tmp_path / "kai").iterdir()] == ["box.lock"]
    second.__exit__(None, None, None)
    assert list((tmp_path / "kai").iterdir()) == []


def test_a_name_held_for_the_moment_of_cleaning_up_is_waited_for(tmp_path: Path) -> None:
    owner = files(tmp_path).claimed()
    owner.__enter__()
    threading.Timer(0.1, owner.__exit__, (None, None, None)).start()
    with files(tmp_path).claimed() as claim:
        assert not claim.lost


def test_what_is_written_is_read_and_listed(tmp_path: Path) -> None:
    box = files(tmp_path)
    assert box.read() is None
    box.make()
    assert box.directory.stat().st_mode & 0o777 == 0o700
    record = a_record(nodes=3)
    box.write(record)
    assert box.read() == record
    assert [one.name for one in known_clusters({"XDG_STATE_HOME": str(tmp_path)})] == ["box"]


def test_the_cluster_of_a_context_is_found_and_none_taken_for_another(tmp_path: Path) -> None:
    box = files(tmp_path)
    box.make()
    box.write(a_record())
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    assert of_context(box.context, environment) == "box"
    assert of_context("prod", environment) is of_context("kai-gone", environment) is None


def test_the_usual_cluster_is_taken_where_no_context_is_set(tmp_path: Path) -> None:
    assert of_context("", {"XDG_STATE_HOME": str(tmp_path)}) == DEFAULT_NAME


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    box = files(tmp_path)
    box.make()
    (box.directory / "cluster.json").write_text("{")
    with pytest.raises(ClusterError, match=r"cluster\.json is damaged"):
        box.read()


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    box = files(tmp_path)
    (box.directory / "cluster.json").mkdir(parents=True)
    with pytest.raises(ClusterError, match=r"box/cluster\.json cannot be read: Is a directory"):
        box.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a while")
def test_the_cluster_of_another_user_is_told_and_stands_in_nobodys_way() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        box, environment = files(Path(folder)), {"XDG_STATE_HOME": folder}
        box.make()
        running = ProcessIdentity.of(os.getpid())
        assert running
        supervisor = ProcessRecord("supervisor", "ready", running.pid, running.started)
        box.write(ClusterRecord("box", "ready", 1.0, supervisor))
        os.seteuid(65534)
        try:
            with pytest.raises(ClusterError, match=r"Permission denied; run this as the user who started"):
                ending.take_down(box)
            assert known_clusters(environment) == []
            assert of_context(box.context, environment) is None
        finally:
            os.seteuid(0)


def test_what_a_killed_cluster_left_is_removed_without_touching_strangers(tmp_path: Path) -> None:
    box, config = files(tmp_path), tmp_path / "config"
    config.write_text("apiVersion: v1\nkind: Config\ncurrent-context: mine\ncontexts:\n- name: mine\n")
    before = config.read_text()
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    ours = ProcessIdentity.of(left.pid)
    assert ours
    mine = ProcessIdentity.of(os.getpid())
    assert mine
    add(config, Entry("kai-box", {"server": "https://x"}, {}))
    use_context(config, "kai-box")
    box.make()
    box.write(
        a_record(
            kubeconfig=KubeconfigRecord("kai-box", str(config), str(config), "mine"),
            processes=[
                ProcessRecord("redis", "ready", ours.pid, ours.started),
                ProcessRecord("stranger", "ready", mine.pid, "not when we started"),
            ],
        )
    )
    assert ending.take_down(box)
    assert left.wait() == -signal.SIGKILL
    assert config.read_text() == before
    assert not box.directory.exists()
    assert not ending.take_down(box)


MINE = "apiVersion: v1\nkind: Config\ncurrent-context: mine\ncontexts:\n- name: mine\n"


class Killed(BaseException):
    """Nothing is done after it."""


async def test_the_context_that_was_current_is_known_of_one_killed_right_after_it_changed_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    config = tmp_path / "config"
    add(config, Entry("mine", {"server": "https://mine"}, {}))
    use_context(config, "mine")

    def change_and_be_killed(path: Path, name: str) -> str:
        use_context(path, name)
        raise Killed

    cluster = Cluster(ClusterOptions(name="box", kubeconfig=config), Lines(io.StringIO()))
    box = files(tmp_path)
    with box.claimed() as cluster._claim:
        box.make()
        add(box.admin_kubeconfig, Entry("admin", {"server": "https://127.0.0.1:1"}, {}))
        with monkeypatch.context() as killing:
            killing.setattr(kubeconfig, "use_context", change_and_be_killed)
            with pytest.raises(Killed):
                cluster._offer_kubeconfig()
        assert current_context([config]) == "kai-box"
        ending.sweep(box)
    assert current_context([config]) == "mine"


def test_a_cluster_that_has_filled_the_disk_makes_the_room_that_its_end_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box, config = files(tmp_path), tmp_path / "config"
    config.write_text(MINE)
    add(config, Entry("kai-box", {"server": "https://x"}, {}))
    use_context(config, "kai-box")
    box.make()
    box.write(a_record(kubeconfig=KubeconfigRecord("kai-box", str(config), str(config), "mine")))
    box.logs.mkdir()
    filling, make = box.logs / "scheduler.log", tempfile.mkstemp
    filling.touch()

    def make_where_there_is_room(**options: Any) -> tuple[int, str]:
        if filling.exists():
            raise OSError(28, "No space left on device")
        return make(**options)

    monkeypatch.setattr(tempfile, "mkstemp", make_where_there_is_room)
    assert ending.take_down(box)
    assert config.read_text() == MINE
    assert not box.directory.exists()


@pytest.mark.parametrize(
    ("leaving", "current"),
    [
        (["a", "b", "c"], ["kai-c", "kai-c", "mine"]),
        (["b", "c", "a"], ["kai-c", "kai-a", "mine"]),
        (["c", "b", "a"], ["kai-b", "kai-a", "mine"]),
    ],
    ids=["the first leaves first", "one in between leaves first", "the last leaves first"],
)
def test_clusters_may_leave_in_any_order_and_the_context_is_never_one_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaving: list[str], current: list[str]
) -> None:
    config = tmp_path / "config"
    config.write_text(MINE)
    monkeypatch.setenv("KUBECONFIG", str(config))
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    for name in ("a", "b", "c"):
        box = files(tmp_path, name)
        box.make()
        add(config, Entry(box.context, {"server": "https://x"}, {}))
        before = use_context(config, box.context)
        earlier = earlier_contexts(before, environment)
        box.write(
            a_record(kubeconfig=KubeconfigRecord(box.context, str(config), str(config), before, earlier))
        )
    seen = []
    for name in leaving:
        assert ending.take_down(files(tmp_path, name))
        seen.append(current_context([config]))
    assert seen == current
    assert config.read_text() == MINE
