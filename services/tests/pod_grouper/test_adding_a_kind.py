"""The page on adding a kind is right: its module and its case, put where it says, work."""

import re
from pathlib import Path

import pytest
import yaml

from kai.grouping import rules, workloads

from .test_manifests import test_a_manifest_becomes_the_pod_groups_that_its_rules_say as check

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "contributing.md").read_text().partition("\n## A workload kind\n")[2]


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def one_more_module(tmp_path, monkeypatch):
    (tmp_path / "crew.py").write_text(block("python"))
    monkeypatch.setattr(workloads, "__path__", [*workloads.__path__, str(tmp_path)])
    rules.known_kinds.cache_clear()
    yield
    rules.known_kinds.cache_clear()


@pytest.mark.usefixtures("one_more_module")
async def test_a_module_and_a_case_are_all_that_a_kind_needs():
    assert ("harbor.example.com/v1", "Crew") in rules.known_kinds()
    for case in yaml.safe_load(block("yaml"))["cases"]:
        await check(case)


@pytest.mark.usefixtures("one_more_module")
def test_a_kind_that_two_modules_declare_is_a_mistake(tmp_path):
    (tmp_path / "crew_again.py").write_text(block("python"))

    with pytest.raises(RuntimeError, match="Crew"):
        rules.known_kinds()
