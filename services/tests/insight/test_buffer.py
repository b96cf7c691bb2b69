"""What waits for the store is bounded, and of one record only the last word waits."""

from dataclasses import replace

from kai_insight.buffer import Buffer
from libs.tests.history.builders import a_cycle, a_run


def test_of_a_record_that_changes_while_it_waits_the_last_word_is_written():
    buffer = Buffer(most=10)
    begins = a_run()
    buffer.put(begins)
    buffer.put(replace(begins, ended=begins.began + 5, ending="Failed"))
    assert [record.ending for record in buffer.take().values()] == ["Failed"]
    assert len(buffer) == 0


def test_one_without_room_refuses_from_then_on_and_counts():
    buffer = Buffer(most=2)
    for number in range(4):
        buffer.put(a_cycle(number))
    assert (len(buffer), buffer.refused, buffer.full.is_set()) == (2, 2, True)
    buffer.take()
    buffer.put(a_cycle(9))
    assert (len(buffer), buffer.refused) == (0, 3)


def test_a_record_that_waits_already_needs_no_room():
    buffer = Buffer(most=1)
    buffer.put(a_cycle(1))
    buffer.put(a_cycle(1, binds=5))
    assert not buffer.full.is_set()
    assert [record.binds for record in buffer.take().values()] == [5]


def test_what_could_not_be_written_waits_again_behind_what_is_newer():
    buffer = Buffer(most=10)
    buffer.put(a_cycle(1))
    buffer.put(a_cycle(2))
    taken = buffer.take()
    buffer.put(a_cycle(2, binds=7))
    buffer.give_back(taken)
    assert [(record.cycle, record.binds) for record in buffer.take().values()] == [(1, 0), (2, 7)]
