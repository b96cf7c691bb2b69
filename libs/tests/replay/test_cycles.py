"""Recorded cycles, decided again from any base, come to the same."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import note

from kai.bench.worlds import NOW, World
from kai.engine import Engine
from kai.model import names
from kai.model.decisions import BindDecision, CycleResult, PodRef
from kai.model.failures import FailedOver
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey, PodUid
from kai.replay.cycles import Again, CycleRecord, Decided, Replay, read_cycle, take_base, write_cycle
from kai.snapshot.changes import Changes
from kai.snapshot.kinds import Kind
from libs.tests.engine.builders import a_group, a_node, a_pod, a_state
from libs.tests.engine.random_worlds import WORLDS, fuzz
from libs.tests.replay.lives import Life

CYCLES = 6


@fuzz(share=0.5, worlds=WORLDS)
def test_whoever_begins_between_any_two_cycles_decides_as_it_was_decided(world: World) -> None:
    note(str(world))
    life = Life(world, random.Random(len(world.pods) * 7919 + len(world.groups)))
    for number in range(CYCLES):
        life.cycle(number)
    for first, base in enumerate(life.bases):
        replay = Replay(base)
        for data in life.records[first:]:
            again = replay.decide(read_cycle(data))
            assert again.same, (first, again.record.number, list(again.differences()))
            replay.state.check()


def test_a_newer_scheduler_may_go_on_without_what_this_release_does_not_know() -> None:
    """While all are replaced insight may be older than the scheduler that it follows."""
    state = a_state(a_node("n0", gpus=1))
    state.set_fault(
        Kind.NODE, "n1", Fault(kind="Node", key="n1", uid="u", reason="InvalidObject", message="odd")
    )
    base = msgspec.msgpack.decode(take_base(state, Engine(), now=NOW))
    base["circumstances"] = base["circumstances"].replace(b'"kind":"Node"', b'"kind":"NewerKind"')
    assert list(Replay(msgspec.msgpack.encode(base)).state.nodes.by_name) == ["n0"]


def test_a_group_of_another_node_pool_that_has_no_pod_here_any_more_has_changed() -> None:
    group = a_group("away", queue="team")
    group = msgspec.structs.replace(
        group, metadata=msgspec.structs.replace(group.metadata, labels={names.NODE_POOL_LABEL: "b"})
    )
    state, engine = a_state(a_node("n"), group, a_pod("away-0", group="away", node="n")), Engine()
    engine.run(state, NOW)
    replay = Replay(take_base(state, engine, now=NOW))
    for number, changes in enumerate([Changes(), Changes({Kind.POD: {"default/away-0": None}})]):
        data = write_cycle(changes, CycleResult(), number=number, version=number, now=NOW + number, usage={})
        again = replay.decide(read_cycle(data))
        assert again.touched == {"default/away"}
    assert not replay.state.jobs


def test_a_difference_of_any_kind_is_told() -> None:
    pod = PodRef(uid=PodUid("u"), namespace="ns", name="p", pod_group=PodGroupKey("ns/g"))
    other = PodRef(uid=PodUid("v"), namespace="ns", name="q", pod_group=PodGroupKey("ns/g"))
    first, second = BindDecision(pod=pod, node="a"), BindDecision(pod=other, node="a")

    def told(then: list[BindDecision], now: list[BindDecision]) -> list[str]:
        record = CycleRecord(number=1, version=1, now=NOW, decided=Decided(binds=tuple(then)))
        again = Again(record, CycleResult(binds=tuple(now)))
        assert again.same is (then == now)
        return list(again.differences())

    assert told([first], [first]) == []
    assert told([first], []) == ["bind of ns/p to a: decided then, not now"]
    assert told([first, second], [second, first]) == ["binds of 2 pods: in another order"]
    part = msgspec.structs.replace(first, gpu_portion=0.5)
    assert told([first], [part]) == ["binds of 1 pods: the same places, and other details"]


def test_an_object_or_a_decision_that_cannot_be_recorded_is_named() -> None:
    classes = {name: {"metadata": {"name": name}} for name in ("even", "odd")}
    classes["odd"][("no", "text")] = 1
    binds = [
        BindDecision(
            pod=PodRef(uid=PodUid(name), namespace="ns", name=name),
            node="n",
            claim_allocations=({("no", "text"): 1} if name == "odd" else {},),
        )
        for name in ("even", "odd", "other")
    ]
    changed, decided = Changes({Kind.DEVICE_CLASS: classes}), CycleResult(binds=tuple(binds))
    for changes, result, about in (
        (changed, CycleResult(), "DeviceClass odd"),
        (Changes(), decided, "Pod ns/odd"),
    ):
        with pytest.raises(FailedOver) as raised:
            write_cycle(changes, result, number=1, version=1, now=NOW, usage={})
        assert raised.value.about == about
