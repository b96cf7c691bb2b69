"""The Redis of a cluster answers wherever its folder is."""

from pathlib import Path

import pytest

from deadlines import patience
from kai_local.processes.supervisor import Supervisor
from kai_local.services.own_redis import redis

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("plain", "unix"), ("two words", "unix"), ("x" * 120, "redis"), ("ü" * 60, "redis")],
    ids=["short", "with a space", "long", "long in bytes"],
)
async def test_a_folder_with_any_name_will_do(tmp_path: Path, name: str, scheme: str) -> None:
    program = redis(tmp_path / name)
    assert program.address.startswith(f"{scheme}://")
    async with Supervisor(tmp_path / "logs") as supervisor:
        supervisor.start(program)
        await supervisor.wait_ready(["redis"], patience())
