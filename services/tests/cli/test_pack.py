import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kai_cli.__main__ import app


@pytest.fixture
def files(tmp_path):
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\na,9000,900,4,X\nb,9000,900,4,Y\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,100,1,1,1000,\nq,1,1,1,400,X\n")
    return [str(nodes), str(pods)]


def test_all_strategies_are_compared_in_a_table_and_a_curve(files, tmp_path):
    pytest.importorskip("matplotlib")
    curve = tmp_path / "curve.svg"
    result = CliRunner().invoke(app, ["pack", *files, "--seeds", "2", "--plot", str(curve)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["STRATEGY", "AT", "80", "%"]
    assert {line.split()[0] for line in lines[1:]} == {"binpack", "spread", "headroom"}
    assert "<svg" in curve.read_text()


def test_figures_are_written_as_json(files, tmp_path):
    target = tmp_path / "figures.json"
    arguments = ["pack", *files, "--strategy", "binpack", "--seeds", "3", "--json", str(target)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    figures = json.loads(target.read_text())
    assert figures["strategy"] == "binpack"
    assert len(figures["per_seed"]) == 3
    assert figures["allocated_percent_at_100"] == pytest.approx(sum(figures["per_seed"]) / 3, abs=1e-3)
    printed = CliRunner().invoke(app, [*arguments[:-1], "-"]).stdout
    assert json.loads(printed)["per_seed"] == figures["per_seed"]


def test_figures_are_there_though_the_curve_is_not(files, tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "figures.json"
    curve = tmp_path / "curve.svg"
    curve.symlink_to("/dev/full")
    arguments = ["pack", *files, "--strategy", "binpack", "--seeds", "1"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(target), "--plot", str(curve)])
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert "binpack" in result.stdout
    assert json.loads(target.read_text())["strategy"] == "binpack"


def test_the_table_is_there_though_the_figures_are_not_written(files):
    arguments = ["pack", *files, "--strategy", "binpack", "--seeds", "1", "--json", "/dev/full"]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stderr) == (1, "kai: /dev/full: No space left on device\n")
    assert "binpack" in result.stdout


def test_files_may_begin_with_a_byte_order_mark(files):
    for path in map(Path, files):
        path.write_text(path.read_text(), encoding="utf-8-sig")
    result = CliRunner().invoke(app, ["pack", *files, "--seeds", "1", "--strategy", "binpack"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--strategy", "best"], "strategy 'best' is not known; known are binpack, spread, headroom"),
        (["--seeds", "1", "--plot", "curve.xyz"], "cannot be drawn as .xyz"),
    ],
)
def test_mistakes_are_explained(files, arguments, message):
    result = CliRunner().invoke(app, ["pack", *files, *arguments])
    assert result.exit_code != 0
    assert message in result.output


def test_the_help_lists_the_strategies():
    output = CliRunner().invoke(app, ["pack", "--help"], env={"COLUMNS": "200"}).output
    assert all(name in output for name in ("binpack", "spread", "headroom"))
