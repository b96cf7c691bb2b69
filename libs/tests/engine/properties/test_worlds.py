"""What must hold over random clusters, judged from the API objects alone."""

import random
from collections import Counter
from unittest import mock

from hypothesis import note

from kai.bench import audit
from kai.bench.worlds import NOW, World
from kai.config import EngineParams, PluginOption
from kai.config.plugin_table import DEFAULT_PLUGINS
from kai.engine import Engine, SchedulerConfig
from kai.engine.actions import ACTIONS
from kai.engine.framework.decisions import Decisions
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.random_worlds import WORLDS, advance, annotate, fuzz

#: What waits for room is promised it in memory only; a state that is built anew knows of no promise.
WITHOUT_PROMISES = SchedulerConfig(
    plugins=tuple(PluginOption(name) for name in DEFAULT_PLUGINS if name != "nominatednode"),
    params=EngineParams(keep_nominations=False),
)
SAME = ("binds", "evictions", "nominations", "outcomes", "shares")


@fuzz(worlds=WORLDS)
def test_decisions_are_possible_and_permitted(world: World) -> None:
    state, engine = world.state(), Engine()
    give_up = Decisions._give_up_turn
    with mock.patch.object(Decisions, "_give_up_turn", autospec=True, side_effect=give_up) as given_up:
        result = engine.run(state, NOW)
    state.check()
    note(str(world))
    assert audit.problems(world, result, taken_over=given_up.called) == []


@fuzz(worlds=WORLDS)
def test_all_sums_are_right_after_every_action(world: World) -> None:
    state, engine = world.state(), Engine()
    session = engine.open(state, NOW)
    for action in engine.config.actions:
        ACTIONS[action](session)
        state.check()
        assert overfull_devices(state) == [], action
    session.close()
    state.check()


def overfull_devices(state: ClusterState) -> list[tuple[str, str]]:
    """Shared devices of which more is promised than there will be."""
    return [
        (node.name, device)
        for node in state.nodes.nodes
        for device, shared in node.groups.items()
        if shared.free_mib(node.gpu_memory_mib) < 0
    ]


@fuzz(worlds=WORLDS)
def test_equal_input_gives_equal_output_in_whatever_order_it_comes(world: World) -> None:
    first = Engine().run(world.state(), NOW)
    again = Engine().run(world.state(), NOW)
    objects = world.objects()
    random.Random(len(objects)).shuffle(objects)
    state = ClusterState()
    for kind, obj in objects:
        state.apply(kind, obj)
    shuffled = Engine().run(state, NOW)
    note(str(world))
    for field in SAME:
        assert getattr(first, field) == getattr(again, field) == getattr(shuffled, field), field


@fuzz(worlds=WORLDS)
def test_a_state_that_is_kept_over_cycles_decides_as_one_built_anew(world: World) -> None:
    """Five rounds; each time what was decided has happened, and the kept state hears of it by events."""
    engine, kept = Engine(WITHOUT_PROMISES), world.state()
    note(str(world))
    for number in range(5):
        fresh = world.state()
        now = NOW + number
        warm, cold = engine.run(kept, now), Engine(WITHOUT_PROMISES).run(fresh, now)
        for field in ("binds", "evictions", "nominations", "shares"):
            assert getattr(warm, field) == getattr(cold, field), (number, field)
        for pod in advance(world, cold):
            kept.apply(Kind.POD, pod)
        for group in annotate(world, cold):
            kept.apply(Kind.POD_GROUP, group)
        kept.check()


@fuzz(share=0.5, worlds=WORLDS)
def test_rounds_come_to_rest_without_endless_evictions(world: World) -> None:
    quiet, seen = 0, Counter()
    engine, state = Engine(), world.state()
    note(str(world))
    for number in range(50):
        result = engine.run(state, NOW + number)
        seen.update(each.action for each in result.evictions)
        for pod in advance(world, result):
            state.apply(Kind.POD, pod)
        quiet = quiet + 1 if not result.evictions and not result.binds else 0
        if quiet >= 2:
            return
    raise AssertionError(f"evictions go on: {dict(seen)}")
