"""The benchmark of forecasts on small traces that are made up."""

import csv

import pytest

from e2e.bench import forecast

COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "creation_time",
    "scheduled_time",
    "deletion_time",
)


def a_pod(number, *, at, lasting, gpus=1, milli=1000, ran=True):
    scheduled = f"{at + 7}" if ran else ""
    return (f"p{number}", 1000, 1024, gpus, milli, at, scheduled, at + 7 + lasting)


def a_trace(folder, rows, columns=COLUMNS):
    path = folder / "pods.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def test_pods_that_ran_on_gpus_are_read_and_named_by_their_shape(tmp_path):
    rows = [
        a_pod(0, at=50, lasting=9),
        a_pod(1, at=10, lasting=9),
        a_pod(2, at=60, lasting=9, milli=500),
        a_pod(3, at=70, lasting=9, ran=False),
        a_pod(4, at=80, lasting=9, gpus=0),
    ]
    found = forecast.read(a_trace(tmp_path, rows), since=20)
    assert [(each.name, each.at, each.lasting) for each in found] == [("aaa-1", 30, 9), ("aab-2", 40, 9)]


def test_where_all_pods_last_equally_long_forecasts_are_right_and_the_average_is_behind(tmp_path):
    """One GPU, and a pod of 100 s every 90 s: each waits ten seconds longer than the one before it."""
    rows = [a_pod(number, at=90 * number, lasting=100) for number in range(40)]
    coming = forecast.read(a_trace(tmp_path, rows), since=0)
    replay = forecast.Replay(coming, nodes=1, gpus=1, samples=40, courses=10, seconds=60)
    replay.run()
    assert replay.waited == len(replay.guesses) == 20
    for guess in replay.guesses.values():
        assert guess.p50 == pytest.approx(guess.waited, abs=1)
        assert guess.p90 == pytest.approx(guess.waited, abs=1)
        assert guess.average.mean < guess.waited
        assert guess.waiting.mean < guess.waited
    table = forecast.report(replay).splitlines()
    assert table[0].startswith("20 pods waited in the second half; 20 were asked about")
    assert table[3].startswith("| forecast | 20 | 20 | 0 | 0 |")


def test_without_a_trace_it_says_what_it_needs(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        forecast.main(["--pods", str(tmp_path / "nothing.csv")])
    assert "nothing.csv" in capsys.readouterr().err
    other = a_trace(tmp_path, [("p0", 1)], columns=("name", "size"))
    with pytest.raises(SystemExit, match="2"):
        forecast.main(["--pods", str(other)])
    assert "is no trace of pods: KeyError('num_gpu'); see --help" in capsys.readouterr().err
