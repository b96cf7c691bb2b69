"""What somebody is shown first, with all that he is told since, is what he would be shown now."""

from __future__ import annotations

import random

from hypothesis import note

from kai.bench.worlds import World
from kai.live.board import Board
from kai.model.decisions import ResourceVector
from kai.replay.cycles import Again, Replay, read_cycle
from libs.tests.engine.random_worlds import WORLDS, fuzz
from libs.tests.live.looking import Looking, slots_of, who_sits
from libs.tests.replay.lives import Life

CYCLES = 6
#: All worlds are made in it.
NAMESPACE = "default"


def fair(again: Again) -> dict[str, ResourceVector]:
    return {share.queue: share.fair_share for share in again.result.shares}


def names(board: Board, frame: dict) -> dict[int, str]:
    found = {number: board.numbers.holder(number) for number in frame["groups"]["key"] if number}
    return {0: "hidden"} | {number: holder.key if holder else "gone" for number, holder in found.items()}


@fuzz(worlds=WORLDS)
def test_a_frame_and_what_changed_since_are_the_frame_of_now(world: World) -> None:
    note(str(world))
    rng = random.Random(len(world.pods) * 7919 + len(world.groups))
    life = Life(world, rng)
    for number in range(CYCLES):
        life.cycle(number)
    replay = Replay(life.bases[0])
    board = Board()
    looking: dict[str, Looking] = {}
    for number, data in enumerate(life.records):
        if number and rng.random() < 0.3:  # as with the next base: another state of the same cluster
            replay = Replay(life.bases[number])
        again = replay.decide(read_cycle(data))
        news = board.refresh(replay.state, again.touched, fair=fair(again))
        if news.anew:
            looking = {"all": Looking(board, None), "none": Looking(board, frozenset())}
            continue
        for each in looking.values():
            each.follow(news)
            now = each.anew()
            assert slots_of(now) == each.devices
            assert each.without_slots() == {
                name: told for name, told in now.items() if name not in ("slots", "shared", "at")
            }
        # Whoever comes to it now, and knows nothing of before, sees the same.
        other = Board()
        other.refresh(replay.state, None, fair=fair(again))
        fresh, known = Looking(other, None).shown, looking["all"].anew()
        assert who_sits(fresh, names(other, fresh)) == who_sits(known, names(board, known))
        assert fresh["nodes"] == known["nodes"]
        assert fresh["queues"] == known["queues"]
        assert fresh["waiting"] == known["waiting"]
        assert (other.namespaces, other.used_centi) == (board.namespaces, board.used_centi)
        assert groups_of(other) == groups_of(board)


def groups_of(board: Board) -> dict[str, object]:
    return {board.numbers.holder(number).key: held for number, held in board.holders.items()}


@fuzz(share=0.5, worlds=WORLDS)
def test_of_what_somebody_may_not_see_there_is_no_name(world: World) -> None:
    life = Life(world, random.Random(len(world.pods)))
    for number in range(CYCLES):
        life.cycle(number)
    replay, board, looking = Replay(life.bases[0]), Board(), None
    for data in life.records:
        again = replay.decide(read_cycle(data))
        news = board.refresh(replay.state, again.touched, fair=fair(again))
        if news.anew or looking is None:
            looking = Looking(board, frozenset({"elsewhere"}))
        else:
            looking.follow(news)
    assert looking is not None
    for group in world.groups:
        assert group.metadata.name.encode() not in looking.bytes
    assert set(looking.shown["groups"]["key"]) <= {0}
    assert looking.anew()["hidden"]["groups"] == len(replay.state.jobs)
