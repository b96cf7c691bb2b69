"""The report in its three forms."""

import json

from rich.console import Console

from e2e.soak import report
from e2e.soak.actions import Action, Drain
from e2e.soak.frame import ProcessSample
from e2e.soak.journal import Journal
from e2e.soak.judge import Finding
from e2e.soak.rules.latency import Placed


def a_report(*findings):
    journal = Journal()
    journal.note(Action(1.0, "drained", Drain("n"), ("Node n",)), 1.0, "done")
    journal.killed["scheduler"] += 1
    return report.Report(
        seed=7,
        minutes=1,
        commit="abc",
        journal=journal,
        findings=findings,
        placed=[Placed("ns/p", 1.0, 1.0 + n / 10, probe=True) for n in range(1, 11)],
        samples=[ProcessSample(float(at), "scheduler", 1, 100.0 + at, 20) for at in range(60)],
        restarts={"scheduler": 1},
    )


def test_a_finding_is_shown_with_what_may_explain_it():
    screen = Console(record=True, width=200)
    report.show(a_report(Finding(3.0, "late", "Pod ns/p", "why", ("a deed",), ("a line",))), screen)
    text = screen.export_text()
    for words in ("LATE: Pod ns/p: why", "a deed", "a line", "1 findings"):
        assert words in text


def test_the_document_and_the_picture_are_written(tmp_path):
    found = [Finding(3.0, rule, "Pod ns/p", "why") for rule in ("late", "bound twice")]
    report.write(a_report(*found), tmp_path)
    document = json.loads((tmp_path / "report.json").read_text())
    assert [(one["rule"], one["broken"]) for one in document["findings"]] == [
        ("late", False),
        ("bound twice", True),
    ]
    assert document["seconds_to_bind"]["probes, in calm"] == {
        "count": 10,
        "p50": 0.6,
        "p90": 1.0,
        "p99": 1.0,
        "p100": 1.0,
    }
    assert document["processes"][0]["peak_mib"] == 159.0
    assert document["processes"][0]["killed"] == 1
    assert (tmp_path / "report.png").stat().st_size > 10_000
    assert "drained: Node n" in (tmp_path / "journal.txt").read_text()
