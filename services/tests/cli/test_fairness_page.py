"""docs/time-based-fairness.md: what it shows is what one gets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kai.config import SchedulerConfig, UsageClient
from kai.config.plugin_table import ProportionArguments
from kai.config.prometheus_params import EXTRA, PrometheusParams
from kai.config.usage_params import FIELDS, UsageParams
from kai.model import duration
from kai.operands import read_config, read_shard

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/time-based-fairness.md").read_text()
SHOWN = re.compile(r"```sh\n(?P<command>[^`]*?kai simulate[^`]*?)\n```\n\n```\n(?P<output>.*?)```", re.DOTALL)
MANIFESTS = list(yaml.safe_load_all((ROOT / "docs/examples/time-based-fairness.yaml").read_text()))


def table(heading):
    """The cells of the table that begins so."""
    rows = PAGE.partition(f"| {heading} |")[2].splitlines()[2:]
    cells = []
    for row in rows:
        if not row.startswith("|"):
            break
        cells.append([each.strip() for each in row.strip("|").split(" | ")])
    return cells


@pytest.mark.parametrize("shown", list(SHOWN.finditer(PAGE)), ids=lambda shown: shown["command"][-40:])
def test_a_simulation_prints_what_the_page_shows(shown):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shown["command"]],
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == shown["output"]


def test_the_page_shows_three_simulations():
    assert len(SHOWN.findall(PAGE)) == 3


def test_the_page_has_every_setting_with_its_default():
    settings = {row[0].strip("`"): row[1] for row in table("setting | default | meaning")}
    assert set(settings) == set(FIELDS)
    usual = UsageParams()
    for name, text in settings.items():
        if text.startswith("`") and name != "windowType":
            assert duration.parse(text.strip("`")) == getattr(usual, FIELDS[name][0]), name
    assert settings["windowType"] == f"`{usual.window_type}`"


def test_the_page_has_every_entry_with_its_default():
    entries = {row[0].strip("`"): row[1].strip("`") for row in table("entry | default")}
    assert set(entries) == set(EXTRA)
    usual = PrometheusParams()
    for name, text in entries.items():
        value = getattr(usual, EXTRA[name][0])
        assert (duration.parse(text) if isinstance(value, float) else text) == value, name


def test_the_shard_of_the_example_is_what_its_scheduler_goes_by():
    shard = read_shard(MANIFESTS[0], read_config({"metadata": {"name": "kai-config"}}))
    config = SchedulerConfig.of(shard.file)
    assert config.notes == ()
    assert config.usage_db.client is UsageClient.REDIS
    assert config.usage_db.params.window_size == 14 * 86400
    assert config.usage_db.params.half_life == 2 * 86400
    assert config.arguments(ProportionArguments).k_value == 1.0
