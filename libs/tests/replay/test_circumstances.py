"""What a scheduler tells together with a snapshot is understood as it was meant."""

import pytest

from kai.config import EngineParams, SchedulerConfig
from kai.model.faults import INVALID_OBJECT, Fault
from kai.replay.circumstances import Circumstances, CircumstancesError, decode, encode
from kai.snapshot.state import StateParams


def test_configuration_past_use_and_faults_come_back() -> None:
    told = Circumstances(
        now=1_900_000_000.5,
        config=SchedulerConfig(
            actions=("allocate", "preempt"), params=EngineParams(max_consolidation_preemptees=3)
        ),
        usage={"team": (0.5, 0.25, 1.0)},
        faults=(Fault(kind="Pod", key="n/p", uid="u", reason=INVALID_OBJECT, message="too much"),),
    )
    found = decode(encode(told, StateParams()))
    assert (found.now, found.usage, found.faults) == (told.now, told.usage, told.faults)
    assert found.config.actions == told.config.actions
    assert found.config.params.max_consolidation_preemptees == 3
    assert found.config.plugins == told.config.plugins


@pytest.mark.parametrize("data", [b"", b"{}", b'{"now": 1, "config": {"actions": 7}}'])
def test_what_cannot_be_understood_is_refused(data: bytes) -> None:
    with pytest.raises(CircumstancesError, match="circumstances of the snapshot"):
        decode(data)
