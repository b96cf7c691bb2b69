"""Of many objects the one that something fails over is found and named."""

import pytest

from kai.model.failures import FailedOver, all_over, blame_one_of, described


def fails_over(*poisons):
    def work(items):
        for item in items:
            if item in poisons:
                raise TypeError(f"{item} is odd")

    return work


def name(item):
    return f"Node {item}"


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_whichever_it_is_it_is_named(count):
    for poison in range(count):
        with pytest.raises(FailedOver, match=f"^Node {poison}: TypeError: {poison} is odd$") as raised:
            blame_one_of(range(count), fails_over(poison), about=name)
        assert raised.value.about == f"Node {poison}"
        assert isinstance(raised.value.__cause__, TypeError)


def test_of_several_the_first_is_named_with_what_was_raised_over_it():
    with pytest.raises(FailedOver, match=r"^Node 4: TypeError: 4 is odd$"):
        blame_one_of(range(10), fails_over(9, 4, 7), about=name)


def test_nobody_is_named_where_each_is_well_alone():
    def crowded(items):
        if len(items) > 2:
            raise OverflowError

    blame_one_of(range(8), crowded, about=name)
    blame_one_of([], fails_over(), about=name)


def test_the_search_costs_no_more_than_the_work_did():
    done = []

    def work(items):
        done.extend(items)
        fails_over(1023)(items)

    with pytest.raises(FailedOver):
        blame_one_of(range(1024), work, about=name)
    assert len(done) <= 1024


def test_a_failure_is_described_with_its_object_where_one_is_known():
    with pytest.raises(FailedOver) as raised, all_over("Pod ns/p"):
        raise KeyError("spec")
    assert described(raised.value) == "Pod ns/p: KeyError: 'spec'"
    assert described(TypeError("boom")) == "TypeError: boom"
