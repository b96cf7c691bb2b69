"""How quickly admission answers under load: ``make reviews``, or ``python -m e2e.bench.admission``.

An admission service on one core, with certificates and a cluster of 1,000 queues to look things up in, and so
many reviews a second over HTTPS, of every size that people and tenants send. The schedule does not wait for
answers: a review is sent when it is due, and its latency counts from then, so what waits behind a slow answer
is charged to it. Where somebody is beside on this machine, that shows as lateness of this program, which is
told.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import os
import random
import re
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil

from e2e.bench.grouping import cpu_of
from e2e.bench.statuses import World, a_tree, a_world
from e2e.manifests import a_job, a_pod, a_queue
from kai.kube.resources import QUEUES
from kai.model import names
from kai.model.objects import ApiObject
from kai.runtime import certificates
from kai.validation.registration import MUTATE_POD, VALIDATE_POD, WARN

Json = dict[str, Any]
QUEUE_COUNT = 1000
#: Not counted: connections are opened, code is warmed up.
WARM_UP_SECONDS = 3.0
#: What nobody waits for any longer: the API server's own limit.
TIMEOUT_SECONDS = 10.0
AIM_MS, AIM_PERCENTILE = 20.0, 99.0


# --- what is sent ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of review: of ``share`` thousandths of all; ``allowed`` is the right answer."""

    name: str
    share: int
    path: str
    make: Callable[[random.Random], Json]
    allowed: bool = True


def kept_by_the_server(body: Json, chance: random.Random) -> Json:
    """The object with what API server and controllers add: uid, times, fields of managers, tolerations."""
    fields = {f"f:{key}": {f"f:k{n}": {} for n in range(12)} for key in ("metadata", "spec", "status")}
    written = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    patience = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    sources = [{"configMap": {"name": "root-ca"}}, {"serviceAccountToken": {"path": "token"}}]
    mount = {"name": "kube-api-access", "mountPath": "/var/run/secrets", "readOnly": True}
    body["metadata"] |= {
        "uid": f"{chance.getrandbits(128):032x}",
        "creationTimestamp": "2026-11-01T10:00:00Z",
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
        ],
        "managedFields": [
            {"manager": manager, **written}
            for manager in ("kube-controller-manager", "kai-pod-grouper", "kubelet")
        ],
    }
    spec = body["spec"]
    spec |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Never", "serviceAccountName": "default"}
    spec["tolerations"] = [
        {"key": f"node.kubernetes.io/{what}", **patience} for what in ("not-ready", "unreachable")
    ]
    spec["volumes"] = [{"name": "kube-api-access", "projected": {"sources": sources}}]
    for container in spec["containers"]:
        container["env"] = [{"name": f"NCCL_SETTING_{number}", "value": "a" * 40} for number in range(15)]
        container["volumeMounts"] = [mount]
    return body


def _whole(chance: random.Random) -> Json:
    queue = f"q{LAST_LEVEL}-{chance.randrange(100)}"
    return kept_by_the_server(a_pod(f"p-{chance.getrandbits(40):x}", "team", queue, gpus=1), chance)


def _part(chance: random.Random) -> Json:
    body = _whole(chance)
    body["metadata"]["annotations"] = {names.GPU_FRACTION: "0.5"}
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return body


def _wrong(chance: random.Random) -> Json:
    body = _part(chance)
    body["metadata"]["annotations"][names.GPU_FRACTION] = "1.5"
    return body


def _many_containers(chance: random.Random) -> Json:
    body = _whole(chance)
    body["spec"]["containers"] *= 30
    return body


def _long_annotation(chance: random.Random) -> Json:
    body = _part(chance)
    body["metadata"]["annotations"] |= {"note": "x" * 250_000}
    return body


def _many_labels(chance: random.Random) -> Json:
    body = _part(chance)
    body["metadata"]["labels"] |= {f"label-{number}": "v" for number in range(5_000)}
    return body


def _much_environment(chance: random.Random) -> Json:
    body = _part(chance)
    body["spec"]["containers"][0]["env"] = [
        {"name": f"V{number}", "value": "x" * 60} for number in range(10_000)
    ]
    return body


def _job(chance: random.Random) -> Json:
    return a_job("train", "team", f"q{LAST_LEVEL}-{chance.randrange(100)}", pods=8, gang=8, gpus=1)


def _a_queue(chance: random.Random) -> Json:
    return a_queue(f"q{LAST_LEVEL}-{chance.randrange(100)}", parent="q0-0", gpus=4)


LAST_LEVEL: Final = 4
#: Most are pods of gangs, as controllers make them; five in a thousand are as large as one gets them in.
KINDS: Final = (
    Kind("pod with whole GPUs, to be completed", 150, MUTATE_POD, _whole),
    Kind("pod with a part, to be completed", 200, MUTATE_POD, _part),
    Kind("pod with a part, to be checked", 200, VALIDATE_POD, _part),
    Kind("pod that changes, to be checked", 250, VALIDATE_POD, _whole),
    Kind("pod that is refused", 50, VALIDATE_POD, _wrong, allowed=False),
    Kind("Job, for warnings", 75, WARN, _job),
    Kind("Queue, for warnings", 40, WARN, _a_queue),
    Kind("pod of 30 containers", 30, MUTATE_POD, _many_containers),
    Kind("hostile: an annotation of 250 kB", 2, MUTATE_POD, _long_annotation),
    Kind("hostile: 5,000 labels", 2, VALIDATE_POD, _many_labels),
    Kind("hostile: 10,000 variables, 1 MB", 1, MUTATE_POD, _much_environment),
)


def a_review(kind: Kind, chance: random.Random) -> bytes:
    """The body as an API server sends it; of one that changes with the object as it was."""
    body = kind.make(chance)
    group, _, version = body["apiVersion"].rpartition("/")
    changes = "changes" in kind.name
    request: Json = {
        "uid": f"{chance.getrandbits(128):032x}",
        "kind": {"group": group, "version": version, "kind": body["kind"]},
        "operation": "UPDATE" if changes else "CREATE",
        "name": body["metadata"]["name"],
        "namespace": "team",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:job-controller",
            "groups": ["system:authenticated"],
        },
        "object": body,
    }
    if changes:
        old = json.loads(json.dumps(body))
        old["metadata"]["labels"]["before"] = "yes"
        request["oldObject"] = old
    return json.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    ).encode()


# --- the service -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Service:
    """A running admission: its process, where it listens, and whom to trust."""

    process: psutil.Process
    address: str
    tls: ssl.SSLContext


@asynccontextmanager
async def a_service(world: World, folder: Path) -> AsyncIterator[Service]:
    served = certificates.ensure(folder, ["localhost", "127.0.0.1"])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kai_admission",
        "--webhook-addr=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
        f"--kubeconfig={world.kubeconfig}",
        f"--cert-dir={folder}",
        "--gpu-sharing-enabled",
        "--log-json",
        stderr=asyncio.subprocess.PIPE,
    )
    drained: asyncio.Task[None] | None = None
    try:
        assert process.stderr is not None
        address = await _address(process.stderr)
        drained = asyncio.create_task(_drain(process.stderr))
        yield Service(
            psutil.Process(process.pid), address, ssl.create_default_context(cadata=served.trusted.decode())
        )
    finally:
        process.terminate()
        await process.wait()
        if drained is not None:
            await drained


async def _address(log: asyncio.StreamReader) -> str:
    while line := await log.readline():
        found = re.search(r'"address": ?"([^"]+)"', line.decode())
        if b"webhook serves" in line and found:
            return found[1]
    raise RuntimeError("admission ended before it served")


async def _drain(log: asyncio.StreamReader) -> None:
    while await log.readline():
        pass


# --- the load ----------------------------------------------------------------------------------------
@dataclass(slots=True)
class Measured:
    """Milliseconds by sort of review, from when each was due; and how late this program sent."""

    latencies: dict[str, list[float]] = field(default_factory=dict)
    lateness: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    mib: float = 0.0

    @property
    def all(self) -> list[float]:
        """All latencies."""
        return [each for found in self.latencies.values() for each in found]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered), max(1, math.ceil(len(ordered) * percent / 100))) - 1]


class Load:
    """Sends reviews as they are due, whatever became of those before."""

    def __init__(self, service: Service, *, rate: float, seed: int) -> None:
        self._service = service
        self._rate = rate
        self._chance = random.Random(seed)
        # Bodies are made before: this program must not be what is slow.
        self._bodies = {kind: [a_review(kind, self._chance) for _ in range(20)] for kind in KINDS}
        self.measured = Measured()

    async def run(self, seconds: float) -> Measured:
        """Warm up, then measure for so long."""
        connector = aiohttp.TCPConnector(ssl=self._service.tls, limit=0)
        limits = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:
            await self._send_all(session, WARM_UP_SECONDS)
            self.measured = Measured()
            gc.collect()
            gc.freeze()
            before, began = cpu_of(self._service.process), time.monotonic()
            await self._send_all(session, seconds)
            self.measured.seconds = time.monotonic() - began
        self.measured.cpu_seconds = cpu_of(self._service.process) - before
        self.measured.mib = self._service.process.memory_info().rss / 2**20
        return self.measured

    async def _send_all(self, session: aiohttp.ClientSession, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        kinds = self._chance.choices(KINDS, [kind.share for kind in KINDS], k=int(seconds * self._rate))
        due = clock()
        async with asyncio.TaskGroup() as tasks:
            for kind in kinds:
                due += self._chance.expovariate(self._rate)  # as independent people come
                if (wait := due - clock()) > 0:
                    await asyncio.sleep(wait)
                tasks.create_task(self._send(session, kind, due))

    async def _send(self, session: aiohttp.ClientSession, kind: Kind, due: float) -> None:
        clock = asyncio.get_running_loop().time
        self.measured.lateness.append(1000 * (clock() - due))
        url = f"https://{self._service.address}{kind.path}?timeout=10s"
        headers = {"Content-Type": "application/json"}
        try:
            async with session.post(
                url, data=self._chance.choice(self._bodies[kind]), headers=headers
            ) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.measured.wrong.append(f"{kind.name}: {error!r}")
            return
        self.measured.latencies.setdefault(kind.name, []).append(1000 * (clock() - due))
        if answer.status != 200 or json.loads(body)["response"]["allowed"] is not kind.allowed:
            self.measured.wrong.append(f"{kind.name}: {answer.status} {body[:200]!r}")


# --- the whole ---------------------------------------------------------------------------------------
async def run(*, rate: float, seconds: float, seed: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        async with a_world(a_tree(QUEUE_COUNT)) as world:
            for name, parent in world.tree.parents.items():
                await world.client.create(QUEUES, a_queue(name, parent=parent), type=ApiObject)
            async with a_service(world, Path(folder)) as service:
                _give_cores(service)
                return await Load(service, rate=rate, seed=seed).run(seconds)


def _give_cores(service: Service) -> None:
    """One core for the service, and the others for everybody else."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        service.process.cpu_affinity(cores[:1])
        psutil.Process().cpu_affinity(cores[1:])


def told(measured: Measured) -> str:
    """The result for people."""
    rows = [
        ("all", measured.all),
        *sorted(measured.latencies.items()),
        ("lateness of this program", measured.lateness),
    ]
    lines = [f"{'':42} {'reviews':>8} {'p50':>8} {'p99':>8} {'p99.9':>8} {'most':>8}  ms"]
    for name, values in rows:
        shown = " ".join(f"{percentile(values, at):8.2f}" for at in (50, 99, 99.9, 100))
        lines.append(f"{name:42} {len(values):8} {shown}")
    share = 100 * measured.cpu_seconds / measured.seconds
    lines.append(
        f"{len(measured.all) / measured.seconds:.0f} a second, {share:.0f} % of a core, "
        f"{measured.mib:.0f} MiB"
    )
    return "\n".join([*lines, *(f"WRONG: {one}" for one in measured.wrong[:5]), ""])


def main() -> int:
    """Measure; exit status 1 if an answer is wrong, or the aim is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.bench.admission",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rate", type=float, default=500, help="reviews a second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    measured = asyncio.run(run(rate=options.rate, seconds=options.seconds, seed=options.seed))
    sys.stdout.write(told(measured))
    sys.stdout.write(f"load before: {load:.1f} on {os.cpu_count()} cores\n")
    missed = percentile(measured.all, AIM_PERCENTILE) > AIM_MS
    return 1 if measured.wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
