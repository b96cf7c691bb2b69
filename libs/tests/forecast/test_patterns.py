"""What is another with each run of a workload is taken out of its name."""

import pytest

from kai.forecast.patterns import pattern


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("train", "train"),
        ("train-7", "train-#"),
        ("train-20261101-3", "train-#"),
        ("nightly-29412345", "nightly-#"),
        ("web-7d9f8c6b5d-x7k2p", "web-#"),
        ("llama-7b-finetune", "llama-#b-finetune"),
        ("sweep-4f9a1c02e7", "sweep-#"),
        ("epoch12.step3", "epoch#.step#"),
        ("facade-cafe", "facade-cafe"),
        ("", ""),
    ],
)
def test_numbers_and_hashes_of_a_name_are_taken_out(name, plain):
    assert pattern(name) == plain
    assert pattern(pattern(name)) == pattern(name)
