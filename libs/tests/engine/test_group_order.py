"""Which pods and subgroups of a group go first, with each plugin that has a say on and off."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from kai.config import PluginOption
from kai.engine import Engine, SchedulerConfig
from kai.model import names
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import (
    NOW,
    Part,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_state,
    add,
    decided,
    without,
)

#: The pod with the label is the youngest and the last by name, so that only the label can make it the first.
LABELLED = {
    "kubeflow": {names.KUBEFLOW_JOB_ROLE_LABEL: "launcher"},
    "ray": {names.RAY_NODE_TYPE_LABEL: "head"},
    "taskorder": {names.TASK_PRIORITY_LABEL: "-5"},
}


def cluster(*, gpus: int) -> ClusterState:
    return a_state(a_queue("team"), a_node("n", gpus=gpus))


def served(state: ClusterState, config: SchedulerConfig) -> list[str]:
    return list(decided(state, config).binds)


def an_elastic_group(labels: dict[str, dict[str, str]], pods: Iterable[str]) -> ClusterState:
    """Room for one of its pods, whichever goes first."""
    members = [
        a_pod(name, group="job", gpus=1, created=age, labels=labels.get(name))
        for age, name in enumerate(pods)
    ]
    return a_state(a_node("n", gpus=1), a_group("job", queue="team"), members)


@pytest.mark.parametrize("plugin", list(LABELLED))
def test_a_pod_goes_first_by_its_label_only_while_the_plugin_is_on(plugin: str) -> None:
    labels = {"z": LABELLED[plugin]}
    assert served(an_elastic_group(labels, "az"), SchedulerConfig()) == ["z"]
    assert served(an_elastic_group(labels, "az"), without(plugin)) == ["a"]


@pytest.mark.parametrize("plugin", list(LABELLED))
def test_a_pod_that_goes_first_is_the_last_to_be_evicted_only_while_the_plugin_is_on(plugin: str) -> None:
    def evicted(config: SchedulerConfig) -> list[str]:
        state = cluster(gpus=2)
        state.apply(Kind.POD_GROUP, a_group("low", queue="team", min_member=1, started=NOW - 500))
        for age, name in enumerate("az"):
            told = LABELLED[plugin] if name == "z" else None
            state.apply(Kind.POD, a_pod(name, group="low", gpus=1, created=age, labels=told, node="n"))
        state.apply(Kind.POD_GROUP, a_group("high", queue="team", priority="inference"))
        state.apply(Kind.POD, a_pod("high", group="high", gpus=1))
        return [each.pod.name for each in Engine(config).run(state, NOW).evictions]

    assert evicted(SchedulerConfig()) == ["a"]
    assert evicted(without(plugin)) == ["z"]


def test_plugins_count_in_the_order_in_which_they_are_named() -> None:
    labels = {"leader": LABELLED["kubeflow"], "wanted": LABELLED["taskorder"]}
    plain = without("kubeflow", "taskorder")
    for first, second, expected in (("kubeflow", "taskorder", "leader"), ("taskorder", "kubeflow", "wanted")):
        named = (*plain.plugins, PluginOption(first), PluginOption(second))
        state = an_elastic_group(labels, ("wanted", "leader"))
        assert served(state, replace(plain, plugins=named)) == [expected]


def test_another_configuration_reorders_what_was_read_before() -> None:
    state = an_elastic_group({"z": LABELLED["ray"]}, "az")
    state.apply(Kind.NODE, a_node("n", gpus=0))
    assert served(state, SchedulerConfig()) == []
    state.apply(Kind.NODE, a_node("n", gpus=1))
    assert served(state, without("ray")) == ["a"]


@pytest.mark.parametrize("config", [SchedulerConfig(), without("taskorder")], ids=["on", "off"])
def test_a_priority_that_is_no_number_is_refused_whether_or_not_it_counts(config: SchedulerConfig) -> None:
    state = cluster(gpus=1)
    Engine(config).run(state, NOW)
    pod = a_pod("p", group="job", labels={names.TASK_PRIORITY_LABEL: "high"})
    fault = state.take(Kind.POD, pod)
    assert fault is not None
    assert names.TASK_PRIORITY_LABEL in fault.message


def two_subgroups(state: ClusterState) -> ClusterState:
    """`a` has its one pod and may grow, `b` lacks its one; there is room for one pod more."""
    parts = (Part("a", on=["n", ""]), Part("b"))
    add(state, a_job("job", *parts, gpus=1, group={"min_sub_group": 1}))
    return state


def test_a_subgroup_below_its_minimum_goes_first_only_while_subgrouporder_is_on() -> None:
    assert served(two_subgroups(cluster(gpus=2)), SchedulerConfig()) == ["job-b-0"]
    assert served(two_subgroups(cluster(gpus=2)), without("subgrouporder")) == ["job-a-1"]


def test_a_group_that_comes_later_goes_by_the_order_in_force() -> None:
    state, config = cluster(gpus=2), without("subgrouporder")
    Engine(config).run(state, NOW)
    assert served(two_subgroups(state), config) == ["job-a-1"]


@pytest.mark.parametrize("generators", [("sg-nodelocalgreedy",), ("sg-multinodegang",), ()])
def test_victims_are_searched_by_the_generators_that_are_on(generators: tuple[str, ...]) -> None:
    off = {"sg-nodelocalgreedy", "sg-multinodegang"} - set(generators)
    low, high = a_job("low", gpus=1, on="n"), a_job("high", gpus=1, priority="inference")
    state = a_state(a_node("n", gpus=1), low, high)
    assert decided(state, without(*off)).evicts == ({"low-0"} if generators else set())
