"""Files that commands write: what cannot be written is told before the work, and nothing is left behind."""

import os
import sys
import threading

import pytest
from typer.testing import CliRunner

from kai_cli import bench, conformance, pack, simulate, snapshot
from kai_cli.__main__ import app


def never(*_, **__):
    raise AssertionError("work was done for a file that cannot be written")


def refused(command, monkeypatch):
    """What is said of a command that is refused before it reads anything."""
    monkeypatch.setattr(simulate, "text_of", never)
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.exception
    return result.output


@pytest.mark.parametrize(
    ("module", "work", "command"),
    [
        (bench, "measure", ["bench", "--json"]),
        (conformance, "run_folder", ["conformance", ".", "--json"]),
        (snapshot, "taken", ["snapshot", "-o"]),
        (pack, "read_trace", ["pack", "nodes.csv", "pods.csv", "--json"]),
        (pack, "read_trace", ["pack", "nodes.csv", "pods.csv", "--plot"]),
        (simulate, "simulate", ["simulate", "time-based", "-f", "x.yaml", "--plot"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize(
    ("place", "said"),
    [("missing/x.svg", "is not there"), ("folder", "is a folder"), ("folder/..", "is a folder")],
)
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    module, work, command, place, said, tmp_path, monkeypatch
):
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(module, work, never)
    monkeypatch.chdir(tmp_path)
    assert said in refused([*command, place], monkeypatch)


DRAWN = [
    pytest.param(pack, "read_trace", ["pack", "nodes.csv", "pods.csv", "--plot"], id="pack"),
    pytest.param(
        simulate, "simulate", ["simulate", "time-based", "-f", "x.yaml", "--plot"], id="simulate time-based"
    ),
]


@pytest.mark.parametrize(("module", "work", "command"), DRAWN)
@pytest.mark.parametrize(
    ("place", "said"),
    [("curve.xyz", "cannot be drawn as .xyz; write .png or .svg"), ("curve", "has no suffix; write .png")],
)
def test_a_drawing_of_an_unknown_kind_is_told_before_the_work(
    module, work, command, place, said, tmp_path, monkeypatch
):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(module, work, never)
    monkeypatch.chdir(tmp_path)
    assert said in refused([*command, place], monkeypatch)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("module", "work", "command"), DRAWN)
def test_that_nothing_draws_is_told_before_the_work(module, work, command, tmp_path, monkeypatch):
    monkeypatch.setattr(module, work, never)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.chdir(tmp_path)
    assert "pip install 'kai-scheduler[plot]'" in refused([*command, "curve.svg"], monkeypatch)


@pytest.mark.parametrize(
    "command", [["bench", "--json"], ["conformance", ".", "--json"], ["snapshot", "-o"]], ids=" ".join
)
def test_standard_output_is_no_file(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*command, "-"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "name a file" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_told_in_a_sentence(tmp_path, monkeypatch):
    passed = conformance.Result(id="a", differences=())
    monkeypatch.setattr(conformance, "run_folder", lambda *_, **__: [passed])
    result = CliRunner().invoke(app, ["conformance", str(tmp_path), "--json", "/dev/full"])
    assert (result.exit_code, result.stderr) == (1, "kai: /dev/full: No space left on device\n")


def test_a_snapshot_that_cannot_take_its_place_leaves_nothing_behind(tmp_path, monkeypatch):
    target = tmp_path / "out" / "snapshot.zip"
    target.parent.mkdir()

    def meanwhile(*_, **__):
        target.mkdir()
        return b"all of it"

    monkeypatch.setattr(snapshot, "taken", meanwhile)
    result = CliRunner().invoke(app, ["snapshot", "-o", str(target)])
    assert result.exit_code == 1
    assert list(target.parent.iterdir()) == [target]


def test_a_snapshot_goes_where_a_link_leads_and_the_link_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "taken", lambda *_, **__: b"all of it")
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "latest.zip", tmp_path / "there" / "snapshot.zip"
    link.symlink_to(target)
    for _ in ("it is not there yet", "it is"):
        result = CliRunner().invoke(app, ["snapshot", "-o", str(link)])
        assert result.exit_code == 0, result.output
        assert link.is_symlink()
        assert target.read_bytes() == b"all of it"
        assert list(target.parent.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_link_into_a_folder_that_is_not_there_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "taken", never)
    link = tmp_path / "latest.zip"
    link.symlink_to(tmp_path / "missing" / "snapshot.zip")
    result = CliRunner().invoke(app, ["snapshot", "-o", str(link)], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert "is not there" in result.output


def test_a_snapshot_is_written_to_what_is_no_file_and_does_not_take_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "taken", lambda *_, **__: b"all of it")
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    result = CliRunner().invoke(app, ["snapshot", "-o", str(pipe)])
    assert result.exit_code == 0, result.output
    assert pipe.is_fifo()
    reader.join()
    assert read == [b"all of it"]
