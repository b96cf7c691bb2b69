"""Tables as people see them on a terminal, and as programs get them."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.replay import archive
from kai_cli import output
from kai_cli.__main__ import app
from kai_cli.output import Column
from kai_cli.views import nodes, pod_groups, queues


def lines_of(columns, rows, *, width=80, wide=False):
    terminal = io.StringIO()
    screen = Console(width=width, color_system=None, file=terminal)
    output.emit(output.table(columns, rows, wide=wide), screen=screen)
    return terminal.getvalue().splitlines()


def a_queue_row(name, depth=0):
    unlimited = queues.Amounts(
        quota=-1,
        limit=-1,
        over_quota_weight=1,
        allocated=10.75,
        borrowed=0,
        requested=65.9,
        fair_share=16,
        past_use=0.5,
    )
    return queues.QueueRow(
        name=name, parent="", depth=depth, orphan=False, priority=100, open_to="everybody",
        gpu=unlimited, cpu=unlimited, memory=unlimited,
    )  # fmt: skip


def test_the_queue_tree_fits_on_eighty_columns_with_every_heading_whole():
    rows = [a_queue_row("default-parent-queue").cells(), a_queue_row("default-queue", 1).cells()]
    heading, *body = lines_of(queues.COLUMNS, rows)
    assert heading.split("  ")[0] == "QUEUE"
    for word in ("GPU QUOTA", "GPU LIMIT", "FAIR SHARE", "ALLOCATED", "REQUESTED"):
        assert word in heading
    assert max(map(len, [heading, *body])) <= 80
    assert body[1].startswith("  default-queue")


def test_wide_shows_every_column():
    heading, _ = lines_of(queues.COLUMNS, [a_queue_row("q").cells()], wide=True, width=200)
    assert all(column.heading in heading for column in queues.COLUMNS)


def test_a_name_is_never_cut_or_folded_whatever_the_terminal():
    row = pod_groups.PodGroupRow(
        namespace="default", name="pg-notebooks-2l4vtg86zt-pjb8j-5b8c56ba-8e75-4789-8bee-d6404ba76c9b",
        queue="default-queue", priority_class="train", minimum="1", pods=2, running=1, pending=1,
        state="Unschedulable", created=0.0, waiting_since=30.0, position=None, reason="NotEnough",
        message="no node has enough resources for the pod: 2 Insufficient GPUs", at=90.0,
    )  # fmt: skip
    _, line = lines_of(pod_groups.COLUMNS, [row.cells()], width=60)
    assert line.split() == [
        *("default", row.name, "default-queue", "1/2", "Unschedulable"),
        *("1m30s", "1m", "-", "NotEnough"),
    ]
    _, first, *more = lines_of(pod_groups.COLUMNS, [row.cells()], width=60, wide=True)
    assert row.name in first
    assert " ".join([first, *more]).split()[-3:] == ["2", "Insufficient", "GPUs"]


def test_prose_folds_into_the_room_that_is_left():
    row = ("node-0", "Ready", "8", "2", "6", "●●○○○○○○", "", "team/one=1  team/two=1  " * 3)
    heading, *body = lines_of(nodes.COLUMNS, [row])
    assert len(body) > 1
    assert max(map(len, [heading, *body])) <= 80


def test_a_program_gets_lines_whole_and_without_trailing_blanks(capsys):
    reason = "word " * 100 + "end"
    output.emit(output.table([Column("NAME"), Column("WHY", prose=True)], [("a", reason), ("b", "")]))
    assert capsys.readouterr().out.splitlines() == ["NAME  WHY", f"a     {reason}", "b"]


# --- words of tenants -----------------------------------------------------------------------------------
COLUMNS = [Column("NAME"), Column("WHY", prose=True)]
#: Broken markup, markup, an emoji's name, a colour, a window's title, C1's way to begin both, and lines.
TOLD = "[/x] [bold]b[/bold] :on: \x1b[31m \x1b]0;t\x07 \x9b2J\r"
SPELLED = r"[/x] [bold]b[/bold] :on: \x1b[31m \x1b]0;t\x07 \x9b2J\r"


@pytest.mark.parametrize("terminal", [True, False])
def test_words_of_tenants_are_printed_as_they_are_and_command_no_terminal(terminal):
    out = io.StringIO()
    screen = Console(width=200, color_system=None, file=out, force_terminal=terminal, emoji=False)
    output.emit(f"{TOLD}\nnext", "", output.table(COLUMNS, [(f"a\n{TOLD}", TOLD)]), screen=screen)
    first, second, _, _, row = out.getvalue().splitlines()
    assert (first, second) == (SPELLED, "next")
    assert row.rstrip() == rf"a\n{SPELLED}  {SPELLED}"


def test_a_console_takes_no_word_for_markup(capsys):
    output.console().print(output.table(COLUMNS, [("[bold]:on:[/bold]", "[/x]")], title="[/t]"))
    assert capsys.readouterr().out.split() == ["[/t]", "NAME", "WHY", "[bold]:on:[/bold]", "[/x]"]


def test_prose_of_several_lines_stays_below_its_heading():
    _, first, second = lines_of(COLUMNS, [("a", "one\n\x1b[2Jtwo")])
    assert (first.rstrip(), second.rstrip()) == ("a     one", r"      \x1b[2Jtwo")


def test_our_own_colours_reach_a_terminal():
    out = io.StringIO()
    screen = Console(color_system="standard", file=out, force_terminal=True)
    output.emit(output.table(COLUMNS, [("a", "b")]), screen=screen)
    assert "\x1b[1mNAME" in out.getvalue()


def test_what_went_wrong_commands_no_terminal(capsys):
    assert output.fail("the pod group \x1b[2J has\ntwo lines").exit_code == 1
    assert capsys.readouterr().err == "kai: the pod group \\x1b[2J has\ntwo lines\n"


def test_warnings_about_a_manifest_command_no_terminal(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(A_JOB.replace(f"name: {LONG}", r'name: "a\e[2Jb"'))
    result = CliRunner().invoke(app, ["group", "-f", str(file)])
    assert "\x1b" not in result.output
    assert r"\x1b[2J" in result.output


# --- commands on a narrow terminal ----------------------------------------------------------------------
LONG = "a-name-that-is-as-long-as-a-person-makes-it"
A_JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: {LONG}, namespace: {LONG}}}
spec: {{template: {{spec: {{schedulerName: kai-scheduler, containers: [{{name: c, image: i}}]}}}}}}
"""


def a_snapshot(folder):
    objects = {
        "nodes": [a_node(LONG, gpus=1)],
        "queues": [a_queue("top"), a_queue(LONG, parent="top")],
        "podGroups": [a_group(LONG, queue=LONG)],
        "pods": [a_pod(LONG, group=LONG, gpus=1)],
        "priorityClasses": usual_priorities(),
    }
    raw = {kind: [msgspec.to_builtins(each) for each in listed] for kind, listed in objects.items()}
    file = folder / "snapshot.zip"
    file.write_bytes(archive.write(archive.Archive(config=None, params=None, raw_objects=raw, taken_at=0.0)))
    return ["replay", str(file)]


def a_manifest(folder):
    file = folder / "job.yaml"
    file.write_text(A_JOB)
    return ["group", "-f", str(file)]


def a_trace(folder):
    nodes_, pods = folder / "nodes.csv", folder / "pods.csv"
    nodes_.write_text("sn,cpu_milli,memory_mib,gpu,model\na,9000,900,4,X\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,100,1,1,1000,\n")
    return ["pack", str(nodes_), str(pods), "--seeds", "1", "--strategy", "binpack"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (a_snapshot, [f"default/{LONG}", "NODE"]),
        (a_manifest, [f"Job/{LONG}", "POD GROUP"]),
        (lambda folder: ["group", "--kinds"], ["leaderworkerset.x-k8s.io/v1"]),
        (a_trace, ["AT 130 %", "µS PER POD"]),
    ],
    ids=["replay", "group", "kinds", "pack"],
)
def test_no_command_cuts_a_name_or_a_heading_on_a_narrow_terminal(given, words, tmp_path, monkeypatch):
    shown = io.StringIO()
    narrow = Console(width=40, color_system=None, force_terminal=True, file=shown)
    monkeypatch.setattr(output, "console", lambda: narrow)
    result = CliRunner().invoke(app, given(tmp_path))
    assert result.exit_code == 0, result.output
    assert [word for word in words if word not in shown.getvalue()] == []
    assert "…" not in shown.getvalue()
