"""How long plugins take to open and to close, by name."""

import pytest

from kai.engine import Engine
from kai.engine.plugins import OPENERS
from libs.tests.engine.builders import NOW, a_job, a_state, config, nodes


def test_plugins_that_open_and_what_is_built_in_for_one_have_a_time() -> None:
    by = config()
    result = Engine(by).run(a_state(nodes(1), a_job("j", gpus=1)), NOW)
    assert set(result.plugin_timings) == {each.name for each in by.plugins if each.name in OPENERS}
    assert set(result.plugin_closings) == {"proportion"}


@pytest.mark.parametrize("plugin", ["proportion", "predicates", "elastic"])
def test_a_plugin_that_is_off_has_none(plugin) -> None:
    result = Engine(config(off=[plugin])).run(a_state(nodes(1), a_job("j", gpus=1)), NOW)
    assert plugin not in result.plugin_timings
    assert plugin not in result.plugin_closings


def test_the_division_of_the_cluster_is_time_of_the_plugin_that_it_is_made_for(monkeypatch) -> None:
    """As is the opener of it, like that of any other."""
    ticks = iter(range(10**6))
    monkeypatch.setattr("kai.engine.framework.session.time.perf_counter", lambda: float(next(ticks)))
    session = Engine(config()).open(a_state(nodes(1)), NOW)
    assert session.plugin_timings["proportion"] == 2
    assert session.plugin_timings["elastic"] == 1
