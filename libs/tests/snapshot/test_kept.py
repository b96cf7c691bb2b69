"""What owners keep from cycle to cycle, each with a key of its own."""

from kai.snapshot.kept import Carried, Kept, KeptValues, as_it_is


def test_a_kept_value_is_made_anew_only_for_another_stamp() -> None:
    memory, key = KeptValues(), Kept[list[int]]()
    first = key.get(memory, 1, lambda: [1])
    assert key.get(memory, 1, lambda: [2]) is first
    assert key.get(memory, 2, lambda: [2]) == [2]
    assert key.get(memory, 1, lambda: [3]) == [3]


def test_no_owner_meets_what_another_keeps() -> None:
    memory = KeptValues()
    numbers, words = Kept[int](), Kept[str]()
    assert numbers.get(memory, 1, lambda: 7) == 7
    assert words.get(memory, 1, lambda: "seven") == "seven"


def test_what_is_taken_back_is_what_can_be_and_as_often_as_needed() -> None:
    memory, kept = KeptValues(), Kept[int]()
    stale = Carried[dict[str, int]](dict, copied=dict)
    told = Carried[list[str]](list, copied=None)
    stale.of(memory)["before"] = 1
    saved = memory.carried()
    for _ in range(2):
        stale.of(memory)["since"] = 2
        told.of(memory).append("said")
        kept.get(memory, 1, lambda: 7)
        memory.restore(saved)
        assert stale.of(memory) == {"before": 1}
        assert kept.get(memory, 1, lambda: 8) == 8
    assert told.of(memory) == ["said", "said"]


def test_a_trial_knows_what_it_is_lent_and_leaves_nothing() -> None:
    memory = KeptValues()
    alike, copied, own = Kept[list[int]](lent=as_it_is), Kept[list[int]](lent=list), Kept[list[int]]()
    promised, stale = Carried[list[str]](list, copied=list, lent=True), Carried[list[str]](list, copied=list)
    kept = [key.get(memory, 1, lambda: [1]) for key in (alike, copied, own)]
    promised.of(memory).append("a")
    stale.of(memory).append("b")
    trial = memory.lent()
    assert alike.get(trial, 1, lambda: [2]) is kept[0]
    assert copied.get(trial, 1, lambda: [2]) == [1]
    assert own.get(trial, 1, lambda: [2]) == [2]
    copied.get(trial, 1, lambda: [2]).append(9)
    promised.of(trial).append("c")
    assert (promised.of(trial), stale.of(trial)) == (["a", "c"], [])
    assert kept == [[1], [1], [1]]
    assert promised.of(memory) == ["a"]
