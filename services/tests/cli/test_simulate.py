"""``kai simulate``, as a user types it."""

import json
import re

import aiohttp
import pytest
from aiohttp import web
from typer.testing import CliRunner

from kai_cli import simulate
from kai_cli.__main__ import app
from kai_cli.simulate_server import ListenFailed, application, serve
from kai_local.processes import ports

DIVISION = {
    "totalResource": {"GPU": 100},
    "queues": [
        {"uid": "a", "resourceShare": {"gpu": {"deserved": 10, "request": 100, "overQuotaWeight": 3}}},
        {"uid": "b", "resourceShare": {"gpu": {"deserved": 10, "request": 100, "overQuotaWeight": 1}}},
    ],
}
LIFE = """
Cycles: 60
WindowSize: 10
Nodes: [{GPUs: 4, Count: 1}]
Queues:
- {Name: team-a}
- {Name: team-b}
Jobs:
  team-a: {GPUs: 4, NumPods: 1, NumJobs: 5}
  team-b: {GPUs: 4, NumPods: 1, NumJobs: 5}
"""


def kai(*arguments, **more):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)], **more)


@pytest.fixture
def division(tmp_path):
    path = tmp_path / "division.json"
    path.write_text(json.dumps(DIVISION))
    return path


@pytest.fixture
def life(tmp_path):
    path = tmp_path / "life.yaml"
    path.write_text(LIFE)
    return path


def test_a_division_is_printed_as_a_table(division):
    result = kai("fair-share", "-f", division)
    assert result.exit_code == 0, result.output
    heading, a, b = result.stdout.splitlines()
    assert heading.split() == ["QUEUE", "PARENT", "PRIORITY", "GPU", "CPU", "MEMORY"]
    assert (a.split()[:4], b.split()[:4]) == (["a", "-", "0", "70"], ["b", "-", "0", "30"])


def test_a_division_as_json_is_what_the_original_answers(division):
    answer = json.loads(kai("fair-share", "-f", division, "-o", "json").stdout)
    assert answer["a"] == {"gpu": 70.0, "cpu": 0.0, "memory": 0.0}


def test_a_division_as_csv_comes_from_standard_input():
    result = kai("fair-share", "-f", "-", "-o", "csv", input=json.dumps(DIVISION))
    assert result.stdout.splitlines() == ["QueueID,GPU,CPU,Memory", "a,70,0,0", "b,30,0,0"]


def test_json_may_be_indented_by_tabs_and_have_exponents(tmp_path):
    path = tmp_path / "division.json"
    path.write_text(json.dumps(DIVISION, indent="\t").replace("100", "1e+02"))
    assert json.loads(kai("fair-share", "-f", path, "-o", "json").stdout)["a"]["gpu"] == 70.0


@pytest.mark.parametrize("piped", [False, True], ids=["a file", "standard input"])
def test_json_may_begin_with_a_byte_order_mark(tmp_path, piped):
    text = "\ufeff" + json.dumps(DIVISION, indent="\t")
    path = tmp_path / "division.json"
    path.write_text(text, encoding="utf-8")
    result = kai("fair-share", "-f", "-" if piped else path, input=text if piped else None)
    assert result.exit_code == 0, result.output


def test_what_has_no_effect_is_noted_beside_the_result(tmp_path):
    path = tmp_path / "noted.json"
    path.write_text('{"queues": [{"uid": "a", "resourceShare": {"gpu": {"fairShare": 3}}}]}')
    result = kai("fair-share", "-f", path)
    assert "note: queues[0].resourceShare.gpu.fairShare has no effect" in result.stderr


def test_a_life_is_summed_up_in_a_table(life):
    result = kai("time-based", "-f", life)
    assert result.exit_code == 0, result.output
    heading, a, b, last = result.stdout.splitlines()
    assert heading.split()[:2] == ["QUEUE", "GPUS"]
    assert (a.split()[0], b.split()[0]) == ("team-a", "team-b")
    assert last == "means over 60 cycles, 4 GPUs"


def test_a_life_has_every_cycle_as_csv_and_as_json(life):
    lines = kai("time-based", "-f", life, "-o", "csv").stdout.splitlines()
    assert lines[0] == "Time,QueueID,Allocation,FairShare,Usage"
    assert len(lines) == 1 + 60 * 2
    found = json.loads(kai("time-based", "-f", life, "-o", "json").stdout)
    assert (found["cycles"], found["gpus"]) == (60, 4)
    assert [len(queue["allocation"]) for queue in found["queues"]] == [60, 60]


def test_a_life_is_drawn(life, tmp_path):
    pytest.importorskip("matplotlib")
    drawing = tmp_path / "life.svg"
    assert kai("time-based", "-f", life, "--plot", drawing).exit_code == 0
    assert "<svg" in drawing.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "while parsing"),
        ("cycles: 1\ncycles: 2", "'cycles' is there twice; say it once"),
        ("cycle: 1", "unknown key 'cycle'; did you mean 'cycles'?"),
        (f"kValue: 1{'0' * 400}", "it must be a number"),
    ],
    ids=lambda given: given[:20],
)
def test_a_file_that_cannot_be_simulated_is_named(tmp_path, text, message):
    path = tmp_path / "life.yaml"
    path.write_text(text)
    result = kai("time-based", "-f", path)
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert message in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "No such file" in kai("time-based", "-f", tmp_path / "none.yaml").stderr


def test_a_life_is_told_though_it_is_not_drawn(life, tmp_path):
    pytest.importorskip("matplotlib")
    drawing = tmp_path / "life.svg"
    drawing.symlink_to("/dev/full")
    result = kai("time-based", "-f", life, "--plot", drawing)
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert result.stdout.endswith("means over 60 cycles, 4 GPUs\n")


# --- over HTTP ------------------------------------------------------------------------------------
@pytest.fixture
async def served():
    runner = web.AppRunner(application(cors=True))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
        yield session
    await runner.cleanup()


@pytest.mark.integration
async def test_a_division_is_answered_over_http(served):
    async with served.post("/simulate", json=DIVISION) as answer:
        assert (answer.status, (await answer.json())["b"]["gpu"]) == (200, 30.0)
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
    async with served.options("/simulate") as answer:
        assert answer.headers["Access-Control-Allow-Methods"] == "POST, OPTIONS"
    async with served.get("/simulate") as answer:
        assert answer.status == 405


@pytest.mark.integration
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "malformed"),
        (b"[1]", "must be a mapping"),
        (b'{"queue": []}', "did you mean 'queues'?"),
        ('{"queues": [{"uid": "Füße"}]}'.encode("latin-1"), "utf-8"),
    ],
)
async def test_what_cannot_be_divided_is_answered_400(served, body, told):
    async with served.post("/simulate", data=body) as answer:
        assert answer.status == 400
        text = await answer.text()
    assert told in text or "truncated" in text


@pytest.mark.integration
@pytest.mark.parametrize("address", ["here", "99999", "127.0.0.1:99999", "192.0.2.1:8080", "::1:0"])
async def test_an_address_that_nobody_can_listen_on_is_named(address):
    with pytest.raises(ListenFailed, match=f"--listen .*{address}"):
        await serve(address, cors=False, say=print)


async def where(address):
    """What is told once one listens there; listens no more afterwards."""
    told = []

    class Told(Exception):
        """Where it listens is known."""

    def say(text):
        told.append(text)
        raise Told

    with pytest.raises(Told):
        await serve(address, cors=False, say=say)
    return told[0]


@pytest.mark.integration
async def test_an_address_of_ipv6_without_brackets_is_told_with_them():
    with pytest.raises(ListenFailed, match=r"IPv6 .* brackets, for example \[::1\]:8080"):
        await serve("::1:8080", cors=False, say=print)


@pytest.mark.integration
@pytest.mark.parametrize("address", ["0", ":0"])
async def test_a_port_alone_is_one_on_loopback(address):
    assert re.fullmatch(r"POST to http://127\.0\.0\.1:\d+/simulate", await where(address))


@pytest.mark.skipif(not ports.is_free(0, "::1"), reason="this machine has no IPv6")
@pytest.mark.integration
async def test_an_address_of_ipv6_stands_in_brackets():
    assert re.fullmatch(r"POST to http://\[::1\]:\d+/simulate", await where("[::1]:0"))


@pytest.mark.parametrize("arguments", [["-f", "x.yaml", "--listen", "127.0.0.1:0"], ["-f", "-", "--cors"]])
def test_what_would_be_left_out_is_refused(arguments, monkeypatch):
    monkeypatch.setattr(simulate, "_serve", lambda *_, **__: None)
    result = kai("fair-share", *arguments, env={"COLUMNS": "200"}, input=json.dumps(DIVISION))
    assert result.exit_code == 2
    assert "--listen" in result.output


def test_a_file_or_an_address_is_needed():
    result = kai("fair-share")
    assert result.exit_code == 2
    assert "--listen" in result.output
