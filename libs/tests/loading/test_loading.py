"""How the modules of long-living processes are loaded."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from kai import loading

_ROOT = Path(__file__).resolve().parents[3]
#: Those in which the engine runs: it takes 40 MiB, half of it for arrays.
DECIDE = ("kai_scheduler", "kai_insight")
SERVICES = sorted(path.parent.name for path in (_ROOT / "services").glob("kai_*/service.py"))


def test_nothing_is_collected_while_modules_load_and_all_is_as_before_afterwards():
    before = sys.modules.get("rich")
    with loading.of_a_service():
        assert not gc.isenabled()
        with loading.of_a_service():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert sys.modules.get("rich") is before


def test_a_module_that_cannot_be_loaded_leaves_the_collector_on():
    with pytest.raises(ModuleNotFoundError), loading.of_a_service():
        import kai.there_is_no_such_module  # noqa: F401
    assert gc.isenabled()


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_loads_neither_what_draws_in_colour_nor_arrays_unless_it_decides(service):
    looks = f"import sys; import {service}.__main__; print(*sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", looks], check=True, capture_output=True, text=True)
    loaded = set(found.stdout.split())
    assert {"rich", "pygments"} & loaded == set()
    assert {"numpy", "kai.engine"} & loaded == ({"numpy", "kai.engine"} if service in DECIDE else set())
    assert "structlog.dev" in loaded
