"""Which budgets apply to a pod is found once, and is what each selector says of the newest labels."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.engine import Engine
from kai.model.rules import selectors
from kai.model.rules.selectors import selects
from kai.snapshot import budgets
from kai.snapshot.spare import FEW
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import a_job, a_state, add

NOW = 1_900_000_000.0
NOT_X = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}


def a_budget(name: str, selector: Any, *, allowed: int = 0, namespace: str = "default") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }


def put(state: ClusterState, *found: dict[str, Any]) -> None:
    for each in found:
        state.apply(Kind.POD_DISRUPTION_BUDGET, each)


def labelled(**labels: str) -> ClusterState:
    """Pods by name, each with its label ``app``."""
    pods = [a_pod(name, group="group", labels={"app": app}) for name, app in labels.items()]
    return a_state(a_node("node"), a_queue("queue"), a_group("group", queue="queue"), pods)


def applying(state: ClusterState, pod: str) -> int:
    return len(list(state.budgets.of(state.task(f"default/{pod}"))))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The labels about which selectors of budgets were asked, each time."""
    found: list[dict[str, str]] = []
    original = budgets.label_selector

    def watched(selector: Any) -> selectors.Selects:
        matches = original(selector)

        def counted(labels: Any) -> bool:
            found.append(dict(labels))
            return matches(labels)

        return counted

    monkeypatch.setattr(budgets, "label_selector", watched)
    return found


def test_no_cycle_reads_a_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    world = [a_job(f"old-{i}", gpus=1, on="n", labels={"app": f"a{i}"}) for i in range(4)]
    state = a_state(a_node("n", gpus=4), world)
    put(state, *(a_budget(f"b{i}", NOT_X, allowed=9) for i in range(20)))
    add(state, a_job("urgent", gpus=1, priority="build-preemptible"))
    read: list[Any] = []
    original = budgets.label_selector
    monkeypatch.setattr(budgets, "label_selector", lambda each: (read.append(each), original(each))[1])
    assert len(Engine().run(state, NOW).evictions) == 1
    assert not read


def test_a_pod_is_compared_with_budgets_of_its_labels_once_however_often_their_status_changes(
    asked: list[dict[str, str]],
) -> None:
    state = labelled(pod="a7")
    common = {"managed-by": "x"}
    put(state, *(a_budget(f"b{i}", {"matchLabels": common | {"app": f"a{i}"}}) for i in range(100)))
    for allowed in range(3):
        put(state, a_budget("b7", {"matchLabels": common | {"app": "a7"}}, allowed=allowed))
        applying(state, "pod")
    assert len(asked) == 1
    put(state, a_budget("b7", {"matchLabels": {"app": "a7"}}, allowed=5))
    assert [budget.allowed for budget in state.budgets.of(state.task("default/pod"))] == [5]


def test_budgets_after_the_first_that_forbids_an_eviction_are_not_compared(
    asked: list[dict[str, str]],
) -> None:
    world = [a_job(f"old-{i}", gpus=1, on="n", labels={"app": "a"}) for i in range(2)]
    state = a_state(a_node("n", gpus=2), world)
    put(state, *(a_budget(f"b{i}", {}) for i in range(50)))
    add(state, a_job("urgent", gpus=1, priority="build-preemptible"))
    assert len(Engine().run(state, NOW).evictions) == 1
    assert len(asked) == 2


def test_what_a_namespace_compares_in_a_turn_is_bounded_and_goes_on_in_the_next(
    asked: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "REQUIREMENTS", 10)
    pods = [a_pod("pod", group="group", labels={"app": "y"})]
    pods.append(a_pod("pod", namespace="elsewhere", group="group", labels={"app": "y"}))
    state = a_state(a_node("node"), a_queue("queue"), a_group("group", queue="queue"), pods)
    put(state, *(a_budget(f"b{i}", NOT_X) for i in range(12)), a_budget("b", {}, namespace="elsewhere"))
    found = []
    for turn in range(4):
        state.settle(NOW + turn)
        found.append(applying(state, "pod"))
        assert applying(state, "pod") == found[-1]
        assert len(list(state.budgets.of(state.task("elsewhere/pod")))) == 1
    assert found == [5, 10, 12, 12]
    assert len(asked) == 13


def test_a_limited_number_of_budgets_count_for_a_pod(asked: list[dict[str, str]]) -> None:
    state = labelled(pod="y")
    put(state, *(a_budget(f"b{i}", NOT_X, allowed=9) for i in range(3 * budgets.COUNTED)))
    for _ in range(2):
        assert applying(state, "pod") == budgets.COUNTED
    assert len(asked) == budgets.COUNTED


def test_answers_go_with_the_pod_and_with_the_budget() -> None:
    state = labelled(one="x", two="y")
    put(state, a_budget("b", NOT_X), a_budget("c", {}))
    assert (applying(state, "one"), applying(state, "two")) == (1, 2)
    assert state.budgets.remembered() == 2
    state.remove(Kind.POD, "default/one")
    assert state.budgets.remembered() == 1
    state.apply(Kind.POD, a_pod("two", group="group", labels={"app": "x"}))
    assert applying(state, "two") == 1
    put(state, a_budget("c", None))
    assert state.budgets.remembered() == 0
    assert applying(state, "two") == 0
    for key in ("default/b", "default/c", "default/unknown"):
        state.remove(Kind.POD_DISRUPTION_BUDGET, key)
    assert not state.budgets
    assert state.budgets.remembered() == 0


def test_answers_are_forgotten_when_half_of_the_pods_are_gone() -> None:
    state = labelled(**{f"p{i}": "a" for i in range(2 * FEW)})
    put(state, a_budget("b", {}))
    state.settle(NOW)
    assert sum(applying(state, f"p{i}") for i in range(2 * FEW)) == 2 * FEW
    for number in range(FEW):
        state.remove(Kind.POD, f"default/p{number}")
    assert state.budgets.remembered() == FEW
    state.settle(NOW + 1)
    assert state.budgets.remembered() == 0


APPS = ("x", "y", "z")
SELECTORS: list[Any] = [
    None,
    {},
    NOT_X,
    *({"matchLabels": {"app": app}} for app in APPS),
    {"matchLabels": {"app": "x", "other": "y"}},
    {"matchLabels": {"app": "y"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
]


@given(seed=st.integers(0, 2**32))
def test_whatever_comes_and_goes_each_pod_has_the_budgets_that_select_it(seed: int) -> None:
    rng = random.Random(seed)
    state = labelled()
    there: dict[str, dict[str, Any]] = {}
    for _ in range(40):
        name, namespace = f"n{rng.randrange(4)}", rng.choice(("default", "elsewhere"))
        match rng.choice(("pod", "pod", "no pod", "budget", "budget", "no budget")):
            case "pod":
                labels = {key: rng.choice(APPS) for key in ("app", "other") if rng.random() < 0.7}
                state.apply(Kind.POD, a_pod(name, group="group", labels=labels))
            case "no pod":
                state.remove(Kind.POD, f"default/{name}")
            case "budget":
                budget = a_budget(name, rng.choice(SELECTORS), allowed=rng.randrange(3), namespace=namespace)
                there[f"{namespace}/{name}"] = budget
                put(state, budget)
            case "no budget":
                there.pop(f"{namespace}/{name}", None)
                state.remove(Kind.POD_DISRUPTION_BUDGET, f"{namespace}/{name}")
        for task in state.tasks.values():
            expected = [
                each["status"]["disruptionsAllowed"]
                for key, each in there.items()
                if key.startswith("default/") and selects(each["spec"]["selector"], task.labels or {})
            ]
            assert sorted(budget.allowed for budget in state.budgets.of(task)) == sorted(expected)
