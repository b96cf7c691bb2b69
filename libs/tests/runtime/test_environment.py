"""Every variable that one of our programs reads is known to all of them."""

import importlib
import re
from pathlib import Path

import pytest

from kai.runtime import ServiceSettings, environment
from kai_local.services.suite import SERVICES

ROOT = Path(__file__).resolve().parents[3]
MODULES = [
    *(service.module for service in SERVICES.values()),
    "kai_resource_reservation",
    "kai_numa_placement_exporter",
]


def test_the_settings_of_all_services_are_known():
    fields = set()
    for module in MODULES:
        found = importlib.import_module(f"{module}.settings")
        for each in vars(found).values():
            if isinstance(each, type) and issubclass(each, ServiceSettings):
                fields |= {field.upper() for field in each.model_fields}
    assert fields == environment.SETTINGS


@pytest.mark.parametrize("path", ["docker-compose.yml", "Dockerfile", "docs/docker.md", "Makefile"])
def test_variables_that_files_name_are_known(path):
    named = dict.fromkeys(re.findall(r"\bKAI_[A-Z0-9_]+\b", (ROOT / path).read_text()), "x")
    assert list(environment.unknown(named, ())) == []


def test_variables_that_our_programs_read_themselves_are_known():
    sources = [*(ROOT / "libs").glob("kai*/**/*.py"), *(ROOT / "services").glob("kai_*/**/*.py")]
    named = {}
    for source in sources:
        for name in re.findall(r"environ(?:\.get\(|\[)\"(KAI_[A-Z0-9_]+)\"", source.read_text()):
            named[name] = "x"
    assert named
    assert list(environment.unknown(named, ())) == []
