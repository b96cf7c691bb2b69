"""What fails beside deciding is cut off, counted, and told once in a while."""

import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter

from kai.model.failures import all_over
from kai_scheduler.troubles import LASTING_SECONDS, QUIET_SECONDS, Troubles


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def troubles(registry, clock):
    return Troubles(Counter("cut_off_total", "", ("what",), registry=registry), clock=clock)


def fail(troubles, message="boom"):
    with troubles.cut_off("snapshot", about="Pod ns/p"):
        raise TypeError(message)


def test_whoever_comes_after_goes_on(troubles, registry):
    fail(troubles)
    fail(troubles)
    assert registry.get_sample_value("cut_off_total", {"what": "snapshot"}) == 2


def test_the_same_failure_is_logged_once_and_again_after_a_long_while(troubles, clock):
    with structlog.testing.capture_logs() as logged:
        for _ in range(50):
            fail(troubles)
        assert len(logged) == 1
        clock.now += QUIET_SECONDS
        fail(troubles)
        assert len(logged) == 2
        fail(troubles, "another")
        assert len(logged) == 3
    assert (logged[0]["what"], logged[0]["object"]) == ("snapshot", "Pod ns/p")
    assert logged[0]["exc_info"] is not None


def test_people_are_told_while_it_lasts(troubles, clock):
    assert troubles.summary() is None
    fail(troubles)
    assert troubles.summary() == "snapshot failed 1 times in 0 s, last with Pod ns/p: TypeError: boom"
    clock.now += LASTING_SECONDS
    assert troubles.summary() is None


def test_the_object_that_something_failed_over_is_named(troubles):
    with structlog.testing.capture_logs() as logged, troubles.cut_off("snapshot"), all_over("Node odd"):
        raise TypeError("boom")
    assert logged[0]["object"] == "Node odd"
    assert troubles.summary() == "snapshot failed 1 times in 0 s, last with Node odd: TypeError: boom"


def test_being_cancelled_is_no_trouble(troubles):
    with pytest.raises(KeyboardInterrupt), troubles.cut_off("snapshot"):
        raise KeyboardInterrupt
