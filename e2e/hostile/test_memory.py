"""What is remembered follows what exists: worlds of odd shapes come and go, and nothing of them stays."""

import gc
import random

from e2e.hostile import site
from e2e.hostile.attacks import FORMS, Tenant
from e2e.hostile.footprint import footprint
from e2e.hostile.offline import World
from kai.snapshot.kept import Kept

ROUNDS = 1000
#: What a table may have more elements than it had, and all of them by part: caches are not always full. The
#: largest are the views of 512 classes, with three columns of five nodes each.
SPARE, PART = 512 * 5, 0.1


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
    world.cycle()
    world.cycle()
    gc.collect()
    return footprint(world.state, world.engine)


def test_after_a_thousand_rounds_no_table_of_the_scheduler_has_grown():
    world, early, late = lived(ROUNDS, seed=7)
    grown = {where: (early[where], now) for where, now in late.items() if now > early[where] * 1.1 + SPARE}
    assert not grown
    assert late.total() <= early.total() * (1 + PART) + 3 * SPARE
    assert not world.state.tasks
    assert not world.state.jobs
    assert not world.state.faults
    world.state.check()


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


def test_a_table_that_keeps_what_is_gone_is_found():
    world, early, _ = lived(30, seed=9)
    Kept().get(world.state.kept, None, lambda: [{"n": number} for number in range(5000)])
    late = at_rest(world)
    assert max(late[where] - early[where] for where in late) > SPARE
