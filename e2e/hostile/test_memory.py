"""What is remembered follows what exists: worlds of odd shapes come and go, and nothing of them stays."""

import gc
import random

import pytest

from e2e.hostile import site
from e2e.hostile.attacks import FORMS, Tenant
from e2e.hostile.footprint import footprint
from e2e.hostile.offline import World
from kai.model.decisions import PodGroupOutcome
from kai.snapshot.class_table import ClassTable
from kai.snapshot.classes import TaskClass
from kai.snapshot.kept import Carried
from kai.snapshot.queues import NO_QUEUE
from kai.snapshot.spare import forget_spare

ROUNDS = 1000
#: What a table may have more elements than it had: a row for what has no queue, priorities seen since.
SPARE = 40
#: Of what saves work or is told once: elements that there may be. What was told of groups that are gone,
#: nodes that changed, and in all what is known by class of pods.
CACHES = {"KeptValues._carried": 100, "NodeTable.touched": 4 * 5 + 1024, "KeptValues._kept": 512}
#: So many classes may wait for a pod of theirs, and inputs of such.
CLASSES, INPUTS = 512, 1024


def lived(rounds, *, seed):
    """A world after so many attacks that came and went; its tables after a third and now."""
    world, tenant = World(), Tenant(random.Random(seed), site.TENANT_NAMESPACES)
    early = None
    for number in range(rounds):
        _, attack = tenant.draw(FORMS)
        world.attack(attack)
        if number % 4 == 0:
            world.cycle()
        world.remove(attack.manifests)
        if number == rounds // 3:
            early = at_rest(world)
    return world, early, at_rest(world)


def at_rest(world):
    """What is held on to once nothing is left to decide; of what is forgotten for it how much it was."""
    world.cycle()
    world.cycle()
    kept = footprint(world.state.kept, but=(TaskClass, PodGroupOutcome))["KeptValues._kept"]
    classes = footprint(world.state.classes, but=(TaskClass,))
    forget_spare(world.state)
    world.cycle()
    gc.collect()
    found = footprint(world.state, world.engine, but=(PodGroupOutcome,))
    found["KeptValues._kept"] = kept
    found["classes"], found["inputs"] = classes["ClassTable._exact"], classes["ClassTable._quick"]
    return found


def grown(early, late):
    """Tables that have more elements than they may."""
    bounds = {**CACHES, "classes": CLASSES, "inputs": INPUTS}
    return {
        where: (early[where], now)
        for where, now in late.items()
        if now > bounds.get(where, early[where] + SPARE)
    }


def test_after_a_thousand_rounds_no_table_of_the_scheduler_has_grown():
    world, early, late = lived(ROUNDS, seed=7)
    assert not grown(early, late)
    state, fresh = world.state, World().state
    assert not [*state.tasks, *state.jobs, *state.faults, *state.group_objects, *state.classes]
    assert state.queues.keys() - {NO_QUEUE} == fresh.queues.keys()
    assert state.nodes.by_name.keys() == fresh.nodes.by_name.keys()
    assert state.nodes.allocatable.shape == fresh.nodes.allocatable.shape
    assert len(state.resources) == len(fresh.resources)
    state.check()


def test_no_name_that_a_pod_made_up_becomes_a_column():
    world, _, _ = lived(60, seed=8)
    assert world.state.nodes.allocatable.shape[1] == World().state.nodes.allocatable.shape[1]


def test_what_is_over_or_gone_does_not_wait_for_a_garbage_collection():
    world, tenant = World(), Tenant(random.Random(10), site.TENANT_NAMESPACES)
    gc.disable()
    try:
        left = [_left_by(60, world, tenant) for _ in range(2)]
    finally:
        gc.enable()
    # The first have modules loaded, which leaves some hundred.
    assert left[1] < 60


def _left_by(rounds, world, tenant):
    """Objects that only a collection finds after so many attacks."""
    gc.collect()
    for _ in range(rounds):
        _, attack = tenant.draw(FORMS)
        world.attack(attack)
        world.cycle()
        world.remove(attack.manifests)
    return gc.collect()


def _by_the_engine(world):
    world.engine.__dict__.setdefault("leaked", {})[object()] = 1


def _from_cycle_to_cycle(world):
    _LEAKED.of(world.state.kept).append(1)


_LEAKED = Carried(list, copied=list)


@pytest.mark.parametrize("leak", [_by_the_engine, _from_cycle_to_cycle], ids=lambda leak: leak.__name__)
def test_one_entry_that_is_kept_for_each_round_is_found(monkeypatch, leak):
    attacked = World.attack

    def attack(world, attack):
        leak(world)
        attacked(world, attack)

    monkeypatch.setattr(World, "attack", attack)
    _, early, late = lived(180, seed=9)
    assert grown(early, late)


def test_classes_that_are_never_forgotten_are_found(monkeypatch):
    monkeypatch.setattr(ClassTable, "_keep", lambda table, wanted: None)
    world, _, _ = lived(60, seed=9)
    assert len(world.state.classes)
