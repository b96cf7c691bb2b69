"""What the guide measures is told with what is wanted."""

import io

from rich.console import Console

from e2e.guide.figures import Figure, table


def rows(*figures):
    written = io.StringIO()
    Console(width=110, file=written).print(table(figures))
    lines = written.getvalue().splitlines()
    return [" ".join(line.replace("│", " ").split()) for line in lines]


def test_what_is_more_than_wanted_is_told_and_fails_nothing():
    told = rows(
        Figure("binder, from start to ready", 4, "s", 10, load=1.5),
        Figure("the six", 612.4, "MiB", 600, load=9.0),
        Figure("an image", 200, "MiB", None, load=0),
    )
    assert "binder, from start to ready 4 s under 10 s yes 1.5" in told
    assert "the six 612 MiB under 600 MiB NO 9.0" in told
    assert "an image 200 MiB 0.0" in told
