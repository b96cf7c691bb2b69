"""Changes as people say them, and what they are told where these make no sense."""

import pytest

from kai.simulate.changes import ChangeRefused
from kai.simulate.wording import NoSuchChange, changes_of
from libs.tests.engine.builders import a_node, a_queue, a_state


def refused(*words: str, like: str = "") -> str:
    state = a_state(a_node("n0"), a_queue("team"))
    with pytest.raises((ChangeRefused, NoSuchChange)) as error:
        changes_of(state, words, namespace="default", like=like)
    return str(error.value)


def test_an_amount_that_is_said_twice_is_not_taken_once() -> None:
    """The second was meant for another resource, and would be what counts."""
    assert refused("quota", "team", "gpu=8", "gpu=64") == "gpu is said twice, 8 and 64; say it once"
    assert refused("limit", "team", "8", "GPU=9") == "gpu is said twice, 8 and 9; say it once"


def test_a_number_without_end_is_none() -> None:
    assert "is no number" in refused("nodes", "9" * 5000, like="n0")


@pytest.mark.parametrize(
    ("words", "takes"),
    [
        (["quota", "team"], "'quota' takes a queue and amounts, as gpu=8 cpu=64"),
        (["nodes", "3"], "'nodes' takes how many, and the node that they are like"),
        (["priority", "job"], "'priority' takes a workload and a priority class"),
        (["minimum", "job", "1", "2"], "'minimum' takes a workload and how many pods"),
        (["drain"], "'drain' takes nodes"),
    ],
)
def test_what_a_change_takes_is_told(words: list[str], takes: str) -> None:
    assert refused(*words) == takes
