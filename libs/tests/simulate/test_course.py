"""A cluster that lives on."""

import math

from kai.engine import SchedulerConfig
from kai.simulate.course import Course
from kai.simulate.journal import journal
from kai.simulate.what_if import all_lasting
from libs.tests.engine.builders import NOW, a_job, a_node, a_state


def test_a_course_without_an_end_is_over_once_nothing_more_can_happen():
    state = a_state(a_node("n", gpus=1), a_job("old", on="n", gpus=1), a_job("job", gpus=1))
    with journal(state) as opened:
        course = Course(opened, SchedulerConfig(), now=NOW, runtimes=all_lasting(600))
        course.run(math.inf)
        assert course.more_at is None
        assert course.now == NOW + 700
        assert course.cycles < 10
