"""The pod-grouper as the process that it is."""

import asyncio
import json
import signal
import sys
from contextlib import asynccontextmanager

import aiohttp
import grpc
import pytest

from deadlines import eventually, patience, within
from kai.wire.v1 import grouping_pb2, grouping_pb2_grpc

from .test_live import a_pod, has_members

pytestmark = pytest.mark.integration

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: demo, namespace: team, uid: u1}
spec: {schedulerName: kai-scheduler}
---
apiVersion: v1
kind: Pod
metadata:
  name: lost
  namespace: team
  uid: u2
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: x, uid: z}]
spec: {schedulerName: kai-scheduler}
"""


class Process:
    """A running pod-grouper and what it has logged."""

    def __init__(self, process):
        self.process = process
        self.lines = []

    async def read_log(self):
        async for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except json.JSONDecodeError:
                self.lines.append({"event": line.decode()})

    async def logged(self, event):
        """The first log line with this event."""

        def find():
            assert self.process.returncode is None, self.lines
            return next((line for line in self.lines if line["event"] == event), None)

        return await eventually(find)

    async def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        async with within("the pod-grouper ends"):
            return await self.process.wait()


@asynccontextmanager
async def a_process(cluster, *flags):
    listen = ("--health-listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0")
    lease = (
        "--previews",
        "--lease-duration=2s",
        "--lease-renew-deadline=1500ms",
        "--lease-retry-period=200ms",
    )
    command = (
        sys.executable,
        "-m",
        "kai_pod_grouper",
        "--log-json=true",
        f"--kubeconfig={cluster.kubeconfig}",
    )
    process = await asyncio.create_subprocess_exec(
        *command, *listen, *lease, *flags, stderr=asyncio.subprocess.PIPE
    )
    found = Process(process)
    reading = asyncio.create_task(found.read_log())
    try:
        yield found
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


async def test_it_groups_previews_tells_that_it_is_ready_and_drains(cluster):
    async with a_process(cluster) as grouper, aiohttp.ClientSession() as session:
        listening = await grouper.logged("listening")

        async def ready():
            async with session.get(f"http://{listening['health']}/readyz") as response:
                return response.status == 200

        await eventually(ready)
        await cluster.create(a_pod("demo"), a_pod("outside", annotations={"pod-group-name": "pg-outside-u"}))
        await eventually(has_members(cluster, "demo"))
        external = await grouper.logged("Detected pod with no owner but with podgroup annotation")
        assert external["pod"] == "default/outside"

        port = (await grouper.logged("serving"))["port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            service = grouping_pb2_grpc.GroupingServiceStub(channel)
            found = await service.Preview(grouping_pb2.PreviewRequest(manifest=MANIFEST), timeout=patience())
            assert json.loads(found.pod_groups[0])["metadata"]["name"] == "pg-demo-u1"
            assert [(pod.name, pod.pod_group) for pod in found.pods] == [("demo", "pg-demo-u1"), ("lost", "")]
            assert "Job team/x" in found.warnings[0]
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await service.Preview(grouping_pb2.PreviewRequest(manifest="a: ["), timeout=patience())
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

        async with session.get(f"http://{listening['metrics']}/metrics") as response:
            assert 'kai_podgrouper_writes_total{kind="PodGroup",verb="create"} 1.0' in await response.text()
        assert await grouper.end() == 0


async def test_of_two_replicas_one_groups_and_the_other_takes_over(cluster):
    async with a_process(cluster, "--leader-elect") as first:
        await first.logged("leading")
        async with a_process(cluster, "--leader-elect") as second:
            await second.logged("serving")
            await cluster.create(a_pod("one"))
            await eventually(has_members(cluster, "one"))
            await first.end(signal.SIGKILL)
            await cluster.create(a_pod("two"))
            await eventually(has_members(cluster, "two"))
            assert [line["event"] for line in second.lines].count("leading") == 1
            assert await second.end() == 0


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--namespace-label-selector=team", "--namespace-label-selector"),
        ("--max-concurrent-reconciles=0", "--max-concurrent-reconciles"),
        ("--queue-label=x", "did you mean --queue-label-key"),
    ],
)
async def test_a_wrong_flag_is_named_and_ends_it_with_2(flag, message):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kai_pod_grouper", flag, stderr=asyncio.subprocess.PIPE
    )
    _, error = await process.communicate()

    assert process.returncode == 2
    assert message in error.decode()


async def test_a_taken_port_is_named_and_ends_it(cluster):
    async with a_process(cluster) as first:
        port = (await first.logged("serving"))["port"]
        async with (
            a_process(cluster, f"--grpc-listen=127.0.0.1:{port}") as second,
            within("the pod-grouper ends"),
        ):
            await second.process.wait()

    assert second.process.returncode == 1
    assert f"grpc-listen 127.0.0.1:{port}" in json.dumps(second.lines)
