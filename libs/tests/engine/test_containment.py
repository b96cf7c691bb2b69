"""A cycle that fails over one object sets it aside and serves everybody else as if it were not there."""

import itertools
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from kai.bench.worlds import NOW, World
from kai.config import PluginOption
from kai.engine import Engine
from kai.engine import engine as engines
from kai.engine.actions import stalegangeviction
from kai.engine.containment import cycles
from kai.engine.explain import outcomes as found
from kai.engine.framework import allocation as placing
from kai.engine.framework.session import Session
from kai.engine.framework.statement import Statement
from kai.engine.plugins import OPENERS
from kai.engine.plugins.elastic import Elastic
from kai.model.decisions import Outcome
from kai.model.failures import FailedOver
from kai.model.faults import SET_ASIDE, Fault
from kai.model.objects import SubGroup
from kai.snapshot import codec
from kai.snapshot.ledger.charges import QueueCharges
from kai.snapshot.ledger.holds import NodeHolds
from kai.snapshot.rows import Job, Task
from kai.snapshot.state import Kind
from libs.tests.engine.builders import Part, a_group, a_job, a_node, a_pod, a_queue, add, bound, one_node
from libs.tests.engine.random_worlds import WORLDS

POISON = "default/poison"


class Boom(Exception):
    """Raised over whoever is poisoned."""


def _key(value) -> str:
    if isinstance(value, Job):
        return value.key
    if isinstance(value, Task):
        return value.job.key if value.job is not None else value.key
    return ""


def fails_over(keys, owner, name, *, after=False, raises=Boom):
    """Patch a function so that it raises where it is called about certain jobs, perhaps half-way."""
    original = getattr(owner, name)

    def poisoned(*args, **more):
        about = {_key(value) for value in args} & set(keys)
        if about and after:
            original(*args, **more)
        if about:
            raise raises("poisoned")
        return original(*args, **more)

    return mock.patch.object(owner, name, poisoned)


PLACES = {
    "its order": (Elastic, "rank", False),
    "its limits": (Session, "over_capacity", False),
    "its chunk": (placing, "tasks_to_allocate", False),
    "its place on a node": (NodeHolds, "hold", True),
    "its charge": (QueueCharges, "charge", True),
    "its outcome": (found, "_annotations", False),
    "its staleness": (stalegangeviction, "is_short", False),
}


def contained() -> Engine:
    engine = Engine(contained=True)
    engine.validate = True
    return engine


def made_anew(obj):
    """Another object of the same name."""
    return structs.replace(obj, metadata=structs.replace(obj.metadata, uid=f"{obj.metadata.uid}-anew"))


def set_aside(result) -> dict[str, str]:
    return {fault.key: fault.reason for fault in result.faults}


@pytest.mark.parametrize("where", PLACES)
def test_whatever_fails_over_a_job_everybody_else_is_served_in_the_same_cycle(where: str) -> None:
    owner, name, after = PLACES[where]
    state = one_node()
    for each in ("before", "poison", "zz-after"):
        add(state, a_job(each, Part("x", pods=1), Part("y", pods=1), gpus=1))
    with fails_over([POISON], owner, name, after=after):
        result = contained().run(state, NOW)
    state.check()
    assert sorted(bound(result)) == ["before-x-0", "before-y-0", "zz-after-x-0", "zz-after-y-0"]
    assert set_aside(result) == {POISON: "SetAside"}
    (outcome,) = [each for each in result.outcomes if each.pod_group == POISON]
    assert outcome.outcome is Outcome.UNSCHEDULABLE
    assert "poisoned" in outcome.message
    ((fault, traceback),) = result.setbacks
    assert fault.key == POISON
    assert "Boom" in traceback


@pytest.mark.parametrize(
    "error", [RecursionError, OverflowError, MemoryError, AssertionError, ZeroDivisionError]
)
def test_whatever_kind_of_error_it_is(error: type[Exception]) -> None:
    state = one_node()
    add(state, a_job("poison", gpus=1))
    add(state, a_job("other", gpus=1))
    with fails_over([POISON], Session, "over_capacity", raises=error):
        assert sorted(bound(contained().run(state, NOW))) == ["other-0"]


def test_a_tree_of_subgroups_too_deep_to_be_walked_stops_nobody_else() -> None:
    state = one_node()
    deep = [SubGroup(name="s0")]
    deep += [SubGroup(name=f"s{n}", parent=f"s{n - 1}") for n in range(1, 1500)]
    with mock.patch("kai.snapshot.bounds.check"):  # which refuses such a tree
        state.apply(Kind.POD_GROUP, a_group("poison", queue="team", sub_groups=deep))
    state.apply(Kind.POD, a_pod("poison-0", group="poison", gpus=1, sub_group="s1499"))
    add(state, a_job("other", gpus=1))
    result = contained().run(state, NOW)
    assert sorted(bound(result)) == ["other-0"]
    assert set_aside(result) == {POISON: "SetAside"}


def test_an_engine_that_contains_nothing_raises() -> None:
    state = one_node()
    add(state, a_job("poison", gpus=1))
    with fails_over([POISON], Session, "over_capacity"), pytest.raises(Boom):
        Engine().run(state, NOW)


def test_a_victim_whose_evaluation_fails_is_spared_and_others_are_taken() -> None:
    state = one_node(a_queue("team", gpu=1), a_queue("other", gpu=1), gpus=2)
    for name in ("poison", "other"):
        add(state, a_job(name, gpus=1, on="n", started=NOW - 9000))
    add(state, a_job("taker", gpus=1, queue="other"))
    with fails_over([POISON], Statement, "evict", after=True):
        result = contained().run(state, NOW)
    state.check()
    assert [each.pod.name for each in result.evictions] == ["other-0"]
    assert state.tasks["default-poison-0"].node is not None
    assert state.queues["team"].allocated.gpu_centi == 100


def test_what_is_set_aside_is_tried_again_after_a_pause_that_grows() -> None:
    state, engine = one_node(), contained()
    add(state, a_job("poison", gpus=1))
    with fails_over([POISON], Session, "over_capacity"):
        tried = [second for second in range(200) if engine.run(state, NOW + second).setbacks]
    assert len(tried) >= 4
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 2 * pauses[0]
    result = engine.run(state, NOW + 10_000)
    assert sorted(bound(result)) == ["poison-0"]
    assert result.faults == ()


def test_what_has_failed_for_weeks_is_due_as_late_as_ever() -> None:
    fault = Fault(kind="PodGroup", key=POISON, uid="poison", reason=SET_ASIDE, message="failed")
    assert cycles._Aside(fault, 5000, NOW).due == NOW + cycles.LONGEST_PAUSE_SECONDS


def test_after_the_clock_went_back_it_is_tried_again_as_if_it_had_failed_then() -> None:
    state, engine = one_node(), contained()
    add(state, a_job("poison", gpus=1))
    with fails_over([POISON], Session, "over_capacity"):
        engine.run(state, NOW)
    before = NOW - 86_400
    assert before < engine.run(state, before).next_due <= before + 10
    assert sorted(bound(engine.run(state, before + 10))) == ["poison-0"]


def test_the_cycle_after_which_it_is_tried_again_is_due_then() -> None:
    state, engine = one_node(), contained()
    add(state, a_job("poison", gpus=1))
    with fails_over([POISON], Session, "over_capacity"):
        assert NOW < engine.run(state, NOW).next_due <= NOW + 10


def test_what_is_set_aside_is_tried_again_soon_when_it_changes() -> None:
    state, engine = one_node(), contained()
    add(state, a_job("poison", gpus=1))
    with fails_over([POISON], Session, "over_capacity"):
        engine.run(state, NOW)
    assert not bound(engine.run(state, NOW + 3))
    state.apply(Kind.POD, a_pod("poison-0", group="poison", gpus=2, created=NOW - 10))
    assert sorted(bound(engine.run(state, NOW + 4))) == ["poison-0"]


def test_a_job_that_changes_all_the_time_is_not_tried_all_the_time() -> None:
    state, engine = one_node(), contained()
    add(state, a_job("poison", gpus=1))
    tried = 0
    with fails_over([POISON], Session, "over_capacity"):
        for tenth in range(300):
            state.apply(Kind.POD, a_pod("poison-0", group="poison", gpus=1 + tenth % 2, created=NOW - 10))
            tried += bool(engine.run(state, NOW + tenth / 10).setbacks)
    assert tried <= 6


def test_a_job_that_is_gone_is_no_fault_any_more() -> None:
    state, engine = one_node(), contained()
    add(state, a_job("poison", gpus=1))
    with fails_over([POISON], Session, "over_capacity"):
        engine.run(state, NOW)
    state.remove(Kind.POD, "default/poison-0")
    state.remove(Kind.POD_GROUP, POISON)
    assert engine.run(state, NOW + 1).faults == ()


def test_a_job_made_anew_under_the_name_of_one_that_was_set_aside_is_served_at_once() -> None:
    state, engine = one_node(), contained()
    group, pod = a_job("poison", gpus=1)
    add(state, [group, pod])
    with fails_over([POISON], Session, "over_capacity"):
        engine.run(state, NOW)
    state.apply(Kind.POD_GROUP, made_anew(group))
    state.apply(Kind.POD, made_anew(pod))
    result = engine.run(state, NOW + 1)
    assert sorted(bound(result)) == ["poison-0"]
    assert result.faults == ()


def test_many_jobs_of_one_tenant_that_fail_cost_the_others_a_few_cycles_and_no_more() -> None:
    state = one_node()
    poisons = [f"evil/p{number}" for number in range(50)]
    for number in range(50):
        add(state, a_job(f"p{number}", gpus=1, namespace="evil"))
    add(state, a_job("other", gpus=1))
    engine = contained()
    failing = fails_over(poisons, Session, "over_capacity")
    with failing, mock.patch.object(engine, "open", wraps=engine.open) as opened:
        result = engine.run(state, NOW)
    assert sorted(bound(result)) == ["other-0"]
    assert opened.call_count <= 6


def test_an_object_that_only_a_plugin_reads_is_left_out_when_it_fails() -> None:
    state = one_node()
    bad = {"metadata": {"name": "bad", "uid": "u"}, "zones": 7}
    with mock.patch("kai.snapshot.bounds.check"):  # which refuses it
        state.apply(Kind.NODE_RESOURCE_TOPOLOGY, bad)
    add(state, a_job("other", gpus=1))
    engine = contained()
    engine.config = replace(engine.config, plugins=(*engine.config.plugins, PluginOption("numa")))
    result = engine.run(state, NOW)
    assert sorted(bound(result)) == ["other-0"]
    assert set_aside(result) == {"bad": "SetAside"}
    assert result.faults[0].kind == "NodeResourceTopology"
    add(state, a_job("waits", gpus=9))
    with mock.patch("kai.snapshot.bounds.check"):
        tried = [second for second in range(1, 100) if engine.run(state, NOW + second).setbacks]
    assert tried == [10, 30, 70]
    assert set_aside(engine.run(state, NOW + 100)) == {"bad": "SetAside"}
    state.remove(Kind.NODE_RESOURCE_TOPOLOGY, "bad")
    assert not state.faults


def test_a_foreign_pod_that_a_plugin_fails_over_holds_what_it_holds() -> None:
    state = one_node()
    term = {"labelSelector": {"matchLabels": 7}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    odd = a_pod("odd", gpus=3, node="n", scheduler="default-scheduler", spec={"affinity": affinity})
    with mock.patch("kai.snapshot.pod_bounds.check_scheduling"):  # which refuses it
        state.apply(Kind.POD, odd)
    add(state, a_job("other", gpus=5))
    engine = contained()
    result = engine.run(state, NOW)
    state.check()
    assert sorted(bound(result)) == ["other-0"]
    assert set_aside(result) == {"default/odd": "SetAside"}
    assert set_aside(engine.run(state, NOW + 10_000)) == {"default/odd": "SetAside"}
    state.apply(Kind.POD, a_pod("odd", gpus=2, node="n", scheduler="default-scheduler"))
    state.check()
    assert not state.faults


def test_where_nothing_is_known_of_whom_it_failed_over_jobs_are_tried_by_halves() -> None:
    state = one_node()
    for number in range(7):
        add(state, a_job(f"job-{number}", gpus=1))
    add(state, a_job("poison", gpus=1))
    predicates = OPENERS["predicates"]

    def blind(handle):
        if POISON in handle.pending_jobs:
            raise Boom
        return predicates(handle)

    with mock.patch.object(engines, "OPENERS", {**OPENERS, "predicates": blind}):
        result = contained().run(state, NOW)
    state.check()
    assert len(result.binds) == 7
    assert set_aside(result) == {POISON: "SetAside"}


def test_a_failure_that_nothing_cures_is_raised() -> None:
    state = one_node()
    add(state, a_job("other", gpus=1))

    def broken(handle):
        raise Boom

    with mock.patch.object(engines, "OPENERS", {"predicates": broken}), pytest.raises(Boom):
        contained().run(state, NOW)
    state.check()
    assert not state.faults
    assert sorted(bound(contained().run(state, NOW))) == ["other-0"]


def test_what_an_attempt_found_before_it_failed_is_told_by_the_next_one() -> None:
    state, shares = one_node(), found.shares
    add(state, a_job("large", gpus=99))
    add(state, a_job("poison", gpus=1))

    def poisoned(session):
        job = session.state.jobs[POISON]
        if job.aside is None:
            raise Boom
        return shares(session)

    with mock.patch.object(found, "shares", poisoned):
        result = contained().run(state, NOW)
    told = {each.pod_group: each.outcome for each in result.outcomes}
    assert told == {"default/large": Outcome.UNSCHEDULABLE, POISON: Outcome.UNSCHEDULABLE}


def test_whom_an_attempt_would_have_forgotten_before_it_failed_the_next_one_forgets() -> None:
    state, engine = one_node(), contained()
    add(state, a_job("gone", gpus=99), a_job("poison", gpus=1))
    engine.run(state, NOW)
    state.remove(Kind.POD_GROUP, "default/gone")
    with fails_over([POISON], found, "_annotations"):
        assert engine.run(state, NOW + 1).forgotten == ("default/gone",)
    assert engine.run(state, NOW + 2).forgotten == ()


def test_a_question_that_fails_leaves_the_state_as_it_was() -> None:
    state, engine = one_node(gpus=2), contained()
    add(state, a_job("poison", Part("x", pods=2, min_member=2), Part("y", pods=1), gpus=1))
    engine.run(state, NOW)
    before = codec.cut(state).digest
    named = pytest.raises(FailedOver, match=f"PodGroup {POISON}: Boom")
    with fails_over([POISON], Elastic, "rank"), named:
        engine.job_order(state)
    state.check()
    assert codec.cut(state).digest == before
    state.apply(Kind.NODE, a_node("more", gpus=1))
    assert len(engine.run(state, NOW).binds) == 3


def world_without(world: World, key: str) -> World:
    """The world in which a group was never made."""
    return World(
        nodes=world.nodes,
        queues=world.queues,
        groups=[each for each in world.groups if each.key != key],
        pods=[each for each in world.pods if each.annotations.get("pod-group-name") != key.partition("/")[2]],
    )


@contextmanager
def poisoned(key: str, where: str):
    owner, name, after = PLACES[where]
    with fails_over([key], owner, name, after=after):
        yield


@settings(max_examples=60, derandomize=True)
@given(world=WORLDS, where=st.sampled_from(sorted(PLACES)), data=st.data())
def test_others_are_decided_about_as_in_the_world_without_the_poisoned_job(world, where, data) -> None:
    held = {each.annotations.get("pod-group-name") for each in world.pods if each.spec.node_name}
    waiting = [each.key for each in world.groups if each.metadata.name not in held]
    assume(waiting)
    key = data.draw(st.sampled_from(waiting))
    state = world.state()
    with poisoned(key, where):
        result = contained().run(state, NOW)
    state.check()
    assume(result.setbacks)
    assert set(set_aside(result)) == {key}
    other = world_without(world, key).state()
    expected = Engine().run(other, NOW)
    for name in ("binds", "evictions", "nominations", "shares"):
        assert getattr(result, name) == getattr(expected, name), name
    told = [each for each in result.outcomes if each.pod_group != key]
    assert told == list(expected.outcomes)
    assert state.nodes.idle.tolist() == other.nodes.idle.tolist()
