import uuid

import pytest

from kai.history.addresses import open_database
from kai.history.store import open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.db'}"
    return request.getfixturevalue("postgresql").make(f"history_{uuid.uuid4().hex}")


@pytest.fixture
def database(url):
    database = open_database(url)
    yield database
    database.close()


@pytest.fixture
def store(database):
    return open_store(database)
