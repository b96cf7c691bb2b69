"""What each name in a configuration is good for: the same world, decided with it and without it.

Of what is built in each name needs a case. A plugin is opened only while it is listed, which is tried for all
alike, so one whose own tests say what it does needs none here. Names that are built in and not here:
``test_group_order.py`` has those that order the pods of a group and the generators of scenarios,
``services/tests/scheduler/test_debug_server.py`` those that only serve a page.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from kai.config import PluginOption
from kai.config.plugin_table import PLUGINS
from kai.engine import Engine, SchedulerConfig
from kai.engine.plugins import OPENERS
from kai.model.numa import NodeResourceTopology
from kai.model.objects import PodResourceClaim, Taint
from kai.snapshot.state import Kind
from libs.tests.engine.builders import (
    NOW,
    Decided,
    a_constraint,
    a_job,
    a_node,
    a_queue,
    a_state,
    decided,
    nodes,
    without,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ELSEWHERE = {
    *("kubeflow", "ray", "taskorder", "subgrouporder", "sg-nodelocalgreedy", "sg-multinodegang"),
    *("snapshot", "reflectjoborder"),
}


@dataclass(frozen=True)
class Switched:
    """A world, and what is decided with a plugin and without it; ``off`` are names that are off in both."""

    world: list[Any]
    on: Decided
    without: Decided
    off: Collection[str] = ()


def preferring(label: str) -> dict[str, Any]:
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": label, "operator": "Exists"}]}}
    return {"affinity": {"nodeAffinity": {PREFERRED: [term]}}}


def a_zoned_node(name: str) -> list[Any]:
    """Two zones with a GPU each, and pods that are to stay within one."""
    one = [{"name": "nvidia.com/gpu", "allocatable": "1", "available": "1"}]
    told = {
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [{"name": f"node-{at}", "type": "Node", "resources": one} for at in (0, 1)],
    }
    return [
        a_node(name, gpus=2),
        (Kind.NODE_RESOURCE_TOPOLOGY, msgspec.convert(told, NodeResourceTopology)),
    ]


def tainted(name: str) -> Any:
    node = a_node(name, gpus=1)
    node.spec.taints = [Taint(key="for", value="others", effect="NoSchedule")]
    return node


RICH = [a_queue("top"), a_queue("team", parent="top", gpu=1), a_queue("rich", parent="top", gpu=0)]
WAITS = Decided()
CASES: dict[str, Switched] = {
    "predicates": Switched([tainted("n"), a_job("job", gpus=1)], WAITS, Decided(binds={"job-0": "n"})),
    "proportion": Switched(
        [a_queue("team", parent="top", limit=0), nodes(1, gpus=1), a_job("job", gpus=1)],
        WAITS,
        Decided(binds={"job-0": "n0"}),
    ),
    "priority": Switched(
        [
            nodes(1, gpus=1),
            a_job("old", gpus=1, created=1),
            a_job("high", gpus=1, created=2, priority="build-preemptible"),
        ],
        Decided(binds={"high-0": "n0"}),
        Decided(binds={"old-0": "n0"}),
    ),
    "nodeavailability": Switched(
        [nodes(2, gpus=1), a_job("ends", gpus=1, on="n0", deleted=NOW - 1), a_job("job", gpus=1)],
        Decided(binds={"job-0": "n1"}),
        Decided(waits={"job-0": "n0"}),
    ),
    "resourcetype": Switched(
        [a_node("gpus", gpus=1, cpu="2"), a_node("plain", gpus=0, cpu="64"), a_job("job")],
        Decided(binds={"job-0": "plain"}),
        Decided(binds={"job-0": "gpus"}),
        off=["gpusharingorder"],
    ),
    "podaffinity": Switched(
        [
            a_node("n0", gpus=1),
            a_node("n1", gpus=4, labels={"good": ""}),
            a_job("job", gpus=1, spec=preferring("good")),
        ],
        Decided(binds={"job-0": "n1"}),
        Decided(binds={"job-0": "n0"}),
    ),
    "elastic": Switched(
        [
            nodes(1, gpus=2),
            a_job("grows", gpus=1, on=["n0", ""], min_member=1, created=1),
            a_job("starts", gpus=1, created=2),
        ],
        Decided(binds={"starts-0": "n0"}),
        Decided(binds={"grows-1": "n0"}),
    ),
    "dynamicresources": Switched(
        [
            nodes(1, gpus=1),
            a_job(
                "job", spec={"resource_claims": [PodResourceClaim(name="gpu", resource_claim_name="none")]}
            ),
        ],
        WAITS,
        Decided(binds={"job-0": "n0"}),
    ),
    "minruntime": Switched(
        [
            [*RICH[:2], a_queue("rich", parent="top", gpu=0, reclaim_min_runtime="1h")],
            nodes(1, gpus=1),
            a_job("old", gpus=1, queue="rich", on="n0", started=NOW - 60),
            a_job("job", gpus=1),
        ],
        WAITS,
        Decided(evicts={"old-0"}, waits={"job-0": "n0"}),
    ),
    "topology": Switched(
        [nodes(1, gpus=1), a_job("job", gpus=1, group={"topology": a_constraint(required="rack")})],
        WAITS,
        Decided(binds={"job-0": "n0"}),
    ),
    "nodeplacement": Switched(
        [a_node("n0", gpus=4), a_node("n1", gpus=1), a_job("job", gpus=1)],
        Decided(binds={"job-0": "n1"}),
        Decided(binds={"job-0": "n0"}),
    ),
    "gpusharingorder": Switched(
        [
            a_node("n0", gpus=1, gpu_memory_mib=40_000),
            a_node("n1", gpus=4, gpu_memory_mib=40_000),
            a_job("half", fraction=0.5, on="n1", groups=("a",)),
            a_job("job", fraction=0.5),
        ],
        Decided(binds={"job-0": "n1"}),
        Decided(binds={"job-0": "n0"}),
    ),
    "numa": Switched([a_zoned_node("n"), a_job("job", gpus=2)], WAITS, Decided(binds={"job-0": "n"})),
    "gpujoborder": Switched(
        [
            nodes(1, gpus=3),
            a_job("large", gpus=2, on="n0", created=1),
            a_job("small", gpus=1, on="n0", created=2),
            a_job("job", gpus=1, priority="inference"),
        ],
        Decided(evicts={"large-0"}, waits={"job-0": "n0"}),
        Decided(evicts={"small-0"}, waits={"job-0": "n0"}),
    ),
}


def with_and_without(name: str, *, off: Collection[str] = ()) -> tuple[SchedulerConfig, SchedulerConfig]:
    plain = without(name, *off)
    named = [each for each in SchedulerConfig().plugins if each.name not in off]
    if PLUGINS[name].priority is None:
        named.append(PluginOption(name))
    return replace(plain, plugins=tuple(named)), plain


def test_every_name_that_is_built_in_has_its_case() -> None:
    known = {*CASES, "gpupack", "gpuspread", "nominatednode", *ELSEWHERE}
    assert known <= set(PLUGINS)
    assert set(PLUGINS) - set(OPENERS) <= known


@pytest.mark.parametrize("name", OPENERS)
def test_a_plugin_is_opened_only_while_its_name_is_listed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[bool] = []
    monkeypatch.setitem(OPENERS, name, lambda handle: opened.append(True) or ())
    on, off = with_and_without(name)
    decided(a_state(nodes(1), a_job("job")), on)
    assert opened == [True]
    decided(a_state(nodes(1), a_job("job")), off)
    assert opened == [True]


@pytest.mark.parametrize("name", CASES)
def test_a_name_counts_only_while_it_is_listed(name: str) -> None:
    case = CASES[name]
    on, off = with_and_without(name, off=case.off)
    assert decided(a_state(case.world), on) == case.on
    assert decided(a_state(case.world), off) == case.without


NEAR = {
    "weight": 1,
    "podAffinityTerm": {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "db"}}},
}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "host",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
EVEN = {**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("spec", "off", "node"),
    [
        ({"affinity": {"podAffinity": {PREFERRED: [NEAR]}}}, [], "n1"),
        ({"affinity": {"podAffinity": {PREFERRED: [NEAR]}}}, ["podaffinity"], "n0"),
        ({"affinity": {"podAffinity": {PREFERRED: [NEAR]}}}, ["predicates"], "n1"),
        ({"topology_spread_constraints": [SPREAD]}, [], "n1"),
        ({"topology_spread_constraints": [SPREAD]}, ["podaffinity"], "n0"),
        ({"topology_spread_constraints": [SPREAD]}, ["predicates"], "n1"),
        ({"affinity": {"podAffinity": {REQUIRED: [NEAR["podAffinityTerm"]]}}}, ["podaffinity"], "n1"),
        ({"affinity": {"podAffinity": {REQUIRED: [NEAR["podAffinityTerm"]]}}}, ["predicates"], "n0"),
        ({"topology_spread_constraints": [EVEN]}, ["podaffinity"], "n1"),
        ({"topology_spread_constraints": [EVEN]}, ["predicates"], "n0"),
        (preferring("good"), [], "n1"),
        (preferring("good"), ["podaffinity"], "n0"),
        (preferring("good"), ["predicates"], "n1"),
    ],
)
def test_what_pods_require_of_others_counts_while_predicates_is_on_and_what_they_prefer_while_podaffinity_is(
    spec: dict[str, Any], off: list[str], node: str
) -> None:
    """n0 is where packing would put the pod."""
    state = a_state(
        a_node("n0", gpus=2, labels={"host": "n0"}),
        a_node("n1", gpus=8, labels={"host": "n1", "good": ""}),
        a_job("web", gpus=1, on="n0", labels={"app": "web"}),
        a_job("db", gpus=1, on="n1", labels={"app": "db"}),
        a_job("job", gpus=1, labels={"app": "web"}, spec=spec),
    )
    assert decided(state, without(*off)).binds == {"job-0": node}


@pytest.mark.parametrize(("name", "used"), [("gpupack", (0.3, 0.6)), ("gpuspread", (0.6, 0.3))])
def test_of_shared_devices_one_is_chosen_only_while_the_plugin_is_on(
    name: str, used: tuple[float, float]
) -> None:
    world = [
        a_node("n", gpus=2, gpu_memory_mib=40_000),
        [a_job(each, fraction=part, on="n", groups=(each,)) for each, part in zip("ab", used, strict=True)],
        a_job("job", fraction=0.2),
    ]
    told = []
    for by in with_and_without(name, off={"gpupack", "gpuspread"} - {name}):
        [bind] = Engine(by).run(a_state(world), NOW).binds
        told.append(bind.gpu_groups)
    assert told == [("b",), ("a",)]


def test_a_promise_that_lapsed_counts_no_more() -> None:
    """Cycle one promises n1, which is lost before it is free; then n0, which packs better, has room too."""
    state = a_state(
        [a_node("n0", gpus=1), a_node("n1", gpus=4)],
        a_job("stays", gpus=1, on="n0"),
        a_job("ends", gpus=4, on="n1", deleted=NOW - 1),
        a_job("job", gpus=1),
    )
    assert decided(state).waits == {"job-0": "n1"}
    state.apply(Kind.NODE, a_node("n1", gpus=4, ready=False))
    assert decided(state, now=NOW + 1).waits == {}
    state.remove(Kind.POD, "default/stays-0")
    state.remove(Kind.POD, "default/ends-0")
    state.apply(Kind.NODE, a_node("n1", gpus=4))
    assert decided(state, now=NOW + 2).binds == {"job-0": "n0"}


def test_a_promised_node_counts_only_while_nominatednode_is_on() -> None:
    """Cycle one promises n1, which is being emptied; then n0, which packs better, has room as well."""
    found = []
    for by in with_and_without("nominatednode"):
        state = a_state(
            [a_node("n0", gpus=1), a_node("n1", gpus=4)],
            a_job("stays", gpus=1, on="n0"),
            a_job("ends", gpus=4, on="n1", deleted=NOW - 1),
            a_job("job", gpus=1),
        )
        assert decided(state, by).waits == {"job-0": "n1"}
        state.remove(Kind.POD, "default/stays-0")
        state.remove(Kind.POD, "default/ends-0")
        found.append(decided(state, by, now=NOW + 1).binds)
    assert found == [{"job-0": "n1"}, {"job-0": "n0"}]
