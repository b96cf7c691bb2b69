import pytest

from kai.engine import Engine
from kai.engine.reasons.amounts import amount_text
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS
from libs.tests.engine.builders import NOW, a_job, a_node, a_state, outcomes


@pytest.mark.parametrize(
    ("column", "amount", "text"),
    [
        (CPU, 100_000, "100 cores"),
        (CPU, 1_000, "1 core"),
        (CPU, 250, "0.25 cores"),
        (GPU, 9, "9 GPUs"),
        (GPU, 1, "1 GPU"),
        (GPU, 0.5, "0.5 GPUs"),
        (GPU, 0, "0 GPUs"),
        (PODS, 1, "1 pod"),
        (MEMORY, 16 * 2**30, "16 GiB"),
        (MEMORY, 20 * 10**9, "20 GB"),
        (MEMORY, 1.5 * 10**9, "1.5 GB"),
        (MEMORY, 12, "12 bytes"),
        (MEMORY, -1, "unlimited"),
    ],
)
def test_amounts_read_as_people_write_them(column: int, amount: float, text: str) -> None:
    assert amount_text(column, amount) == text


def test_other_resources_are_told_in_their_own_units() -> None:
    assert amount_text(7, 3_000, name="example.com/port", unit=1_000) == "3 example.com/port"


def test_a_pod_that_asks_for_more_than_any_node_has_is_told_so_in_words() -> None:
    state = a_state(a_node("n", gpus=1, cpu="16"), a_job("wide", cpu="100"), a_job("many", gpus=9))
    said = outcomes(Engine().run(state, NOW))
    assert "asks for 100 cores, but the largest node has 16 cores" in said["wide"].message
    assert "asks for 9 GPUs, but the largest node has 1 GPU" in said["many"].message
