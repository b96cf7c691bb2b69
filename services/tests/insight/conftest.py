import pytest

from kai.history.addresses import open_database
from kai.history.store import open_store
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


@pytest.fixture
def database(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/history.db")
    yield database
    database.close()


@pytest.fixture
def store(database):
    return open_store(database)
