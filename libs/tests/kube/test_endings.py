"""Who is told of an end while he writes does not take the answer for life."""

from kai.kube.endings import Endings


def test_an_end_that_is_told_while_the_object_is_written_is_known_until_the_answer_is_taken_in():
    endings = Endings()
    with endings.writing("team/a"):
        assert not endings.has_ended("team/a", "1")
        endings.told("team/a", "1")
        assert endings.has_ended("team/a", "1")
        assert not endings.has_ended("team/a", "2"), "another object of that name"
        assert not endings.has_ended("team/b", "1")


def test_nothing_is_remembered_of_what_nobody_writes():
    endings = Endings()
    endings.told("team/a", "1")
    with endings.writing("team/a"):
        endings.told("team/b", "2")
        assert not endings.has_ended("team/a", "1")
        assert not endings.has_ended("team/b", "2")
    with endings.writing("team/b"):
        assert not endings.has_ended("team/b", "2")


def test_a_write_within_a_write_does_not_forget_for_the_outer_one():
    endings = Endings()
    with endings.writing("team/a"):
        with endings.writing("team/a"):
            endings.told("team/a", "1")
        assert endings.has_ended("team/a", "1")
