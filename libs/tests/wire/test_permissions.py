"""Who may call what: every method with the certificate of every role, over real gRPC with TLS."""

import asyncio
import contextlib
import importlib
import pkgutil
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

import kai.wire.v1
from deadlines import patience, within
from kai.runtime import certificates
from kai.runtime.certificates import CertificateUsage
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.permissions import PERMISSIONS, Role, identity, role_of
from kai.wire.serving import MAX_REQUEST_BYTES, serve

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
NOW = datetime.now(UTC)
BIND = "/kai.wire.v1.DecisionService/Bind"
PREVIEW = "/kai.wire.v1.GroupingService/Preview"
DENIED, UNAVAILABLE = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE

OURS = [
    service
    for module in pkgutil.iter_modules(kai.wire.v1.__path__, "kai.wire.v1.")
    if module.name.endswith("_pb2")
    for service in importlib.import_module(module.name).DESCRIPTOR.services_by_name.values()
]
METHODS = {
    f"/{service.full_name}/{method.name}": method
    for service in (*OURS, *health_pb2.DESCRIPTOR.services_by_name.values())
    for method in service.methods
}


class Authority:
    """Signs certificates, and keeps their files in a folder of its own."""

    def __init__(self, folder, name="grpc"):
        self.folder = folder / name
        self.folder.mkdir()
        self.pair = certificates.new_authority(name, now=NOW)

    def files(self, *names, usage=CertificateUsage.CLIENT, lifetime=timedelta(hours=1), trusts=None):
        pair = certificates.issue(self.pair, names, now=NOW, lifetime=lifetime, usage=usage)
        folder = self.folder / "-".join((*names, usage.name))
        folder.mkdir()
        for name, content in (("crt", pair.certificate), ("key", pair.key)):
            (folder / name).write_bytes(content)
        (folder / "ca").write_bytes((trusts or self).pair.certificate)
        return TlsFiles(ca=folder / "ca", cert=folder / "crt", key=folder / "key", namespace="kai")

    def scheduler(self):
        return self.files("scheduler.kai.svc", usage=CertificateUsage.SERVER)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def answering(server):
    """All our services, which answer with nothing."""

    async def one(request, context):
        return b""

    async def many(request, context):
        for answer in ():
            yield answer

    kinds = {
        (False, False): lambda: grpc.unary_unary_rpc_method_handler(one),
        (False, True): lambda: grpc.unary_stream_rpc_method_handler(many),
        (True, False): lambda: grpc.stream_unary_rpc_method_handler(one),
        (True, True): lambda: grpc.stream_stream_rpc_method_handler(many),
    }
    for service in OURS:
        handlers = {m.name: kinds[m.client_streaming, m.server_streaming]() for m in service.methods}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))


@asynccontextmanager
async def a_server(tls, **options):
    async with serve("127.0.0.1:0", [answering], tls=tls, grace_seconds=0, **options) as port:
        yield f"127.0.0.1:{port}"


async def answer(channel, path):
    """How a call of the method ends."""
    method = METHODS[path]
    kind = "_".join("stream" if s else "unary" for s in (method.client_streaming, method.server_streaming))
    call = getattr(channel, kind)(path)(None if method.client_streaming else b"", timeout=patience())
    try:
        if not method.server_streaming:
            await call
        elif await call.read() is not grpc.aio.EOF:
            call.cancel()
            return grpc.StatusCode.OK
        return await call.code()
    except grpc.aio.AioRpcError as error:
        return error.code()


async def tried(server, authority):
    """Method -> roles that may call it, found by calling."""
    allowed = {path: set() for path in METHODS}
    for role in Role:
        async with open_channel(server, tls=authority.files(identity(role, "kai"))) as channel:
            for path in METHODS:
                if (code := await answer(channel, path)) is not DENIED:
                    assert code is grpc.StatusCode.OK, path
                    allowed[path].add(role)
    return allowed


def matrix(allowed):
    """As it is in docs/security.md."""
    lines = ["| method | " + " | ".join(Role) + " |", "|---" * (len(Role) + 1) + "|"]
    for path, roles in sorted(allowed.items()):
        name = path.rpartition(".")[2].replace("/", ".")
        lines.append(f"| `{name}` | " + " | ".join("yes" if role in roles else "–" for role in Role) + " |")
    return "\n".join(lines)


async def test_every_role_may_call_what_the_table_says_and_the_page_shows_it(authority):
    async with a_server(authority.scheduler()) as server, within("all methods are called by all", times=2):
        allowed = await tried(server, authority)
    print(matrix(allowed))  # noqa: T201 (what the page has to show)
    assert allowed == PERMISSIONS
    page = (ROOT / "docs/security.md").read_text()
    section = page.partition("## Who may call what\n")[2].partition("\n## ")[0]
    assert matrix(allowed) in section


def test_the_table_has_every_method_of_every_service_and_no_other():
    assert PERMISSIONS.keys() == METHODS.keys()


def test_every_server_is_one_that_asks_the_table():
    made = re.compile(r"grpc(\.aio)?\.server\(")
    folders = ("libs/kai", "libs/kai_local", "services")
    sources = [path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    ours = [path for path in sources if path.parts[1] != "tests"]
    files = sorted(path.as_posix() for path in ours if made.search((ROOT / path).read_text()))
    # A device plugin in a box is asked by the kubelet of its node alone, on a socket in the node's own room.
    assert files == ["libs/kai/wire/serving.py", "libs/kai_local/node/device_plugin.py"]


@asynccontextmanager
async def counting(server):
    """A way to the server that counts the bytes which it lets the caller send."""
    host, _, port = server.rpartition(":")
    taken = [0]

    async def pass_on(reader, writer, counted):
        while data := await reader.read(1 << 16):
            if counted:
                taken[0] += len(data)
            writer.write(data)
            await writer.drain()

    async def relay(reader, writer):
        reader_there, writer_there = await asyncio.open_connection(host, int(port))
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                async with asyncio.TaskGroup() as group:
                    group.create_task(pass_on(reader, writer_there, counted=True))
                    group.create_task(pass_on(reader_there, writer, counted=False))
        finally:
            writer.close()
            writer_there.close()

    relaying = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with relaying:
        yield f"127.0.0.1:{relaying.sockets[0].getsockname()[1]}", taken


@pytest.mark.parametrize("path", [path for path, roles in PERMISSIONS.items() if Role.BINDER not in roles])
async def test_of_a_call_that_is_refused_next_to_nothing_is_read(authority, path):
    tls, method = authority.files("binder.kai.svc"), METHODS[path]
    kind = "unary_stream" if method.server_streaming else "unary_unary"
    async with (
        a_server(authority.scheduler()) as server,
        counting(server) as (way, taken),
        open_channel(way, tls=tls) as channel,
    ):
        call = getattr(channel, kind)(path)(bytes(60 << 20), timeout=patience())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await (call.read() if method.server_streaming else call)
        assert refused.value.code() is DENIED
    assert taken[0] < 1 << 20


async def test_a_request_that_is_too_large_is_refused_to_whoever_may_call(authority):
    tls = authority.files("kai-cli.kai.svc")
    async with a_server(authority.scheduler()) as server, open_channel(server, tls=tls) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(PREVIEW)(bytes(MAX_REQUEST_BYTES + 1), timeout=patience())
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await channel.unary_unary(PREVIEW)(bytes(MAX_REQUEST_BYTES - 1024), timeout=patience()) == b""


async def test_a_call_that_sends_no_request_is_told_so(authority):
    tls = authority.files("kai-cli.kai.svc")
    async with a_server(authority.scheduler()) as server, open_channel(server, tls=tls) as channel:
        call = channel.stream_unary(PREVIEW)(timeout=patience())
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="without a request"):
            await call


async def test_a_method_that_the_table_does_not_have_is_refused_to_everybody(authority, monkeypatch):
    monkeypatch.setattr("kai.wire.authorization.PERMISSIONS", {})
    for tls in (None, authority.scheduler()):
        own = tls and authority.files("kai-cli.kai.svc")
        async with a_server(tls) as server, open_channel(server, tls=own) as channel:
            for path in METHODS:
                assert await answer(channel, path) is DENIED


STRANGERS = {
    "of the authority of the webhooks": lambda ours, other: other.files("admission.kai.svc", trusts=ours),
    "of a foreign authority": lambda ours, other: other.files("binder.kai.svc", trusts=ours),
    "expired": lambda ours, _: ours.files("binder.kai.svc", lifetime=timedelta(seconds=-1)),
    "for servers only": lambda ours, _: ours.files("binder.kai.svc", usage=CertificateUsage.SERVER),
}


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_certificates_that_are_not_for_callers_of_ours_get_no_connection(authority, tmp_path, stranger):
    tls = STRANGERS[stranger](authority, Authority(tmp_path, "other"))
    async with a_server(authority.scheduler()) as server, open_channel(server, tls=tls) as channel:
        assert {await answer(channel, path) for path in METHODS} == {UNAVAILABLE}


async def test_without_a_certificate_there_is_no_connection(authority):
    credentials = grpc.ssl_channel_credentials(root_certificates=authority.pair.certificate)
    options = [("grpc.ssl_target_name_override", "scheduler.kai.svc")]
    async with a_server(authority.scheduler()) as server:
        async with grpc.aio.secure_channel(server, credentials, options=options) as channel:
            assert await answer(channel, BIND) is UNAVAILABLE
        async with open_channel(server) as channel:
            assert await answer(channel, BIND) is UNAVAILABLE


@pytest.mark.parametrize(
    "names",
    [
        ("binder.other.svc",),
        ("*.kai.svc",),
        ("binder",),
        ("scheduler.kai.svc", "binder.kai.svc"),
        ("somebody.kai.svc",),
    ],
    ids=" and ".join,
)
async def test_a_certificate_that_names_no_role_of_ours_or_several_may_call_nothing(authority, names):
    tls = authority.files(*names)
    async with a_server(authority.scheduler()) as server, open_channel(server, tls=tls) as channel:
        assert {await answer(channel, path) for path in METHODS} == {DENIED}


async def test_nobody_else_is_taken_for_the_scheduler(authority):
    caller = authority.files("binder.kai.svc")
    for name in ("binder.kai.svc", "scheduler.other.svc"):
        tls = authority.files(name, usage=CertificateUsage.SERVER)
        async with a_server(tls) as server, open_channel(server, tls=caller) as channel:
            assert await answer(channel, BIND) is UNAVAILABLE


async def test_without_tls_nobody_is_known_and_all_that_is_served_is_answered():
    async with a_server(None) as server, open_channel(server) as channel:
        served = [path for path, roles in PERMISSIONS.items() if roles]
        assert {await answer(channel, path) for path in served} == {grpc.StatusCode.OK}


async def test_refusals_are_counted_and_told_once_a_minute_with_role_and_method(authority):
    metrics, tls = CollectorRegistry(), authority.files("binder.kai.svc")
    async with (
        a_server(authority.scheduler(), metrics=metrics) as server,
        open_channel(server, tls=tls) as channel,
    ):
        with capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(grpc.aio.AioRpcError, match=f"role binder may not call {PREVIEW}"):
                    await channel.unary_unary(PREVIEW)(b"", timeout=patience())
    labels = {"role": "binder", "method": PREVIEW}
    assert metrics.get_sample_value("kai_grpc_refused_calls_total", labels) == 3
    assert [(log["role"], log["method"]) for log in logs if log["event"] == "call refused"] == [
        ("binder", PREVIEW)
    ]


async def test_a_server_takes_renewed_files_into_use_while_it_runs(authority, tmp_path):
    old, fresh = authority.scheduler(), Authority(tmp_path, "fresh")
    caller, renewed = fresh.files("binder.kai.svc"), fresh.scheduler()
    async with a_server(old) as server:
        async with open_channel(server, tls=caller) as channel:
            assert await answer(channel, BIND) is UNAVAILABLE
        for kind in ("ca", "cert", "key"):
            getattr(old, kind).write_bytes(getattr(renewed, kind).read_bytes())
        async with open_channel(server, tls=caller) as channel:
            assert await answer(channel, BIND) is grpc.StatusCode.OK


@pytest.mark.parametrize("role", Role)
def test_a_name_is_that_of_one_role(role):
    assert role_of([identity(role, "kai")], "kai") is role
