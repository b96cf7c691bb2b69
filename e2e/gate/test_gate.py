"""The gate with stages that are none and a clock that stands still."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deadlines import patience, until
from e2e.gate import changes, processes
from e2e.gate.budget import CUT_MINUTES, START_MINUTES, Gate
from e2e.gate.changes import Changes
from e2e.gate.processes import LAST_LINES, Ended
from e2e.gate.stages import STAGES, Stage

TESTS = Stage("tests", ("make", "test"), minutes=6, needed=True)
SHORT = Stage("short", ("short",), minutes=2, concerns=("short/",))
LONG = Stage("long", ("long",), minutes=20, concerns=("long/",))


@dataclass
class Plan:
    """What commands take, in minutes, and their statuses; those that are not named take 1 and succeed."""

    minutes: Mapping[str, float] = field(default_factory=dict)
    statuses: Mapping[str, Sequence[int]] = field(default_factory=dict)
    now: float = 0.0
    ran: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, command: Sequence[str], *, seconds: float | None, aside: bool) -> Ended:
        name = " ".join(command)
        tries = sum(one == name for one in self.ran)
        self.ran.append(name)
        wanted = 60 * self.minutes.get(name, 1.0)
        self.now += wanted if seconds is None else min(wanted, seconds)
        if seconds is not None and wanted > seconds:
            return Ended(None)
        status = (self.statuses.get(name) or [0])[tries]
        return Ended(status, (f"{name} ended",), work=2 * wanted)

    def gate(self, *stages: Stage, **more) -> Gate:
        known = {"machine": lambda: "a machine", "clock": lambda: self.now, "say": self.said.append}
        return Gate(stages, self.run, **known, **more)

    @property
    def text(self) -> str:
        return "\n".join(self.said)


@dataclass
class Meeting(Plan):
    """Its commands that are named ``both`` end together; what ran is told with how it ran."""

    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))

    def run(self, command: Sequence[str], *, seconds: float | None, aside: bool) -> Ended:
        if command[0] == "both":
            self.together.wait(patience())
        self.said.append(f"{' '.join(command)} {'aside' if aside else 'itself'}")
        return Ended(1 if command == ("both", "fails") else 0)

    @property
    def told(self) -> list[str]:
        return [line for line in self.said if line.endswith((" aside", " itself"))]


def test_what_no_clock_judges_is_run_aside_of_the_others_once_the_first_is_done():
    stages = [
        Stage("second guest", ("guest",), minutes=4, aside=True),
        Stage("first guest", ("both", "fails"), minutes=1, aside=True),
        Stage("all", ("both", "last"), minutes=7),
        SHORT,
    ]
    plan = Meeting()
    assert not plan.gate(TESTS, *stages).decide()
    assert plan.told[0] == "make test itself"
    assert [line for line in plan.told if line.endswith("aside")] == ["both fails aside", "guest aside"]
    assert [line for line in plan.told[1:] if line.endswith("itself")] == ["short itself", "both last itself"]
    assert plan.said[-5:] == [
        "##   passed      0.0 min,   0.0 of work  tests",
        "##   passed      0.0 min,   0.0 of work  short",
        "##   passed      0.0 min,   0.0 of work  all",
        "##   FAILED      0.0 min,   0.0 of work  first guest (status 1)",
        "##   passed      0.0 min,   0.0 of work  second guest",
    ]


def test_what_waits_for_most_of_its_time_is_run_at_once():
    waiting = [Stage(name, ("both", name), minutes=5, waits=True) for name in ("a", "b")]
    plan = Meeting()
    assert plan.gate(TESTS, waiting[0], SHORT, LONG, waiting[1]).decide()
    assert (plan.told[0], plan.told[1], plan.told[-1]) == ("make test itself", "short itself", "long itself")
    assert sorted(plan.told[2:-1]) == ["both a itself", "both b itself"]


def test_what_is_run_at_once_begins_when_all_of_it_is_prepared():
    waiting = [
        Stage(name, (name,), minutes=5, waits=True, preparation=("prepare", name)) for name in ("a", "b")
    ]
    plan = Plan()
    assert plan.gate(TESTS, *waiting).decide()
    assert plan.ran[:3] == ["make test", "prepare a", "prepare b"]
    assert sorted(plan.ran[3:]) == ["a", "b"]


def test_what_cannot_be_prepared_keeps_nothing_back_that_is_run_at_once():
    first = Stage("first", ("first",), minutes=5, waits=True, preparation=("cannot",))
    second = Stage("second", ("second",), minutes=6, waits=True)
    plan = Plan(statuses={"cannot": [1]})
    assert plan.gate(TESTS, first, second).decide()
    assert plan.ran == ["make test", "cannot", "second"]
    assert "## LEFT OUT: first" in plan.text


def test_all_stages_are_run_and_summed_up_with_their_minutes():
    plan = Plan(minutes={"make test": 6, "short": 2, "long": 20})
    assert plan.gate(LONG, TESTS, SHORT).decide()
    assert plan.ran == ["make test", "short", "long"]
    assert plan.said[-5:] == [
        "\n## the gate after 28 minutes: passed",
        "##   on a machine",
        "##   passed      6.0 min,  12.0 of work  tests",
        "##   passed      2.0 min,   4.0 of work  short",
        "##   passed     20.0 min,  40.0 of work  long",
    ]


def test_how_quick_a_machine_is_can_be_told_before_anything_is_installed():
    program = "from e2e.gate.machine import described; print(described())"
    command = (sys.executable, "-S", "-c", program)
    told = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+ cores of \d+\.\d times the usual speed\n", told.stdout)


def test_what_is_needed_is_run_whole_however_long_it_takes_and_nothing_is_started_late():
    plan = Plan(minutes={"make test": 100})
    assert plan.gate(TESTS, SHORT).decide()
    assert plan.ran == ["make test"]
    assert "## LEFT OUT: short\n## 100 minutes are gone, and after 55 nothing is started" in plan.text
    assert "the gate after 100 minutes: passed, BUT NOT WHOLE" in plan.text


def test_a_stage_is_started_just_before_the_time_and_cut_off_without_failing():
    plan = Plan(minutes={"make test": START_MINUTES - 1, "long": 30})
    assert plan.gate(TESTS, LONG).decide()
    assert plan.now == 60 * CUT_MINUTES
    assert "## CUT OFF: long\n## 80 minutes were gone" in plan.text
    assert "##   CUT OFF    26.0 min,   0.0 of work  long (80 minutes were gone)" in plan.text


def test_time_that_was_spent_before_counts():
    plan = Plan()
    assert plan.gate(TESTS, SHORT, gone=54.5).decide()
    assert plan.ran == ["make test"]


def test_a_needed_stage_that_fails_fails_the_gate_at_once():
    plan = Plan(statuses={"make test": [2]})
    assert not plan.gate(TESTS, SHORT).decide()
    assert plan.ran == ["make test"]
    assert "## LEFT OUT: short\n## tests failed" in plan.text
    assert "the gate after 1 minutes: FAILED" in plan.text


def test_another_stage_that_fails_fails_the_gate_when_the_others_have_been_run():
    plan = Plan(statuses={"short": [1]})
    assert not plan.gate(TESTS, SHORT, LONG).decide()
    assert plan.ran == ["make test", "short", "long"]
    assert "##   FAILED      1.0 min,   2.0 of work  short (status 1)" in plan.text
    assert plan.said[-1] == "##   short: short ended"


@pytest.mark.parametrize(
    ("minutes", "statuses", "passes"),
    [
        pytest.param(1, {"long": [1], "failed ones": [0]}, True, id="fails but once"),
        pytest.param(1, {"long": [1], "failed ones": [1]}, False, id="fails twice"),
        pytest.param(90, {"long": [1]}, False, id="has no time for a second try"),
    ],
)
def test_what_failed_is_tried_once_more_where_a_stage_says_so(minutes, statuses, passes):
    stage = Stage("long", ("long",), minutes=20, again=("failed ones",))
    plan = Plan(minutes={"failed ones": minutes}, statuses=statuses)
    assert plan.gate(TESTS, stage).decide() is passes
    assert plan.ran == ["make test", "long", "failed ones"]
    assert plan.now <= 60 * CUT_MINUTES


@pytest.mark.parametrize(
    ("minutes", "status", "why"),
    [
        pytest.param(1, 1, "`build it` did not succeed", id="it fails"),
        pytest.param(90, 0, "`build it` did not succeed", id="it is cut off"),
        pytest.param(60, 0, "61 minutes are gone", id="it takes too long"),
    ],
)
def test_a_stage_that_cannot_be_prepared_is_left_out_and_fails_nothing(minutes, status, why):
    stage = Stage("long", ("long",), minutes=20, preparation=("build", "it"))
    plan = Plan(minutes={"build it": minutes}, statuses={"build it": [status]})
    assert plan.gate(TESTS, stage).decide()
    assert plan.ran == ["make test", "build it"]
    assert f"## LEFT OUT: long\n## {why}" in plan.text


# --- what was found ---------------------------------------------------------------------------
LATE = {"rule": "late", "subject": "Pod ns/p", "message": "bound\nafter 9 s", "broken": False}
TWICE = {"rule": "bound twice", "subject": "Pod ns/q", "message": "to n and to m", "broken": True}
LIFE = Stage(
    "life", ("life",), minutes=7, again=("other life",), reports=("first/report.json", "second/report.json")
)


@pytest.fixture
def finds(tmp_path, monkeypatch):
    """Has commands write reports: by command, the folder and what is found."""
    monkeypatch.chdir(tmp_path)

    def plan(**found):
        class Finding(Plan):
            def run(self, command, *, seconds, aside):
                folder, said = found["_".join(command[0].split())]
                Path(folder).mkdir(exist_ok=True)
                Path(folder, "report.json").write_text(
                    said if said == "{" else json.dumps({"findings": said})
                )
                self.ran.append(command[0])
                wanted = 60 * self.minutes.get(command[0], 1.0)
                self.now += wanted if seconds is None else min(wanted, seconds)
                if seconds is not None and wanted > seconds:
                    return Ended(None)
                return Ended(1 if said else 0)

        return Finding()

    return plan


def test_what_is_a_matter_of_time_fails_the_gate_only_when_something_is_found_again(finds):
    plan = finds(life=("first", [LATE]), other_life=("second", []))
    assert plan.gate(LIFE).decide()
    assert plan.ran == ["life", "other life"]
    assert plan.said[-1] == "##   found: of time: first: late: Pod ns/p: bound after 9 s"
    plan = finds(life=("first", [LATE]), other_life=("second", [LATE]))
    assert not plan.gate(LIFE).decide()
    assert plan.said[-2:] == [
        "##   found: of time: first: late: Pod ns/p: bound after 9 s",
        "##   found: of time: second: late: Pod ns/p: bound after 9 s",
    ]


def test_what_is_broken_fails_the_gate_at_once_and_is_told_at_the_end(finds):
    plan = finds(life=("first", [LATE, TWICE]))
    assert not plan.gate(LIFE).decide()
    assert plan.ran == ["life"]
    assert plan.said[-3:] == [
        "##   FAILED      1.0 min,   0.0 of work  life (something is broken that must always hold)",
        "##   found: BROKEN: first: bound twice: Pod ns/q: to n and to m",
        "##   found: of time: first: late: Pod ns/p: bound after 9 s",
    ]


@pytest.mark.parametrize(
    ("found", "passes"), [([LATE, TWICE], False), ([LATE], True)], ids=["broken", "a matter of time"]
)
def test_what_a_stage_found_broken_before_it_was_cut_off_fails_the_gate(finds, found, passes):
    plan = finds(life=("first", found))
    plan.minutes = {"life": 90}
    assert plan.gate(LIFE).decide() is passes
    assert plan.ran == ["life"]
    outcome = "CUT OFF  " if passes else "FAILED   "
    assert f"##   {outcome}  80.0 min,   0.0 of work  life (" in plan.text
    assert ("something is broken that must always hold" in plan.text) is not passes


def test_an_earlier_report_says_nothing_of_this_run(finds, tmp_path):
    for folder in ("first", "second"):
        Path(folder).mkdir()
        Path(folder, "report.json").write_text(json.dumps({"findings": [TWICE]}))
    plan = finds(life=("first", []))
    assert plan.gate(LIFE).decide()
    assert "found:" not in plan.text


def test_a_report_that_cannot_be_read_is_told(finds):
    plan = finds(life=("first", "{"), other_life=("second", []))
    assert plan.gate(LIFE).decide()
    assert "first/report.json cannot be read" in plan.said[-1]


def test_findings_without_end_are_cut_off(finds):
    plan = finds(life=("first", [{**TWICE, "message": "x" * 999}] * 50))
    assert not plan.gate(LIFE).decide()
    assert plan.said[-1] == "##   found: and 30 more"
    assert max(map(len, plan.said)) < 300


# --- what changed --------------------------------------------------------------------------------
LOG = """\
commit a

README.md
commit b

e2e/test_preempt.py
long/file.py
commit c

e2e/test_allocate.py
e2e/test_preempt.py
e2e/harness.py
short/file.py
"""


def test_the_stage_that_the_newest_commit_is_about_comes_first():
    found = changes.parse(LOG)
    assert [found.age(stage.concerns) for stage in (SHORT, LONG, TESTS)] == [2, 1, changes.COMMITS]
    assert Plan().gate(SHORT, LONG, TESTS, changes=found).in_order() == [TESTS, LONG, SHORT]
    assert Plan().gate(LONG, SHORT, TESTS).in_order() == [TESTS, SHORT, LONG]


def test_end_to_end_tests_that_changed_are_named_first_to_a_stage_that_takes_them():
    plan = Plan()
    stage = Stage("all", ("all",), minutes=1, ordered=True)
    plan.gate(stage, changes=changes.parse(LOG)).decide()
    plan.gate(stage).decide()
    assert plan.ran == ["all FIRST=e2e/test_preempt.py e2e/test_allocate.py", "all"]


def test_the_history_of_a_repository_is_read(tmp_path, monkeypatch):
    def git(*arguments):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.chdir(tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    git("init", "--quiet")
    git("config", "user.email", "a@example.com")
    git("config", "user.name", "a")
    for name in ("one", "two"):
        (tmp_path / name).touch()
        git("add", name)
        git("commit", "--quiet", "-m", name)
    assert changes.recent() == Changes((frozenset({"two"}), frozenset({"one"})))
    monkeypatch.setenv("PATH", "")
    assert changes.recent() == Changes()


def test_every_path_that_a_stage_is_about_exists():
    root = Path(__file__).parents[2]
    for stage in STAGES:
        for beginning in stage.concerns:
            assert list(root.glob(f"{beginning}*")) or (root / beginning).exists(), (stage.name, beginning)


# --- processes -----------------------------------------------------------------------------------
def test_a_command_that_ends_in_time_gives_its_status():
    assert processes.run((sys.executable, "-c", "raise SystemExit(3)"), seconds=None).status == 3


def test_what_a_command_cost_is_known_with_all_that_it_waited_for(tmp_path):
    spends = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    (tmp_path / "spends.py").write_text(spends)
    command = ("sh", "-c", f"{sys.executable} {tmp_path}/spends.py; {sys.executable} {tmp_path}/spends.py")
    ended = processes.run(command, seconds=None)
    assert (ended.status, ended.work >= 0.4) == (0, True)


def test_what_a_command_left_in_the_background_is_in_its_cost_once_it_has_ended(tmp_path):
    spends = "import time; end = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    (tmp_path / "spends.py").write_text(spends)
    left = f"(setsid {sys.executable} {tmp_path}/spends.py & echo $! > {tmp_path}/number)"
    gone = f"while kill -0 $(cat {tmp_path}/number) 2> /dev/null; do sleep 0.02; done"
    assert processes.run(("sh", "-c", f"{left}; {gone}"), seconds=None).work >= 0.4


def test_a_command_aside_yields_to_all_others_and_prints_when_it_is_done(capsys):
    command = (sys.executable, "-c", "import os; print('niceness', os.nice(0))")
    niceness = f"niceness {min(19, os.nice(0) + 10)}"
    assert processes.run(command, seconds=None, aside=True) == Ended(0, (niceness,))
    assert capsys.readouterr().out == f"{niceness}\n"


@pytest.mark.parametrize("aside", [True, False])
def test_what_fails_aside_is_not_what_failed_last(tmp_path, monkeypatch, aside):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_it.py").write_text("def test_it(): assert False")
    ended = processes.run((sys.executable, "-m", "pytest", "--quiet", "."), seconds=None, aside=aside)
    assert ended.status == 1, ended.last
    assert (tmp_path / ".pytest_cache").exists() is not aside


@pytest.mark.parametrize("aside", [True, False])
def test_of_what_a_command_prints_all_is_shown_and_the_last_of_it_is_kept(capsys, aside):
    command = (sys.executable, "-c", "import sys; [print(n, file=sys.stderr) for n in range(40)]")
    ended = processes.run(command, seconds=None, aside=aside)
    assert capsys.readouterr().out.split() == [str(number) for number in range(40)]
    assert ended.last == tuple(str(number) for number in range(40 - LAST_LINES, 40))


def test_who_leaves_somebody_behind_that_keeps_its_output_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(processes, "_READ_SECONDS", 0.3)
    leaves = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "print(subprocess.Popen(command, start_new_session=True).pid)"
    )
    ended = processes.run((sys.executable, "-c", leaves), seconds=None)
    os.kill(int(ended.last[0]), signal.SIGKILL)
    assert ended.status == 0


STAYS = """
import signal, subprocess, sys, time
def end(*_):
    open(sys.argv[1], "w").write("told what it found")
    sys.exit(2)
if {heeds}:
    signal.signal(signal.SIGINT, end)
else:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(str(child.pid))
time.sleep(600)
"""


@pytest.mark.parametrize("heeds", [True, False])
def test_a_command_that_is_cut_off_is_asked_to_end_and_leaves_nothing(tmp_path, monkeypatch, heeds):
    monkeypatch.setattr(processes, "GRACE_SECONDS", 10.0 if heeds else 0.3)
    told, child = tmp_path / "told", tmp_path / "child"
    began = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        command = (sys.executable, "-c", STAYS.format(heeds=heeds), str(told), str(child))
        assert processes.run(command, seconds=3.0).status is None
    finally:
        signal.signal(signal.SIGINT, began)
    assert told.exists() is heeds
    until(lambda: not alive(int(child.read_text())), what="its child has ended too")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b"\nState:\tZ" not in Path(f"/proc/{pid}/status").read_bytes()
