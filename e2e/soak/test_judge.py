"""What is kept as a finding, and with what beside it."""

import re
from pathlib import Path

import pytest

from e2e.soak.actions import Action, Drain
from e2e.soak.frame import Breach, Frame, LogLine
from e2e.soak.journal import Journal
from e2e.soak.judge import Judge
from e2e.soak.rules.pace import PACE
from e2e.soak.test_rules import a_frame, a_pod, a_share

E2E = Path(__file__).parents[1]


def a_judge(journal=None, *, load=1.0):
    return Judge(journal or Journal(), excerpts=lambda word: [f"a line about {word}"], load=lambda: load)


def test_a_state_is_a_finding_only_when_it_lasts():
    judge, over = a_judge(), [a_share("a", "0.9"), a_share("b", "0.9")]
    for at in (0.0, 1.0, 2.0):
        judge.look(Frame(), a_frame(*over, at=at))
    assert not judge.findings
    judge.look(Frame(), a_frame(at=2.5))
    judge.look(Frame(), a_frame(*over, at=3.5))
    assert not judge.findings
    judge.look(Frame(), a_frame(*over, at=6.5))
    assert [finding.rule for finding in judge.findings] == ["device over 1.0"]


def test_a_busy_machine_is_given_more_time():
    judge, over = a_judge(load=4.0), [a_share("a", "0.9"), a_share("b", "0.9")]
    for at in (0.0, 6.0):
        judge.look(Frame(), a_frame(*over, at=at))
    assert not judge.findings


def test_what_is_a_matter_of_time_is_found_by_somebody():
    """A rule of another name would not be known again."""
    sources = "".join(path.read_text() for path in E2E.rglob("*.py") if path.name != "pace.py")
    assert not [rule for rule in PACE if f'Breach("{rule}"' not in re.sub(r"Breach\(\s+", "Breach(", sources)]


def test_the_same_breach_is_told_once():
    judge, moved = a_judge(), (a_frame(a_pod("a", node="n")), a_frame(a_pod("a", node="m")))
    judge.look(*moved)
    judge.look(*moved)
    assert len(judge.findings) == 1


def test_an_error_with_a_cause_that_the_soak_made_is_excused_and_a_traceback_is_not():
    journal = Journal()
    journal.trouble("redis", "SIGKILL", 10.0).end = 12.0
    judge = a_judge(journal)
    judge.read(Frame(), Frame(at=13.0), [LogLine(13.0, "scheduler", "error", "redis is away")])
    assert not judge.findings
    judge.read(
        Frame(),
        Frame(at=13.0),
        [LogLine(13.0, "scheduler", "error", "oh\nTraceback (most recent call last)")],
    )
    judge.read(Frame(), Frame(at=60.0), [LogLine(60.0, "scheduler", "error", "redis is away")])
    assert [finding.at for finding in judge.findings] == [13.0, 60.0]


def test_a_leader_that_was_kept_from_renewing_its_lease_may_end():
    journal = Journal()
    journal.trouble("apiserver", "SIGSTOP 8 s", 10.0).end = 18.0
    judge = a_judge(journal)
    judge.read(
        Frame(),
        Frame(at=16.0),
        [LogLine(16.0, "scheduler", "warning", "leadership lost   lease=kai-scheduler")],
    )
    judge.read(
        Frame(),
        Frame(at=90.0),
        [LogLine(90.0, "scheduler", "warning", "leadership lost   lease=kai-scheduler")],
    )
    assert journal.killed["scheduler"] == 1


@pytest.mark.parametrize(
    "last",
    [
        "get version: cannot connect to https://127.0.0.1:1",
        "https://127.0.0.1:1 accepts connections but does not answer",
    ],
)
def test_who_begins_while_the_api_server_is_away_may_end(last):
    journal = Journal()
    journal.trouble("apiserver", "SIGKILL", 10.0).end = 11.0
    judge = a_judge(journal)
    for at in (16.0, 90.0):
        line = LogLine(at, "scheduler", "warning", f"api server not reachable yet\nerror: {last}")
        judge.read(Frame(), Frame(at=at), [line])
    assert journal.killed["scheduler"] == 1


def test_what_stands_in_for_a_cluster_may_complain():
    judge = a_judge()
    judge.read(Frame(), Frame(at=1.0), [LogLine(1.0, "apiserver", "error", "no")])
    assert not judge.findings


def test_a_finding_says_what_was_done_to_the_object_and_what_was_logged_of_it():
    journal = Journal()
    journal.note(Action(1.0, "drained", Drain("n"), ("Node n",)), 1.0, "done")
    judge = a_judge(journal)
    judge.note(2.0, [Breach("refused by its node", "Node n", "why")])
    [finding] = judge.findings
    assert finding.actions == ("     1.0 s  drained: Node n",)
    assert finding.logs == ("a line about n",)


def test_pods_of_a_workload_are_told_what_was_done_to_it():
    journal = Journal()
    journal.note(Action(1.0, "scaled", Drain("x"), ("Deployment ns/w-1",)), 1.0, "done")
    assert journal.about("Pod ns/w-1-abc")
    assert not journal.about("Pod ns/w-12")
