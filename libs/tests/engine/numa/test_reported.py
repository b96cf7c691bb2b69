"""Zones where nodes say what is left in them, which they do some time after it is so."""

from dataclasses import replace

import pytest

from kai.config import PluginOption
from kai.engine import SchedulerConfig
from libs.tests.engine.builders import (
    Decided,
    a_job,
    a_node,
    a_running,
    a_state,
    add,
    decided,
    leaving,
    urgent,
)
from libs.tests.engine.numa.builders import a_zoned_node, in_zone

REPORTED = replace(
    SchedulerConfig(),
    plugins=(*SchedulerConfig().plugins, PluginOption("numa", {"reconstructAvailable": "false"})),
)


@pytest.mark.parametrize("left", ["0", "1"], ids=["as before", "as after"])
def test_what_is_being_given_up_is_waited_for_whatever_the_node_says_of_it_yet(left):
    state = a_state(
        a_zoned_node(left=[left, "0"]),
        in_zone(0, leaving("gone", on="n", gpus=1)),
        in_zone(1, a_running("stays", on="n")),
        urgent("ours"),
    )
    assert decided(state, REPORTED) == Decided(waits={"ours-0": "n"})


def test_what_a_node_does_not_report_yet_is_not_given_away_twice():
    state = a_state(
        a_zoned_node(left=["1", "0"]), in_zone(1, a_running("stays", on="n")), a_job("first", gpus=1)
    )
    assert decided(state, REPORTED).binds == {"first-0": "n"}
    add(state, a_node("n", gpus=3), a_job("second", gpus=1))
    assert decided(state, REPORTED) == Decided()


def test_who_runs_has_what_the_node_says():
    state = a_state(
        a_zoned_node(left=["0", "0"]), in_zone(1, a_running("stays", on="n")), a_job("ours", gpus=1)
    )
    assert decided(state, REPORTED) == Decided()
