"""Dashboards as Grafana's sidecar finds them."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "kai-scheduler" / "dashboards"


def config_maps(rendered):
    return {
        name: each for name, each in rendered.of("ConfigMap").items() if name.startswith("kai-dashboard-")
    }


@pytest.mark.parametrize(
    ("values", "namespace", "labels"),
    [
        ({"enabled": True}, "kai-scheduler", {"grafana_dashboard": "1"}),
        ({"enabled": True, "namespace": "monitoring"}, "monitoring", {"grafana_dashboard": "1"}),
        (
            {"enabled": True, "labels": {"grafana_dashboard": None, "team": "ops"}},
            "kai-scheduler",
            {"team": "ops"},
        ),
    ],
    ids=["here", "where the sidecar looks", "a label of one's own"],
)
def test_each_dashboard_is_a_config_map_as_its_file_has_it(helm, values, namespace, labels):
    found = config_maps(helm.render(values={"dashboards": values}))
    files = {path.stem: path for path in FOLDER.glob("*.json")}
    assert {f"kai-dashboard-{name}" for name in files} == set(found)
    assert len(files) == 5
    for name, path in files.items():
        config_map = found[f"kai-dashboard-{name}"]
        assert config_map["metadata"]["namespace"] == namespace
        told = config_map["metadata"]["labels"]
        assert labels.items() <= told.items()
        assert ("grafana_dashboard" in told) == ("grafana_dashboard" in labels)
        assert {key: json.loads(text) for key, text in config_map["data"].items()} == {
            f"kai-{name}.json": json.loads(path.read_text())
        }


def test_there_are_none_unless_they_are_asked_for(helm):
    assert not config_maps(helm.render())
