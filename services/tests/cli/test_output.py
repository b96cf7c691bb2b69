"""Tables as people see them on a terminal, and as programs get them."""

from __future__ import annotations

import io

from rich.console import Console

from kai_cli import output
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
