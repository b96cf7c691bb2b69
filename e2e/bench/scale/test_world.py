"""What a case may rely on before it begins to measure."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from rich.progress import Progress

from e2e.bench.scale import world
from e2e.bench.scale.meter import Reading, Usage


class FakeMeter:
    """Tells one reading after the other, the last one for ever; cores by process."""

    def __init__(self, *readings: dict[str, float]) -> None:
        self.readings = list(readings)

    @asynccontextmanager
    async def running(self):
        reading = Reading()
        yield reading
        spent = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        reading.usage = tuple(
            Usage(process=name, cpu_seconds=seconds, peak_mib=0.0) for name, seconds in spent.items()
        )


def a_world(meter: FakeMeter) -> world.World:
    cluster = SimpleNamespace(name="scale", client=None)
    made = world.World(cluster, world.Size(10), Progress(disable=True))
    made.meter = meter
    return made


@pytest.mark.looptime
async def test_a_case_waits_until_the_processes_rest() -> None:
    meter = FakeMeter({"scheduler": 0.9}, {"scheduler": 0.2}, {"scheduler": 0.01})
    await a_world(meter).at_rest()
    assert meter.readings == [{"scheduler": 0.01}]


@pytest.mark.looptime
async def test_processes_that_never_rest_fail_the_case_and_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(world, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(AssertionError, match=r"did not come to rest.*etcd 0\.70, scheduler 0\.20"):
        await a_world(FakeMeter({"scheduler": 0.2, "etcd": 0.7})).at_rest()
