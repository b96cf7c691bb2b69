"""Credentials of a pod, which are read again while its process runs; and what a connection costs."""

import asyncio
import json
import ssl
import tracemalloc
from asyncio import sslproto
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web

from kai.kube import errors
from kai.kube.package import config as kube_config
from kai.kube.transport import Transport
from kai.runtime import certificates

incluster = kube_config.incluster_config


class ReadEachTime(incluster.InClusterConfigLoader):
    """Takes a token for outdated at once, and not after a minute."""

    def _read_token_file(self):
        super()._read_token_file()
        self.token_expires_at = datetime.min  # noqa: DTZ901 (as the package has it)


@pytest.fixture
def token(tmp_path, monkeypatch):
    """The file with the token of our service account."""
    authority = tmp_path / "ca.crt"
    authority.write_bytes(certificates.new_authority("cluster", now=datetime.now(UTC)).certificate)
    token = tmp_path / "token"
    token.write_text("secret")
    monkeypatch.setattr(incluster, "InClusterConfigLoader", ReadEachTime)
    monkeypatch.setattr(incluster, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    return token


@asynccontextmanager
async def opened(kubeconfig=None):
    transport = Transport(kubeconfig, context=None, user_agent="test")
    await transport.open()
    try:
        yield transport
    finally:
        await transport.close()


@pytest.mark.parametrize("trouble", ["empty", "missing"])
async def test_a_token_that_is_just_being_written_is_an_answer_that_did_not_come(token, trouble):
    async with opened() as transport:
        if trouble == "empty":
            token.write_text("")
        else:
            token.unlink()
        with pytest.raises(errors.TransportError, match=r"credentials for .* cannot be read"):
            await transport.request("GET", "/version", params=None, data=None, headers=None)


@asynccontextmanager
async def api_server(folder, *, callers):
    """One over TLS that answers when so many ask at once; the path of a kubeconfig for it."""
    authority = certificates.new_authority("cluster", now=datetime.now(UTC))
    pair = certificates.issue(authority, ["localhost"], now=datetime.now(UTC))
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(authority.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    all_here = asyncio.Barrier(callers)

    async def answer(_):
        await all_here.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "localhost", 0, ssl_context=context)
        await site.start()
        server = f"https://localhost:{site._server.sockets[0].getsockname()[1]}"
        kubeconfig = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": server, "certificate-authority": str(folder / "ca.crt")}}
            ],
            "users": [{"name": "u", "user": {}}],
        }
        (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
        yield str(folder / "kubeconfig")
    finally:
        await runner.cleanup()


async def test_a_connection_that_waits_for_its_next_write_holds_little_memory(tmp_path, monkeypatch):
    """At both its ends, which are in this process; asyncio's own buffers alone would be 512 KiB."""
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 256 * 2**10)  # as nobody has changed it yet
    connections = 40
    async with api_server(tmp_path, callers=connections) as kubeconfig, opened(kubeconfig) as transport:

        async def ask():
            answer = await transport.request("GET", "/", params=None, data=None, headers=None)
            await answer.read()

        tracemalloc.start()
        try:
            await asyncio.gather(*(ask() for _ in range(connections)))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held / connections < 200 * 2**10
