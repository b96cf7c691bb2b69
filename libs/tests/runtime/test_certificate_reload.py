"""What a running webhook server does when its certificate files change."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress

from deadlines import eventually
from kai import tls as certificate_files
from kai.runtime import certificates
from kai.runtime.webhook import AdmissionResponse, WebhookServer
from kai.tls import CertificateFiles

NAMES = ["localhost", "127.0.0.1"]


@asynccontextmanager
async def serving(directory, monkeypatch):
    monkeypatch.setattr(certificate_files, "POLL_SECONDS", 0.01)
    certificates.ensure(directory, NAMES)
    server = WebhookServer(
        {"/check": lambda _: AdmissionResponse()},
        listen="127.0.0.1:0",
        certificates=CertificateFiles.in_directory(str(directory)),
    )
    task = asyncio.create_task(server.run())
    await server.started.wait()
    try:
        yield server
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def presented(server):
    """The certificate that the server shows, as DER."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(*server.address, ssl=tls)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
    return certificate


def another_pair(directory):
    authority = certificates.new_authority("other", now=certificates.datetime.now(certificates.UTC))
    return certificates.issue(authority, NAMES, now=certificates.datetime.now(certificates.UTC))


async def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path, monkeypatch):
    async with serving(tmp_path, monkeypatch) as server:
        fresh = another_pair(tmp_path)
        (tmp_path / "tls.crt").write_bytes(fresh.certificate)
        (tmp_path / "tls.key").write_bytes(fresh.key)
        expected = ssl.PEM_cert_to_DER_cert(fresh.certificate.decode())
        await eventually(lambda: presented(server), lambda certificate: certificate == expected)


async def test_half_of_a_renewal_leaves_the_old_certificate_in_use(tmp_path, monkeypatch):
    async with serving(tmp_path, monkeypatch) as server:
        before = await presented(server)
        looks = 0
        look = server._certificates.stamp

        def count_looks(_):
            nonlocal looks
            looks += 1
            return look()

        monkeypatch.setattr(CertificateFiles, "stamp", count_looks)
        (tmp_path / "tls.crt").write_bytes(another_pair(tmp_path).certificate)
        await eventually(lambda: looks, lambda count: count >= 3)
        assert await presented(server) == before
