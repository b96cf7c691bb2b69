"""The admission service as a process: flags, health, HTTPS, certificates, SIGTERM."""

import asyncio
import json
import signal
import ssl
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest

from deadlines import within
from kai.runtime import certificates

pytestmark = pytest.mark.integration
NAMES = ["localhost", "127.0.0.1"]


class Process:
    """A running service, with the addresses that it chose."""

    def __init__(self, process):
        self.process = process
        self.seen = []

    async def until(self, event):
        """The log line of this event."""
        async with within(f"admission logs {event!r}"):
            while True:
                for line in self.seen:
                    if line.get("event") == event:
                        return line
                raw = await self.process.stderr.readline()
                assert raw, f"ended before {event!r}: {self.seen}"
                self.seen.append(json.loads(raw))

    async def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        async with within("admission ends"):
            await self.process.stderr.read()
            return await self.process.wait()


@asynccontextmanager
async def admission(*flags):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kai_admission",
        "--webhook-addr=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
        "--log-json",
        *flags,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def get(session, address, path):
    async with session.get(f"http://{address}{path}") as answer:
        return answer.status, await answer.text()


async def test_it_serves_reviews_and_is_healthy_only_while_it_does(tmp_path):
    async with (
        admission(f"--cert-dir={tmp_path}", "--gpu-sharing-enabled") as service,
        aiohttp.ClientSession() as session,
    ):
        health = (await service.until("listening"))["health"]
        await service.until("webhook waits for its certificate")
        assert [(await get(session, health, path))[0] for path in ("/healthz", "/readyz")] == [503, 503]

        served = certificates.ensure(tmp_path, NAMES)
        webhook = (await service.until("webhook serves"))["address"]
        assert [(await get(session, health, path))[0] for path in ("/healthz", "/readyz")] == [200, 200]

        tls = ssl.create_default_context(cadata=served.trusted.decode())
        pod = {
            "metadata": {"name": "demo", "annotations": {"gpu-fraction": "1.5"}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]},
        }
        review = {"request": {"uid": "u1", "operation": "CREATE", "namespace": "team", "object": pod}}
        url = f"https://{webhook}/validate--v1-pod?timeout=10s"
        async with session.post(url, json=review, ssl=tls) as answer:
            response = (await answer.json())["response"]
        assert response["uid"] == "u1"
        assert response["allowed"] is False
        assert 'pod team/demo: annotation gpu-fraction is "1.5"' in response["status"]["message"]

        metrics = (await service.until("listening"))["metrics"]
        _, text = await get(session, metrics, "/metrics")
        assert 'kai_webhook_reviews_total{path="/validate--v1-pod",result="denied"} 1.0' in text
        assert await service.end() == 0


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--webhook-addr=high", "--webhook-addr"),
        ("--gpu-sharing-enabled=perhaps", "--gpu-sharing-enabled"),
        ("--gpu-sharing", "did you mean"),
    ],
)
async def test_an_invalid_setting_ends_it_with_status_2_and_the_name(flag, named):
    async with admission(flag) as service:
        output = (await service.process.stderr.read()).decode()
        assert await service.process.wait() == 2
        assert named in output
        assert len(output.splitlines()) == 1


async def test_a_port_in_use_ends_it_with_the_name_of_the_flag(tmp_path):
    certificates.ensure(tmp_path, NAMES)
    async with admission(f"--cert-dir={tmp_path}") as first:
        taken = (await first.until("webhook serves"))["address"]
        async with admission(f"--cert-dir={tmp_path}", f"--webhook-addr={taken}") as second:
            output = (await second.process.stderr.read()).decode()
            assert await second.process.wait() == 1
            assert f"address {taken} is in use; choose another with --webhook-addr" in output
