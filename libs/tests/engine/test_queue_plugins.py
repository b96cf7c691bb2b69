"""What queues may hold and take from each other is said by plugins: ours can be left out, others join in."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kai.engine import Engine
from kai.engine.framework import (
    Entitlement,
    QueueRanking,
    Quota,
    VictimPolicy,
    VictimRules,
    VictimSearch,
)
from kai.engine.plugins import OPENERS
from kai.engine.reasons import Unschedulable
from kai.model.decisions import Reason
from kai.snapshot.rows import Job, Node, Queue, Task
from libs.tests.engine.builders import (
    NOW,
    a_job,
    a_node,
    a_queue,
    a_state,
    config,
    decided,
    outcomes,
)

LIMITED = [
    a_node("n", gpus=4),
    a_queue("team", parent="top", gpu=2, limit=2),
    a_job("within", pods=2, gpus=1),
    a_job("beyond", pods=2, gpus=1, created=1),
]
UNFAIR = [
    a_node("n", gpus=2),
    a_queue("rich", parent="top", gpu=0),
    a_queue("poor", parent="top", gpu=1),
    a_queue("top", gpu=2),
    a_job("old", queue="rich", on="n", gpus=1, created=1),
    a_job("new", queue="rich", on="n", gpus=1, created=2),
    a_job("waits", queue="poor", gpus=1, created=3),
]


@pytest.fixture
def also(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets plugins of somebody else join in, behind those that are on."""

    def join(*plugins: Any) -> None:
        monkeypatch.setitem(OPENERS, "snapshot", lambda handle: plugins)

    return join


def test_without_proportion_neither_limits_nor_quotas_hold_and_nothing_is_reclaimed() -> None:
    assert set(decided(a_state(LIMITED)).binds) == {"within-0", "within-1"}
    assert len(decided(a_state(LIMITED), config(off=["proportion"])).binds) == 4
    assert decided(a_state(UNFAIR)).evicts == {"new-0"}
    assert not decided(a_state(UNFAIR), config(off=["proportion"])).evicts


class Closed(Quota):
    """Jobs of a name get nothing."""

    def __init__(self, **answers: bool) -> None:
        self.answers = answers

    def _no(self, job: Job, question: str) -> Unschedulable | None:
        if job.name == "shut" and self.answers.get(question):
            return Unschedulable(Reason.OVER_LIMIT, "it is shut out")
        return None

    def unbounded(self, job: Job) -> bool:
        return job.name != "shut"

    def refuse(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        return self._no(job, "chunk")

    def refuse_on(self, job: Job, task: Task, node: Node) -> Unschedulable | None:
        return self._no(job, "node") if node.name == "a" else None

    def refuse_for_good(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        return self._no(job, "preemption")


@pytest.mark.parametrize("off", [(), ("proportion",)])
def test_another_quota_keeps_jobs_from_places_and_says_why(also, off: Sequence[str]) -> None:
    also(Closed(chunk=True))
    state = a_state(a_node("n", gpus=8), a_job("open", gpus=1), a_job("shut", gpus=1))
    result = Engine(config(off=off)).run(state, NOW)
    assert [bind.pod.name for bind in result.binds] == ["open-0"]
    assert "it is shut out" in outcomes(result)["shut"].message


def test_it_is_asked_of_nodes_where_what_is_charged_depends_on_them(also) -> None:
    world = [
        a_node("a", gpus=2, gpu_memory_mib=8000),
        a_node("b", gpus=2, gpu_memory_mib=8000),
        a_job("shut", gpu_memory_mib=1000),
    ]
    assert decided(a_state(world)).binds == {"shut-0": "a"}
    also(Closed(node=True))
    assert decided(a_state(world)).binds == {"shut-0": "b"}


def test_preemption_is_not_searched_for_what_no_preemption_frees(also) -> None:
    world = [
        a_node("n", gpus=1),
        a_queue("team", parent="top", gpu=1),
        a_job("low", on="n", gpus=1),
        a_job("shut", gpus=1, priority="build"),
    ]
    assert decided(a_state(world)).evicts == {"low-0"}
    also(Closed(preemption=True))
    result = Engine().run(a_state(world), NOW)
    assert not result.evictions
    assert not [key for key in result.searches if key[0] == "preempt"]


class Says(Entitlement, VictimPolicy):
    """Says yes or no to who takes, and some rule to searches."""

    def __init__(self, *, may: bool = True, **rules: Callable[[Any], Any]) -> None:
        self.may, self.given = may, rules
        self.searched: list[VictimSearch] = []

    def may_reclaim(self, job: Job, tasks: Sequence[Task]) -> bool:
        return self.may

    def rules(self, search: VictimSearch) -> VictimRules | None:
        self.searched.append(search)
        return VictimRules(**self.given)


def test_of_several_who_say_who_may_reclaim_all_must_agree(also) -> None:
    also(Says())
    assert decided(a_state(UNFAIR)).evicts == {"new-0"}
    also(Says(), Says(may=False))
    assert not decided(a_state(UNFAIR)).evicts


def test_with_no_fair_shares_another_may_say_who_reclaims(also) -> None:
    also(Says())
    assert decided(a_state(UNFAIR), config(off=["proportion"])).evicts == {"new-0"}


def test_a_search_says_who_looks_for_what_and_in_which_portions_it_may_be_had(also) -> None:
    says = Says()
    also(says)
    state = a_state(UNFAIR)
    decided(state, config("reclaim"))
    (search,) = says.searched
    assert (search.action, search.job.name) == ("reclaim", "waits")
    assert [task.key for task in search.tasks] == ["default/waits-0"]
    assert search.chunks(state.queues["rich"]) == (100, 100)


#: What each action would take from whom, if nobody said a word.
TAKEN = {
    "reclaim": (UNFAIR, {"new-0"}),
    "preempt": (
        [
            a_node("n", gpus=1),
            a_queue("rich", parent="top", gpu=1),
            a_queue("top", gpu=1),
            a_job("new", queue="rich", on="n", gpus=1),
            a_job("waits", queue="rich", gpus=1, priority="build"),
        ],
        {"new-0"},
    ),
    "consolidation": (
        [
            a_node("n0", gpus=2),
            a_node("n1", gpus=2),
            a_queue("rich", parent="top", gpu=4),
            a_queue("top", gpu=4),
            a_job("new", queue="rich", on="n0", gpus=1),
            a_job("old", queue="rich", on="n1", gpus=1, priority="build"),
            a_job("waits", queue="rich", gpus=2),
        ],
        {"new-0"},
    ),
}


@pytest.mark.parametrize("action", TAKEN)
@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ("of_queue", lambda queue: queue.name != "rich"),
        ("suffices", lambda centi: centi > 100),
        ("accepts", lambda job: job.name != "new" and job.name != "old"),
        ("allows", lambda victims: False),
    ],
)
def test_each_rule_alone_can_keep_victims_safe(
    also, action: str, rule: str, answer: Callable[[Any], Any]
) -> None:
    world, taken = TAKEN[action]
    assert decided(a_state(world), config(action)).evicts == taken
    asked: list[Any] = []

    def noted(subject: Any) -> Any:
        asked.append(subject)
        return answer(subject)

    also(Says(**{rule: noted}))
    if action == "consolidation" and rule == "suffices":  # nobody loses a place there
        assert decided(a_state(world), config(action)).evicts == taken
        assert not asked
        return
    assert not decided(a_state(world), config(action)).evicts
    assert asked
    if rule == "of_queue":
        assert all(isinstance(each, Queue) for each in asked)


# --- the order of queues -------------------------------------------------------------------------
#: The younger queue deserves more; jobs of both are equal.
QUEUES = [
    a_node("n", gpus=1),
    a_queue("top", gpu=24),
    a_queue("old", parent="top", gpu=4, created=1),
    a_queue("young", parent="top", gpu=20, created=2),
    *[a_job(f"{queue}-{number}", queue=queue, gpus=1) for queue in ("old", "young") for number in range(12)],
]


class ByName(QueueRanking):
    """Some queues first, in this order."""

    def __init__(self, state: Any, *names: str, foreseen: bool = True) -> None:
        state.settle(NOW)
        self.numbers = [names.index(each.name) if each.name in names else 9 for each in state.queue_rows]
        self.foreseen = foreseen

    def key(self, queue: int, *, job: Any = None, victims: Any = None) -> tuple[float, ...]:
        return (self.numbers[queue],)

    def columns(self, queues: Any, *, held: Any, jobs: Any) -> Any:
        return (np.array(self.numbers)[queues],) if self.foreseen else None


def first_queues(state: Any, *, off: Sequence[str] = (), ahead: bool = False) -> list[str]:
    """From which queues the first jobs are served, with or without a look ahead."""
    session = Engine(config(off=off)).open(state, NOW)
    jobs = session.allocatable_jobs()
    waiting = session.lookahead_jobs(jobs) if ahead else session.jobs_in_order(jobs)
    found = [waiting.pop() for _ in range(3)]
    return [job.queue.name for job in found if job is not None]


@pytest.mark.parametrize("ahead", [False, True])
def test_without_proportion_the_older_queue_is_served_first(ahead: bool) -> None:
    state = a_state(QUEUES)
    assert first_queues(state, ahead=ahead)[0] == "young"
    assert first_queues(state, off=["proportion"], ahead=ahead)[0] == "old"


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("foreseen", [False, True])
def test_another_ranking_counts_where_those_before_it_are_equal(also, ahead: bool, foreseen: bool) -> None:
    state = a_state(QUEUES)
    also(ByName(state, "old", foreseen=foreseen))
    assert first_queues(state, ahead=ahead) == ["young"] * 3
    also(ByName(state, "young", foreseen=foreseen))
    assert first_queues(state, off=["proportion"], ahead=ahead) == ["young"] * 3
    also(ByName(state, foreseen=foreseen), ByName(state, "young", foreseen=foreseen))
    assert first_queues(state, off=["proportion"], ahead=ahead) == ["young"] * 3
    also(ByName(state, "old", foreseen=foreseen), ByName(state, "young", foreseen=foreseen))
    assert first_queues(state, off=["proportion"], ahead=ahead) == ["old"] * 3


def test_the_order_that_is_foreseen_is_that_of_taking_jobs_one_by_one(also) -> None:
    served = []
    for foreseen in (False, True):
        state = a_state(a_node("n", gpus=24, cpu="99", memory="99G"), QUEUES[1:])
        also(ByName(state, foreseen=foreseen))
        served.append(list(decided(state).binds))
    assert served[0] == served[1]
    assert len(served[0]) == 24


def test_victims_are_taken_from_the_queue_that_is_served_last(also) -> None:
    world = [
        a_node("n", gpus=2),
        a_queue("top", gpu=2),
        a_queue("old", parent="top", gpu=0, created=1),
        a_queue("young", parent="top", gpu=0, created=2),
        a_queue("poor", parent="top", gpu=1),
        a_job("of-old", queue="old", on="n", gpus=1),
        a_job("of-young", queue="young", on="n", gpus=1),
        a_job("waits", queue="poor", gpus=1),
    ]
    state = a_state(world)
    also(Says())
    assert decided(a_state(world), config(off=["proportion"])).evicts == {"of-young-0"}
    also(Says(), ByName(state, "young"))
    assert decided(state, config(off=["proportion"])).evicts == {"of-old-0"}
