"""Zones of those who leave: theirs until they are gone, and a kubelet refuses for good who comes sooner."""

from dataclasses import replace

import pytest

from kai.config import PluginOption
from kai.engine import Engine, SchedulerConfig
from kai.engine.plugins.numa import NumaZones
from libs.tests.engine.builders import (
    NOW,
    Decided,
    a_job,
    a_running,
    a_state,
    decided,
    leaving,
    task_of,
    urgent,
)
from libs.tests.engine.numa.builders import a_zoned_node, in_zone

ALIGNED = replace(SchedulerConfig(), plugins=(*SchedulerConfig().plugins, PluginOption("numa", {})))
DAY = NOW + 86_400


def beside(other):
    """One more has a GPU of the first zone; zones have two, so one is idle in each."""
    return a_state(
        a_zoned_node(gpus=2, left=["2", "2"]),
        in_zone(0, a_running("stays", on="n", priority="build")),
        in_zone(1, other),
        a_job("ours", gpus=2),
    )


def one_in_each_zone():
    """Two pods have a GPU of one zone each, and another one wants both of a zone."""
    return a_state(
        a_zoned_node(gpus=2, left=["2", "2"]),
        in_zone(0, a_running("first", on="n")),
        in_zone(1, a_running("second", on="n")),
        a_job("ours", gpus=2),
    )


def test_who_finds_room_in_a_zone_only_once_another_is_gone_waits_though_as_much_is_idle_on_the_node():
    assert decided(beside(leaving("gone", on="n", gpus=1)), ALIGNED) == Decided(waits={"ours-0": "n"})


@pytest.mark.parametrize("deleted", [DAY, NOW - 300], ids=["tomorrow", "long ago"])
def test_who_takes_long_to_end_has_his_zone_and_nobody_waits_for_it(deleted):
    assert decided(beside(a_job("lingers", on="n", gpus=1, deleted=deleted)), ALIGNED) == Decided()


def test_who_finds_room_in_another_zone_begins_there_at_once():
    state = a_state(
        a_zoned_node(left=["1", "1"]), in_zone(0, leaving("gone", on="n", gpus=1)), a_job("ours", gpus=1)
    )
    [bind] = Engine(ALIGNED).run(state, NOW).binds
    assert [zone["zone"] for zone in bind.numa_zones] == ["node-1"]


def test_zones_of_who_is_evicted_are_waited_for():
    state = a_state(
        a_zoned_node(left=["1", "1"]),
        in_zone(0, a_running("first", on="n")),
        in_zone(1, a_running("second", on="n")),
        urgent("ours"),
    )
    found = decided(state, ALIGNED)
    assert (found.waits, len(found.evicts), found.binds) == ({"ours-0": "n"}, 1, {})


def test_a_pod_moves_to_another_zone_of_its_node_only_by_being_evicted():
    found = decided(one_in_each_zone(), ALIGNED)
    assert found == Decided(evicts=frozenset({"second-0"}), waits={"ours-0": "n", "second-0": "n"})


def test_what_is_taken_back_leaves_zones_as_they_were():
    state = one_in_each_zone()
    session = Engine(ALIGNED).open(state, NOW)
    ours, victim, node = task_of(state, "ours-0"), task_of(state, "second-0"), state.nodes.nodes[0]
    zones = next(each for each in session.plugins.trackers if isinstance(each, NumaZones))
    statement = session.statement()
    found = []
    for _ in range(2):
        found.append((zones.check(ours, node) is None, zones.zones_of(victim)))
        statement.evict(victim)
        found.append((zones.check(ours, node) is None, zones.waits(ours, node)))
        statement.rollback()
    assert found == [(False, {1}), (True, True)] * 2
