"""Whatever waits and whichever scaling pods there are: none too many, none too few, none without a cause."""

from collections import defaultdict
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_node_scale_adjuster.adjustment import Rules, adjust
from kai_node_scale_adjuster.objects import Wish

from .conftest import NOW, UNSCHEDULABLE, Builders

RULES = Rules()
NAMES = "abc"
BOUND = {"type": "PodScheduled", "status": "True"}
#: What a pod asks for and says.
_ASKED = st.fixed_dictionaries(
    {
        "fraction": st.sampled_from(["0.1", "0.25", "0.5", "0.51", "0.9"]),
        "devices": st.sampled_from([1, 1, 2, 3]),
        "conditions": st.sampled_from([(UNSCHEDULABLE,), (UNSCHEDULABLE,), (UNSCHEDULABLE,), (), (BOUND,)]),
        "uid": st.sampled_from(["one", "one", "two"]),
        "nodeSelector": st.sampled_from([{}, {}, {"pool": "x"}]),
    }
)
_SCALING = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(["Pending", "Pending", "Running", "Succeeded"]),
        "age": st.sampled_from([0.0, 0.0, 100.0, 10_000.0]),
        "going": st.sampled_from([False, False, False, True]),
    }
)
#: What somebody asks for now, and before if that was something else, and his scaling pods.
_PLACE = st.tuples(
    _ASKED | st.none(), st.none() | _ASKED, st.lists(_SCALING, max_size=2), st.sampled_from(["", "copy-"])
)
_WORLDS = st.fixed_dictionaries(
    {
        "places": st.fixed_dictionaries(dict.fromkeys(NAMES, _PLACE)),
        "removed": st.sampled_from([None, 1.0, 61.0]),
    }
)


def set_up(world):
    """Who waits, and scaling pods for those who waited before: the same or others, in other ways."""
    waiting, scaling = [], []
    for name, (asked, before, lives, prefix) in world["places"].items():
        if asked is not None:
            waiting.append(Builders.waiting(name, **asked))
        if (stood := before or asked) is None:
            continue
        for number, life in enumerate(lives):
            node = "" if life["phase"] == "Pending" else "n1"
            called = f"{prefix}team-{name}" if number == 0 else f"second-{name}"
            own = Builders.waiting(name, **stood)
            scaling.append(Builders.scaling(own, name=called, node=node, **life))
    return waiting, scaling


def decide(waiting, scaling, removed_ago):
    return adjust(
        waiting,
        scaling,
        rules=RULES,
        now=NOW,
        removed_ago={} if removed_ago is None else {"team": removed_ago},
    )


def carried_out(scaling, adjustment):
    """The scaling pods after it."""
    gone = {removal.scaling.key for removal in adjustment.remove}
    made = [Builders.scaling(each.waiting, name=each.name) for each in adjustment.create]
    return [each for each in scaling if each.key not in gone] + made


def groups(waiting, scaling):
    """By places: the needs of those who count, and their scaling pods, as the rules put it in words."""
    of = {each.stands_for: each for each in scaling if not each.going}
    found = defaultdict(lambda: ([], []))
    for pod in waiting:
        own = of.get(pod.key)
        unschedulable = bool(pod.pod.status.conditions) and pod.pod.status.conditions[0].status == "False"
        timed_out = own is not None and not own.placed and NOW - own.since >= RULES.patience
        if timed_out or not (unschedulable or own):
            continue
        needs, have = found[pod.places]
        needs.append((float(pod.share.portion) * pod.share.devices, pod.share.devices))
        if own is not None:
            have.append(own)
    return found.values()


def suffices(needs, devices):
    """Whether so many devices, some of them together, are enough."""
    return sum(devices) >= ceil(round(sum(part for part, _ in needs), 6)) and max(devices, default=0) >= max(
        together for _, together in needs
    )


@settings(max_examples=300)
@given(_WORLDS)
def test_every_scaling_pod_has_a_cause(world):
    waiting, scaling = set_up(world)
    after = carried_out(scaling, decide(waiting, scaling, world["removed"]))
    by_key = {pod.key: pod for pod in waiting if pod.wish is not Wish.NONE}
    for each in after:
        if each.going:
            continue
        pod = by_key[each.stands_for]
        assert (each.stands_for_uid, each.devices) == (pod.uid, pod.share.devices)
        assert not each.ended
        assert not (each.placed and NOW - each.since >= RULES.stuck_after)
    stand_for = [each.stands_for for each in after if not each.going]
    assert len(stand_for) == len(set(stand_for))


@settings(max_examples=300)
@given(_WORLDS)
def test_there_are_never_more_than_needed(world):
    waiting, scaling = set_up(world)
    after = carried_out(scaling, decide(waiting, scaling, world["removed"]))
    silent = {pod.key for pod in waiting if pod.wish is Wish.SILENT}
    for needs, have in groups(waiting, after):
        for each in (one for one in have if not (one.placed or one.stands_for in silent)):
            others = [other.devices for other in have if other is not each]
            assert not suffices(needs, others)


@settings(max_examples=300)
@given(_WORLDS)
def test_there_are_enough_unless_one_went_a_short_time_ago(world):
    waiting, scaling = set_up(world)
    adjustment = decide(waiting, scaling, world["removed"])
    enough = all(
        suffices(needs, [each.devices for each in have])
        for needs, have in groups(waiting, carried_out(scaling, adjustment))
    )
    waits = bool(adjustment.remove) or world["removed"] == 1.0
    assert enough or (waits and adjustment.again_in is not None)


@settings(max_examples=300)
@given(_WORLDS)
def test_once_carried_out_nothing_is_left_to_do(world):
    waiting, scaling = set_up(world)
    first = decide(waiting, scaling, world["removed"])
    after = carried_out(scaling, first)
    again = decide(waiting, after, 0.0 if first.remove else world["removed"])
    assert (again.create, again.remove) == ((), ())


@settings(max_examples=300)
@given(_WORLDS)
def test_names_are_taken_once(world):
    waiting, scaling = set_up(world)
    made = [each.name for each in decide(waiting, scaling, None).create]
    used = {each.metadata.name for each in scaling}
    assert len(made) == len(set(made))
    assert not used & set(made)
