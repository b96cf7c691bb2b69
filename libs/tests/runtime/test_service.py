"""The life of a service process, as seen from outside: answers, signals, exit status."""

import asyncio
import contextlib
import json
import signal
import sys
import textwrap

import aiohttp
import pytest

from deadlines import within
from kai.runtime.trimming import trimmer

pytestmark = pytest.mark.integration

PROGRAM = """
    import asyncio, sys
    from kai import observe, runtime
    from kai.kube.errors import LeadershipLost

    class Program:
        name = "program"
        needs_cluster = {needs_cluster}
        def __init__(self, settings):
            self.settings = settings
        async def run(self, host):
            host.health.add("warm", lambda: {ready})
            print("running", host.server.health_address[1], host.server.metrics_address[1], flush=True)
            {body}

    {first}
    settings = runtime.ServiceSettings.load()
    observe.configure(service="program", settings=settings.observe)
    runtime.run(Program(settings))
"""
TRIMS_OFTEN = "from kai.runtime import trimming; trimming.PERIOD_SECONDS, trimming.REST = 0.05, 100.0"
LISTEN = ["--health-listen=127.0.0.1:0", "--metrics-listen=localhost:0"]


class Process:
    """The program in an interpreter of its own."""

    def __init__(self, process):
        self.process = process
        self.ports = []

    async def running(self):
        async with within("the program says that it runs"):
            line = (await self.process.stdout.readline()).decode().split()
        assert line[0] == "running"
        self.ports = [int(port) for port in line[1:3]]

    async def get(self, port, path):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def put(self, port, path, text):
        async with (
            aiohttp.ClientSession() as session,
            session.put(f"http://127.0.0.1:{port}{path}", data=text) as answer,
        ):
            return answer.status, await answer.text()

    async def ended(self):
        async with within("the program ends"):
            out, err = await self.process.communicate()
        return self.process.returncode, out.decode(), err.decode()


@contextlib.asynccontextmanager
async def program(*arguments, body="await host.stopping.wait()", ready="True", needs_cluster=False, first=""):
    source = textwrap.dedent(PROGRAM.format(body=body, ready=ready, needs_cluster=needs_cluster, first=first))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        source,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_it_answers_probes_and_drains_on_sigterm():
    body = "await host.stopping.wait(); print('drained', flush=True)"
    async with program(*LISTEN, body=body) as process:
        await process.running()
        health, metrics = process.ports
        assert await process.get(health, "/healthz") == (200, "ok")
        assert await process.get(health, "/readyz") == (200, "ok")
        assert (await process.get(health, "/readyz?verbose"))[1].splitlines()[-1] == "ready"
        assert (await process.get(health, "/metrics"))[0] == 404
        status, text = await process.get(metrics, "/metrics")
        assert status == 200
        assert "process_resident_memory_bytes" in text
        process.process.send_signal(signal.SIGTERM)
        status, out, err = await process.ended()
    assert (status, out) == (0, "drained\n")
    events = [json.loads(line) for line in err.splitlines()]
    assert [event["event"] for event in events] == ["listening", "draining", "stopped"]
    assert {event["service"] for event in events} == {"program"}


async def test_it_is_not_ready_while_a_check_says_why():
    async with program(*LISTEN, ready="'cache is cold'") as process:
        await process.running()
        port = process.ports[0]
        status, text = await process.get(port, "/readyz")
        assert status == 503
        assert "[-]warm: cache is cold" in text
        assert (await process.get(port, "/readyz/warm"))[0] == 503
        assert (await process.get(port, "/readyz/cold"))[0] == 404
        assert (await process.get(port, "/healthz"))[0] == 200


async def test_health_and_metrics_can_share_a_listener():
    async with program(*LISTEN) as first:
        await first.running()
        address = f"127.0.0.1:{first.ports[0]}"
        first.process.send_signal(signal.SIGINT)
        assert (await first.ended())[0] == 0
    async with program(f"--health-listen={address}", f"--metrics-listen={address}") as process:
        await process.running()
        assert process.ports[0] == process.ports[1]
        assert (await process.get(process.ports[0], "/metrics"))[0] == 200
        assert (await process.get(process.ports[0], "/healthz"))[0] == 200


@pytest.mark.skipif(trimmer() is None, reason="the C library keeps what it has")
async def test_what_it_has_freed_goes_back_to_the_system():
    body = """
            from kai.runtime import trimming
            burst = [bytes(1000 + n % 7) for n in range(60_000)]
            kept, large = burst[::2000], trimming.resident_mib()
            del burst
            while trimming.resident_mib() > large - 40.0:
                await asyncio.sleep(0.02)
            print("given back", flush=True)
    """
    async with program(*LISTEN, "--log-level=debug", body=body, first=TRIMS_OFTEN) as process:
        await process.running()
        status, out, err = await process.ended()
    assert (status, out) == (0, "given back\n")
    assert "free memory given back" in err


async def test_how_loud_it_is_can_be_changed_from_this_machine():
    async with program(*LISTEN) as process:
        await process.running()
        port = process.ports[0]
        assert await process.get(port, "/debug/log-level") == (200, "info\n")
        assert await process.put(port, "/debug/log-level", "kai.runtime=debug") == (
            200,
            "info,kai.runtime=debug\n",
        )
        assert await process.get(port, "/debug/log-level") == (200, "info,kai.runtime=debug\n")
        status, text = await process.put(port, "/debug/log-level", "loud")
        assert (status, text.split(",")[0]) == (400, "allowed are debug")
        assert (await process.put(port, "/debug/log-level", "x" * 5000))[0] == 400
        process.process.send_signal(signal.SIGTERM)
        _, _, err = await process.ended()
    events = [json.loads(line) for line in err.splitlines()]
    (changed,) = [event for event in events if event["event"] == "log level changed"]
    assert (changed["before"], changed["now"]) == ("info", "info,kai.runtime=debug")


async def test_profiles_are_served_where_they_are_asked_for():
    body = """
            import time
            def work():
                time.sleep(0.01)
            while not host.stopping.is_set():
                work()
                await asyncio.sleep(0)
    """
    async with program(*LISTEN, "--enable-profiler", "--profiler-port=0", body=body) as process:
        await process.running()
        assert process.process.stderr is not None
        async with within("it tells where"):
            while "profiles are served" not in (line := (await process.process.stderr.readline()).decode()):
                pass
        port = int(json.loads(line)["address"].rpartition(":")[2])
        status, text = await process.get(port, "/debug/profile?seconds=0.3")
        assert status == 200
        assert "looks at" in text.splitlines()[0]
        assert any(line.startswith("MainThread;") and "work" in line for line in text.splitlines())
        status, text = await process.get(port, "/debug/profile?seconds=0.2&format=collapsed")
        assert text.startswith(("MainThread;", "asyncio"))
        for query in ("seconds=0", "seconds=301", "seconds=nan", "seconds=soon", "format=svg"):
            assert (await process.get(port, f"/debug/profile?{query}"))[0] == 400


async def test_profiles_are_not_served_unasked():
    async with program(*LISTEN) as process:
        await process.running()
        for port in process.ports:
            assert (await process.get(port, "/debug/profile"))[0] == 404


async def test_a_drain_that_takes_too_long_is_cut_short():
    async with program(*LISTEN, "--drain-timeout=100ms", body="await asyncio.sleep(3600)") as process:
        await process.running()
        process.process.send_signal(signal.SIGTERM)
        status, _, err = await process.ended()
    assert status == 0
    assert "drain took too long" in err


NEVER_ENDS = """
            async def deaf():
                while True:
                    try:
                        await asyncio.sleep(3600)
                    except asyncio.CancelledError:
                        pass
            """


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(
            "async with asyncio.TaskGroup() as tasks: tasks.create_task(deaf(), name='deaf')", id="work"
        ),
        pytest.param("host.start(deaf(), name='deaf'); await host.stopping.wait()", id="background"),
        pytest.param(
            "spare = asyncio.create_task(deaf(), name='deaf'); await host.stopping.wait()", id="forgotten"
        ),
    ],
)
async def test_what_does_not_end_when_it_is_cancelled_is_not_waited_for(work):
    body, first = f"{NEVER_ENDS}{work}", "runtime.service.EVENT_SECONDS = runtime.service.LAST_SECONDS = 0.1"
    async with program(*LISTEN, "--drain-timeout=100ms", body=body, first=first) as process:
        await process.running()
        process.process.send_signal(signal.SIGTERM)
        status, _, err = await process.ended()
    assert status == 1
    assert "the process ends without them" in err
    assert "deaf" in err


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("host.start(fails()); await deaf()", id="beside"),
        pytest.param("host.start(deaf()); await asyncio.sleep(0.1); await fails()", id="itself"),
    ],
)
async def test_what_does_not_end_keeps_no_process_alive_of_which_something_has_failed(work):
    fails = """
            async def fails():
                await asyncio.sleep(0.1)
                raise runtime.FatalError("the stove is on", status=3)
            """
    first = "runtime.service.EVENT_SECONDS = runtime.service.LAST_SECONDS = 0.1"
    async with program(*LISTEN, body=f"{NEVER_ENDS}{fails}{work}", first=first) as process:
        await process.running()
        status, _, err = await process.ended()
    assert status == 3
    assert "the process ends without them" in err
    assert err.splitlines()[-1] == "error: the stove is on"


async def test_a_second_signal_ends_it_at_once():
    async with program(*LISTEN, body="await asyncio.sleep(3600)") as process:
        await process.running()
        process.process.send_signal(signal.SIGTERM)
        async with within("the program says that it drains"):
            while b"draining" not in await process.process.stderr.readline():
                pass
        process.process.send_signal(signal.SIGTERM)
        assert (await process.ended())[0] == 128 + signal.SIGTERM


async def test_a_defect_ends_it_with_1_and_its_traceback():
    async with program(*LISTEN, body="raise ValueError('a defect')") as process:
        await process.running()
        status, _, err = await process.ended()
    assert status == 1
    assert json.loads(err.splitlines()[-1])["exception"][0]["exc_value"] == "a defect"


async def test_a_failure_beside_the_service_ends_it_too():
    program_with_a_helper = """
            async def beside():
                raise runtime.FatalError("the stove is on", status=3)
            host.start(beside())
            await asyncio.sleep(3600)"""
    async with program(*LISTEN, body=program_with_a_helper) as process:
        await process.running()
        status, _, err = await process.ended()
    assert status == 3
    assert err.splitlines()[-1] == "error: the stove is on"


async def test_work_beside_the_service_ends_with_it():
    body = "host.start(asyncio.sleep(3600)); await host.stopping.wait()"
    async with program(*LISTEN, body=body) as process:
        await process.running()
        process.process.send_signal(signal.SIGTERM)
        assert (await process.ended())[0] == 0


async def test_a_port_in_use_is_named():
    async with program(*LISTEN) as first:
        await first.running()
        taken = f"127.0.0.1:{first.ports[0]}"
        async with program(f"--health-listen={taken}", "--metrics-listen=127.0.0.1:0") as second:
            status, _, err = await second.ended()
    assert status == 1
    assert err.splitlines()[-1] == f"error: address {taken} is in use; choose another with --health-listen"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--kubeconfig=/nowhere/config"], 1, "error: kubeconfig /nowhere/config does not exist"),
        (["--no-such-flag"], 2, "error: unknown flag --no-such-flag"),
    ],
)
async def test_what_it_cannot_start_with_is_one_clear_line(arguments, status, said):
    async with program(*LISTEN, *arguments, needs_cluster=True) as process:
        ended, _, err = await process.ended()
    assert ended == status
    assert err.splitlines()[-1].startswith(said)
