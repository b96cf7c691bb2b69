"""Certificates change several times under servers and clients that never stop talking; no call fails."""

import asyncio
import ssl
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import grpc
import msgspec
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deadlines import eventually, patience, slowness
from kai import tls
from kai.runtime.webhook import AdmissionRequest, AdmissionResponse, WebhookServer
from kai.session.cache import SessionCache
from kai.session.credentials import RedisCredentials
from kai.session.errors import CacheUnavailable
from kai.tls import CertificateFiles
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.serving import serve
from kai_local.processes.ports import free_ports
from kai_operator.rotation import Held, Terms, turn
from kai_operator.secret_data import certificate_secret, decoded

pytestmark = pytest.mark.integration

ROTATIONS = 4
#: Seconds: each process reads its files up to so late; what is settled has reached everybody.
LATEST, SETTLING = 0.5, 1.0
TERMS = Terms(
    lifetime=timedelta(seconds=60),
    renew_before=timedelta(seconds=58),
    authority_lifetime=timedelta(seconds=120),
    settling=timedelta(seconds=SETTLING),
)
HOSTS = {
    "webhooks": {"webhook-tls": "127.0.0.1"},
    "grpc": {"scheduler-tls": "scheduler.kai.svc", "binder-tls": "binder.kai.svc"},
}


class Kubelet:
    """Gives a process the files of its Secret, all at once, and some time late."""

    def __init__(self, folder, late):
        self.folder, self._late = folder, late
        self._waiting = []

    def tell(self, secret):
        if not self._waiting or self._waiting[-1][1] != secret:
            self._waiting.append((time.monotonic() + self._late, secret))
        while self._waiting and (self._waiting[0][0] <= time.monotonic() or not self.folder.exists()):
            self._write(decoded(self._waiting.pop(0)[1]))

    def _write(self, data):
        self.folder.mkdir(exist_ok=True)
        fresh = self.folder / f"..{time.monotonic_ns()}"
        fresh.mkdir()
        for key, content in data.items():
            (fresh / key).write_bytes(content)
            if not (self.folder / key).is_symlink():
                (self.folder / key).symlink_to(Path("..data") / key)
        (self.folder / "..new").symlink_to(fresh.name)
        (self.folder / "..new").replace(self.folder / "..data")

    def files(self):
        names = ("ca.crt", "tls.crt", "tls.key")
        ca, cert, key = (self.folder / name for name in names)
        return TlsFiles(ca=ca, cert=cert, key=key, namespace="kai")


class Town:
    """The operator's part, over and over: what is to be in the Secrets now.

    ``readers``: who mounts a Secret beside the server that it is for; the last one to read it.
    """

    def __init__(self, folder, hosts=HOSTS, *, terms=TERMS, readers=()):
        self.hosts, self.terms = hosts, terms
        self.held: dict[str, dict[str, Held]] = {purpose: dict.fromkeys(of) for purpose, of in hosts.items()}
        self.trusted: dict[str, bytes] = {}
        self.shown: set[bytes] = set()
        secrets = [name for of in hosts.values() for name in of]
        self.kubelets = {
            name: Kubelet(folder / name, LATEST * number / len(secrets))
            for number, name in enumerate(secrets)
        }
        self.readers = {name: Kubelet(folder / f"{name}-read", LATEST) for name in readers}

    def look(self):
        for purpose, hosts in self.hosts.items():
            found = turn(purpose, hosts, self.held[purpose], terms=self.terms, now=datetime.now(UTC))
            self.held[purpose], self.trusted[purpose] = dict(found.held), found.trusted
            for name, held in found.held.items():
                self.shown.add(held.pair.certificate)
                for kubelet in filter(None, (self.kubelets[name], self.readers.get(name))):
                    kubelet.tell(certificate_secret(name, "kai", held))

    async def run(self):
        while True:
            self.look()
            await asyncio.sleep(0.05)

    @property
    def rotations(self):
        """How often all of them have been replaced."""
        return len(self.shown) // len(self.kubelets) - 1


@asynccontextmanager
async def doing(*work):
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def ask_webhook(server, trusted):
    """As an API server does that trusts what the configuration says now."""
    context = ssl.create_default_context(cadata=trusted.decode())
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": AdmissionRequest(uid="1", operation="CREATE"),
    }
    url = f"https://127.0.0.1:{server.address[1]}/check"
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(url, data=msgspec.json.encode(review)) as answer,
    ):
        assert answer.status == 200


async def ask_scheduler(port, kubelet):
    async with open_channel(f"127.0.0.1:{port}", tls=kubelet.files()) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=patience())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_no_call_fails_while_certificates_are_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(tls, "POLL_SECONDS", 0.05)
    # Nobody reaches everybody in time who gets no turn himself.
    terms = replace(TERMS, settling=TERMS.settling * slowness())
    town, calls, failures = Town(tmp_path, terms=terms), [], []
    town.look()
    server = WebhookServer(
        {"/check": lambda _: AdmissionResponse()},
        listen="127.0.0.1:0",
        certificates=CertificateFiles.in_directory(str(tmp_path / "webhook-tls")),
    )

    async def keep_asking(name, ask):
        while True:
            try:
                await ask()
            except (aiohttp.ClientError, grpc.aio.AioRpcError, AssertionError) as error:
                failures.append(f"{name}: {error!r}")
            calls.append(name)
            await asyncio.sleep(0.02)

    scheduler, binder = town.kubelets["scheduler-tls"], town.kubelets["binder-tls"]
    async with (
        serve("127.0.0.1:0", [], tls=scheduler.files(), grace_seconds=0) as port,
        doing(server.run(), town.run()),
    ):
        await server.started.wait()
        async with doing(
            keep_asking("webhook", lambda: ask_webhook(server, town.trusted["webhooks"])),
            keep_asking("gRPC", lambda: ask_scheduler(port, binder)),
        ):
            while town.rotations < ROTATIONS and not failures:
                await asyncio.sleep(0.1)
    assert not failures
    assert {"webhook", "gRPC"} == set(calls)
    assert len(calls) > 10 * ROTATIONS


# --- Redis -----------------------------------------------------------------------------------------
REDIS = {"redis": {"redis-tls": "kai-redis"}}
#: Redis looks at its files once a second.
REDIS_TERMS = replace(TERMS, settling=timedelta(seconds=5))


async def shown_by(port):
    """The certificate that Redis shows to whoever comes now, PEM."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return ssl.DER_cert_to_PEM_cert(shown)


async def test_redis_shows_each_new_certificate_and_no_call_of_ours_is_lost(tmp_path):
    town, calls, failures = Town(tmp_path, REDIS, terms=REDIS_TERMS, readers=["redis-tls"]), [], []
    town.look()
    (tmp_path / "password").write_text("word")
    server, [port] = town.kubelets["redis-tls"].files(), free_ports(1)
    credentials = RedisCredentials(
        ca=town.readers["redis-tls"].files().ca,
        server_name="kai-redis",
        password_file=str(tmp_path / "password"),
    )

    def connected():
        return SessionCache.connect(f"rediss://127.0.0.1:{port}/0", shard="default", credentials=credentials)

    async def ask_anew():
        async with connected() as cache:
            await cache.ping()

    async def keep_asking(name, ask):
        while True:
            try:
                await ask()
            except CacheUnavailable as error:
                failures.append(f"{name}: {error}")
            calls.append(name)
            await asyncio.sleep(0.02)

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kai.session", f"--listen=127.0.0.1:{port}"),
        *(f"--password-file={tmp_path / 'password'}", f"--tls-cert={server.cert}", f"--tls-key={server.key}"),
    )
    try:
        await eventually(lambda: shown_by(port), passing=(OSError,), what="Redis serves")
        seen = set()
        async with (
            connected() as cache,
            doing(town.run(), keep_asking("one connection", cache.ping), keep_asking("many", ask_anew)),
        ):
            while town.rotations < 2 and not failures:
                seen.add(await shown_by(port))
                await asyncio.sleep(0.1)
    finally:
        process.terminate()
        await process.wait()
    assert not failures
    assert len(seen) >= 2
    assert {"one connection", "many"} == set(calls)
    assert len(calls) > 10 * len(seen)
