"""What must hold over random clusters, judged from the API objects alone."""

import functools
import os
import random
from collections import Counter

import msgspec
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

from kai.bench import audit
from kai.bench.worlds import NOW, World, a_world
from kai.engine import Engine, SchedulerConfig
from kai.engine.actions import ACTIONS
from kai.model import names
from kai.model.decisions import CycleResult
from kai.model.objects import Pod, PodGroup
from kai.snapshot.state import ClusterState, Kind

EXAMPLES = int(os.environ.get("KAI_FUZZ_EXAMPLES", "40"))
SEED = int(os.environ.get("KAI_FUZZ_SEED", "0"))
SAME = ("binds", "evictions", "nominations", "outcomes", "shares")


def fuzz(test, *, share=1.0):
    """A property of random worlds: as many, and from the seed, that the environment says."""
    test = given(world=st.randoms(use_true_random=False).map(a_world))(test)
    if SEED:
        test = seed(SEED)(test)
    examples = max(int(EXAMPLES * share), 1)
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=not SEED,
        print_blob=True,
        report_multiple_bugs=False,
    )(test)


@fuzz
def test_decisions_are_possible_and_permitted(world: World) -> None:
    state, engine = world.state(), Engine()
    result = engine.run(state, NOW)
    state.check()
    note(str(world))
    assert audit.problems(world, result) == []


@fuzz
def test_all_sums_are_right_after_every_action(world: World) -> None:
    state, engine = world.state(), Engine()
    session = engine.open(state, NOW)
    for action in engine.config.actions:
        ACTIONS[action](session)
        state.check()
    session.close()
    state.check()


@fuzz
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


@fuzz
def test_reclaim_leaves_the_taker_less_saturated_than_those_it_took_from(world: World) -> None:
    """Where two queues part, after one reclaim: over its share only if still below the other's saturation."""
    result = Engine(SchedulerConfig(actions=("reclaim",))).run(world.state(), NOW)
    takers = {each.evictor for each in result.evictions}
    placed = {each.pod.pod_group for each in result.nominations}
    victims = {each.pod.pod_group for each in result.evictions}
    if len(takers) != 1 or result.binds or not placed <= takers | victims:
        return  # several changes one after the other cannot be judged by their sum
    (taker,) = takers
    queue_of = {group.key: group.spec.queue for group in world.groups}
    parent = {queue.metadata.name: queue.spec.parent_queue for queue in world.queues}
    shares = {share.queue: share for share in result.shares}
    moved = {each.pod.uid for each in result.nominations}
    note(str(world))
    for eviction in result.evictions:
        if eviction.pod.uid in moved:
            continue
        mine, theirs = parted(queue_of[taker], queue_of[eviction.pod.pod_group], parent)
        for resource in range(3):
            fair = shares[mine].fair_share[resource], shares[theirs].fair_share[resource]
            held = shares[mine].allocated[resource], shares[theirs].allocated[resource]
            if fair[1] <= 0 or fair[0] < 0 or held[0] <= fair[0] + 1e-6:
                continue
            assert fair[0] > 0
            assert held[0] / fair[0] < held[1] / fair[1] + 1e-6


def parted(first: str, second: str, parent: dict[str, str]) -> tuple[str, str]:
    """The first pair of ancestors, from the root, that differ."""

    def path(name: str) -> list[str]:
        return [*path(parent[name]), name] if name else []

    return next(pair for pair in zip(path(first), path(second), strict=False) if pair[0] != pair[1])


@fuzz
def test_a_state_that_is_kept_over_cycles_decides_as_one_built_anew(world: World) -> None:
    """Three rounds; each time what was decided has happened, and the kept state hears of it by events."""
    engine, kept = Engine(), world.state()
    note(str(world))
    for number in range(3):
        fresh = world.state()
        now = NOW + number
        warm, cold = engine.run(kept, now), Engine().run(fresh, now)
        for field in ("binds", "evictions", "shares"):
            assert getattr(warm, field) == getattr(cold, field), (number, field)
        if warm.nominations:
            return  # promises are kept from cycle to cycle; a fresh state knows of none
        for pod in advance(world, cold):
            kept.apply(Kind.POD, pod)
        for group in annotate(world, cold):
            kept.apply(Kind.POD_GROUP, group)


def annotate(world: World, result: CycleResult) -> list[PodGroup]:
    """Write on the groups what was found about them, as the controllers do."""
    patches = {outcome.pod_group: outcome.annotations for outcome in result.outcomes if outcome.annotations}
    changed: list[PodGroup] = []
    for place, group in enumerate(world.groups):
        if (patch := patches.get(group.key)) is not None:
            told = {**group.annotations, **patch}
            meta = msgspec.structs.replace(
                group.metadata, annotations={key: value for key, value in told.items() if value is not None}
            )
            world.groups[place] = msgspec.structs.replace(group, metadata=meta)
            changed.append(world.groups[place])
    return changed


def advance(world: World, result: CycleResult) -> list[Pod]:
    """Let happen what was decided: bound pods run; evicted ones come back as new ones, and wait."""
    binds = {bind.pod.uid: bind for bind in result.binds}
    gone = {each.pod.uid for each in result.evictions}
    changed: list[Pod] = []
    for place, pod in enumerate(world.pods):
        uid = pod.metadata.uid
        if uid in gone or pod.metadata.deletion_timestamp:
            node, groups = "", ()
        elif uid in binds:
            node, groups = binds[uid].node, binds[uid].gpu_groups
        else:
            continue
        world.pods[place] = _placed(pod, node, groups)
        changed.append(world.pods[place])
    return changed


def _placed(pod: Pod, node: str, groups: tuple[str, ...]) -> Pod:
    labels = {key: value for key, value in pod.labels.items() if "runai-gpu-group" not in key}
    if len(groups) == 1:
        labels[names.GPU_GROUP_LABEL] = groups[0]
    else:
        labels |= {names.MULTI_GPU_GROUP_PREFIX + each: each for each in groups}
    replace = msgspec.structs.replace
    return replace(
        pod,
        metadata=replace(pod.metadata, labels=labels, deletion_timestamp=None),
        spec=replace(pod.spec, node_name=node),
        status=replace(pod.status, phase="Running" if node else "Pending"),
    )


@functools.partial(fuzz, share=0.5)
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
