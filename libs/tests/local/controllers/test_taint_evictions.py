"""How long pods stay on nodes with taints that evict."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kai.model.objects import Taint
from kai_local.controllers.taint_evictions import stays_for
from kai_local.parts.objects import LocalPod

BROKEN = Taint(key="broken", value="yes", effect="NoExecute")
OTHER = Taint(key="other", effect="NoExecute")
ONLY_NEW = Taint(key="reserved", effect="NoSchedule")


def a_pod(*tolerations: dict[str, Any]) -> LocalPod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"tolerations": list(tolerations)}}, LocalPod)


def tolerating(key: str, seconds: int | None = None, **more: str) -> dict[str, Any]:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limit, **more}


@pytest.mark.parametrize(
    ("pod", "taints", "seconds"),
    [
        (a_pod(), [], None),
        (a_pod(), [ONLY_NEW], None),
        (a_pod(), [BROKEN], 0),
        (a_pod(tolerating("broken")), [BROKEN], None),
        (a_pod(tolerating("broken", 60)), [BROKEN], 60),
        (a_pod(tolerating("broken", -1)), [BROKEN], 0),
        (a_pod(tolerating("broken"), tolerating("broken", 60)), [BROKEN], 60),
        (a_pod(tolerating("broken", 60), tolerating("other", 30)), [BROKEN, OTHER], 30),
        (a_pod(tolerating("broken", 60)), [BROKEN, OTHER], 0),
        (a_pod({"key": "broken", "value": "no", "effect": "NoExecute"}), [BROKEN], 0),
    ],
)
def test_a_pod_stays_as_long_as_it_tolerates_all_taints(
    pod: LocalPod, taints: list[Taint], seconds: float | None
) -> None:
    assert stays_for(pod, taints) == seconds
