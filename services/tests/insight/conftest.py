import pytest

from services.tests.insight.builders import Seen


@pytest.fixture
def seen():
    return Seen()


@pytest.fixture
def begun(seen):
    """One that found an empty store and an empty cluster, but for a pod group."""
    seen.group()
    seen.begin()
    return seen
