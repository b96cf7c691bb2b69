"""Changes that are told place the work when they are made, and nothing smaller of the same kind does."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from kai.answers.answer import Code
from kai.answers.answering import answer_pod_group
from kai.model.ids import PodGroupKey
from libs.tests.answers.test_groups import SHARED, TWO, tainted, team, the_situation
from libs.tests.engine.builders import a_constraint, a_job, a_node, a_topology

TOLERATE = "let default/job tolerate the taint for=others:NoSchedule"
UNSELECT = "take the node selector from default/job"
CASES: dict[str, tuple[list[Any], list[str]]] = {
    "a limit": (
        [team(limit=1), TWO, a_job("job", gpus=2)],
        ["let each pod of default/job ask for 1 nvidia.com/gpu", "set the limit of queue 'team' to 2 GPUs"],
    ),
    "a quota": (
        [team(gpu=1), TWO, a_job("job", gpus=2, priority="build")],
        [
            "make default/job preemptible",
            "let each pod of default/job ask for 1 nvidia.com/gpu",
            "set the quota of queue 'team' to 2 GPUs",
        ],
    ),
    "a pod that is too large": (
        [team(), TWO, a_job("job", gpus=9)],
        ["let each pod of default/job ask for 4 nvidia.com/gpu"],
    ),
    "a pod with more cores than any node has": (
        [team(), TWO, a_job("job", gpus=1, cpu="200000")],
        ["let each pod of default/job ask for 20000 cpu"],
    ),
    "free GPUs in pieces": (
        [
            team(), TWO, a_job("a", on="n0", gpus=1, priority="build"),
            a_job("b", on="n1", gpus=1, priority="build"), a_job("job", gpus=4),
        ],
        ["let each pod of default/job ask for 3 nvidia.com/gpu", "add 1 node like n0"],
    ),
    "parts that are too small": (
        [
            team(), SHARED, a_job("x", fraction=0.7, on="n0", groups=("g",), priority="build"),
            a_job("job", fraction=0.4),
        ],
        ["let each pod of default/job ask for 0.3 of a GPU", "add 1 node like n0"],
    ),
    "a selector and a taint": (
        [
            team(), a_node("n0", gpus=4), tainted("n1", gpus=4, labels={"pool": "a"}),
            a_job("job", gpus=1, spec={"node_selector": {"pool": "a"}}),
        ],
        [TOLERATE, UNSELECT],
    ),
    "a selector and a taint on every node": (
        [team(), tainted("n1", gpus=4), a_job("job", gpus=1, spec={"node_selector": {"pool": "a"}})],
        [f"{TOLERATE}, and {UNSELECT}"],
    ),
    "a limit, where the place of others is to be had by a toleration alone": (
        [
            team(limit=1), a_node("n0", gpus=4), tainted("n1", gpus=4, labels={"pool": "a"}),
            a_job("old", gpus=1, on="n0"),
            a_job("job", gpus=1, priority="build-preemptible", spec={"node_selector": {"pool": "a"}}),
        ],
        [TOLERATE],
    ),
    "a gang that is too large": (
        [team(), TWO, a_job("job", pods=4, gpus=4)],
        [
            "let default/job start with 2 pods",
            "let each pod of default/job ask for 2 nvidia.com/gpu",
            "add 2 nodes like n0",
        ],
    ),
    "a queue with queues below it": (
        [team(), TWO, a_job("job", queue="top", gpus=4)],
        ["submit default/job to queue 'team'"],
    ),
    "a topology that is not there": (
        [team(), TWO, a_job("job", gpus=1, group={"topology": a_constraint(required="rack")})],
        ["require no topology level of default/job"],
    ),
    "racks that are too small": (
        [
            team(), a_node("n0", gpus=4, labels={"rack": "a"}), a_node("n1", gpus=4, labels={"rack": "b"}),
            a_topology("rack"),
            a_job("job", pods=2, gpus=4, group={"topology": a_constraint(required="rack")}),
        ],
        ["require no topology level of default/job", "let default/job start with 1 pod"],
    ),
    "a scheduling gate": (
        [team(), TWO, a_job("job", gpus=4, gated=True)],
        ["take the scheduling gates from the pods of default/job"],
    ),
    "pods that are missing": (
        [team(), TWO, a_job("job", gpus=1, pods=2, min_member=3)],
        ["let default/job start with 2 pods"],
    ),
    "no nodes": ([team(), a_job("job", gpus=1)], []),
    "no nodes, for parts of GPUs": ([team(), a_job("job", fraction=0.4)], []),
    "a limit, and no nodes": ([team(limit=1), a_job("job", gpus=2)], []),
    "its turn": ([team(), TWO, a_job("job", gpus=4)], []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_helps_is(case: tuple[list[Any], list[str]]) -> None:
    things, expected = case
    answer = answer_pod_group(the_situation(*things), PodGroupKey("default/job"))
    assert answer is not None
    told = [change.text for change in answer.changes]
    assert told[: len(expected)] == expected if expected else not told


def test_a_change_says_the_command_that_makes_it() -> None:
    answer = answer_pod_group(the_situation(*CASES["a limit"][0]), PodGroupKey("default/job"))
    assert answer is not None
    assert [change.command for change in answer.changes] == [
        None,
        """kubectl patch queue/team --type=merge -p '{"spec": {"resources": {"gpu": {"limit": 2}}}}'""",
    ]


def test_no_time_for_a_search_gives_reasons_only() -> None:
    situation = the_situation(*CASES["a limit"][0])
    answer = answer_pod_group(situation, PodGroupKey("default/job"), seconds=0.0)
    assert answer is not None
    assert answer.changes == ()


def test_a_search_takes_no_memory_by_how_many_gpus_are_asked_for() -> None:
    answer_pod_group(the_situation(*CASES["a gang that is too large"][0]), PodGroupKey("default/job"))
    situation = the_situation(team(gpu=1), TWO, a_job("job", gpus=2**20))
    situation.prepare()
    tracemalloc.start()
    try:
        answer = answer_pod_group(situation, PodGroupKey("default/job"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer is not None
    assert answer.reason.code is Code.TOO_LARGE
    assert most < 16 << 20
