"""What a cycle or a question has found out goes with it, and does not wait for a garbage collection."""

import gc
import weakref

import pytest

from kai.engine import Engine
from kai.model.objects import Pod
from libs.tests.engine.builders import NOW, a_state
from libs.tests.engine.random_worlds import carry_out, random_objects

WORLDS = range(30)


@pytest.fixture
def no_collector():
    """Nothing is collected that refers to itself."""
    gc.disable()
    yield
    gc.enable()


class _Watched(Engine):
    """Tells which of its sessions are still there."""

    def __init__(self):
        super().__init__(contained=True)
        self._opened = []

    def open(self, *args, **kwargs):
        session = super().open(*args, **kwargs)
        self._opened.append(weakref.ref(session))
        return session

    def left(self):
        assert self._opened  # or nothing was looked at
        return [session for each in self._opened if (session := each()) is not None]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("world", WORLDS)
def test_a_session_is_gone_when_its_cycle_is_over(world):
    objects = random_objects(world)
    state, engine = a_state(objects), _Watched()
    pods = {each.key: each for _, each in objects if isinstance(each, Pod)}
    for cycle in range(3):
        result = engine.run(state, NOW + cycle, hurry=lambda: True)
        assert not engine.left()
        carry_out(state, pods, result, cycle)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("world", WORLDS)
def test_a_session_is_gone_when_its_question_is_answered(world):
    state, engine = a_state(random_objects(world)), _Watched()
    engine.run(state, NOW)
    engine.job_order(state)
    assert not engine.left()
