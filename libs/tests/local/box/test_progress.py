"""What a cluster that comes up in the background tells is seen by whoever started it."""

import io

import pytest

from kai_local.box.progress import Lines, Relay, replay


def replayed(lines: str) -> str:
    """What a user sees of what a child wrote."""
    seen = io.StringIO()
    for line in lines.splitlines(keepends=True):
        replay(line, Lines(seen))
    return seen.getvalue()


def test_steps_and_lines_come_through() -> None:
    told = io.StringIO()
    relay = Relay(told)
    relay.begin("Redis")
    relay.done("Redis", 1.25)
    relay.say("up\nand ready")
    assert replayed(told.getvalue()) == "Redis (1.2 s)\nup\nand ready\n"


@pytest.mark.parametrize(
    "line",
    [
        "kai: etcd does not start: it ended with status 1",
        '  {"level":"fatal","msg":"listen tcp 127.0.0.1:2379: bind: address already in use"}',
        '  "quoted"',
        "  5",
        "  null",
        "[]",
        '["say"]',
        '["done", "Redis", "soon"]',
    ],
)
def test_any_other_line_of_a_failing_cluster_is_shown_as_it_is(line: str) -> None:
    assert replayed(line + "\n") == line + "\n"
