"""What helm tells whoever has installed the chart."""

import shutil

import pytest

from helm.tests.conftest import CHART

REMEMBERS = {"scheduler": {"usageDBConfig": {"usageParams": {"windowSize": "1w"}}}}
FORGETFUL = {"redis": {"persistence": {"enabled": False}}}
FORGETS = "What queues used is kept in a Redis without a volume"


#: Shows what helm shows only of what it has put into a cluster.
SHOWN = """
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {text: {{ include "test.notes" . | toJson }}}
"""


@pytest.fixture(scope="module")
def chart(tmp_path_factory):
    copy = tmp_path_factory.mktemp("chart") / CHART.name
    shutil.copytree(CHART, copy)
    notes = copy / "templates" / "NOTES.txt"
    (copy / "templates" / "_notes.tpl").write_text(
        f'{{{{- define "test.notes" }}}}{notes.read_text()}{{{{ end }}}}'
    )
    (copy / "templates" / "notes.yaml").write_text(SHOWN)
    return copy


@pytest.fixture
def notes(helm, chart):
    def told(values=None):
        return helm.chart(values=values, chart=chart).one("ConfigMap", "notes")["data"]["text"]

    return told


def test_they_say_how_to_see_whether_it_runs(notes):
    assert "kubectl wait --for=condition=Ready config/kai-config" in notes()


@pytest.mark.parametrize(
    "values",
    [
        {**REMEMBERS, **FORGETFUL},
        {"scheduler": {"usageDBConfig": {"clientType": "redis"}}, **FORGETFUL},
    ],
    ids=["as usual", "by name"],
)
def test_they_say_that_a_redis_without_a_volume_forgets_what_queues_used(notes, values):
    assert FORGETS in notes(values)


@pytest.mark.parametrize(
    "values",
    [
        FORGETFUL,
        REMEMBERS,
        {**REMEMBERS, "redis": {"persistence": {"enabled": True}}},
        {**REMEMBERS, "redis": {"externalUrl": "redis://theirs:6379/0"}},
        {**REMEMBERS, "redis": {"enabled": False}},
        {"scheduler": {"usageDBConfig": {"clientType": "redis", "connectionString": "redis://x:6379/0"}}},
        {"scheduler": {"usageDBConfig": {"clientType": "prometheus", "connectionString": "http://x:9090"}}},
    ],
    ids=[
        "remembers nothing",
        "volume by itself",
        "volume",
        "another",
        "none",
        "another for it",
        "prometheus",
    ],
)
def test_they_do_not_say_so_of_anything_else(notes, values):
    assert FORGETS not in notes(values)


def test_they_say_what_is_not_kept_where_there_is_no_redis(notes):
    assert "the usage of queues over time are not kept" in notes({"redis": {"enabled": False}})
