"""When an installation by the chart counts as ready."""

import pytest

from kai_local.installation.chart import _missing


def a_config(*conditions, generation=2):
    return {
        "metadata": {"name": "kai-config", "generation": generation},
        "status": {"conditions": conditions},
    }


def a_condition(status, *, kind="Ready", generation=2, message=""):
    return {"type": kind, "status": status, "observedGeneration": generation, "message": message}


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (a_config(a_condition("True")), None),
        (a_config(a_condition("False", message="binder: 0 of 1 pods")), "binder: 0 of 1 pods"),
        # Of what was asked for before.
        (a_config(a_condition("True", generation=1)), ""),
        (a_config(a_condition("True", kind="Available")), ""),
        ({"metadata": {"name": "kai-config", "generation": 1}}, ""),
    ],
    ids=["ready", "not yet", "of an earlier generation", "says something else", "says nothing"],
)
def test_config_is_ready_when_it_says_so_of_its_newest_generation(owner, expected):
    assert _missing(owner) == expected
