"""The webhook server, asked over HTTPS."""

import asyncio
import base64
import json
import os
import ssl
import tracemalloc
from contextlib import asynccontextmanager

import aiohttp
import pytest
from cryptography import x509

from deadlines import eventually, within
from kai import tls
from kai.runtime.health import Health, ListenError
from kai.runtime.webhook import AdmissionResponse, WebhookServer
from kai.tls import CertificateFiles

pytestmark = pytest.mark.integration


def judge(request):
    if request.operation == "DELETE":
        return AdmissionResponse(
            allowed=False, message=f"{request.old_object['x']} stays", code=422, reason="Invalid"
        )
    return AdmissionResponse(
        warnings=("look out",), patch=[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    )


async def judge_later(request):
    await asyncio.sleep(0)
    return AdmissionResponse(allowed=request.user_info.username == "root")


def fail(request):
    raise ValueError("a defect")


@asynccontextmanager
async def serving(directory, **options):
    handlers = {"/judge": judge, "/later": judge_later, "/fail": fail}
    server = WebhookServer(
        handlers, listen="127.0.0.1:0", certificates=CertificateFiles.in_directory(str(directory)), **options
    )
    task = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.wait([task])


def insecure():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def started(server):
    async with within("the webhook server starts"):
        await server.started.wait()


async def ask(server, path, body):
    await started(server)
    url = f"https://127.0.0.1:{server.address[1]}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, ssl=insecure()) as answer:
        return answer.status, await answer.text()


async def review(server, path, **request):
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", **request},
    }
    status, text = await ask(server, path, json.dumps(body))
    assert status == 200
    answer = json.loads(text)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "1"
    return answer["response"]


async def test_an_allowed_request_carries_warnings_and_the_patch(tmp_path, certificate_in):
    certificate_in(tmp_path)
    async with serving(tmp_path) as server:
        response = await review(server, "/judge", operation="CREATE", object={})
    assert response["allowed"]
    assert response["warnings"] == ["look out"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"]))[0]["value"] == {"a": "b"}


async def test_a_denied_request_says_why(tmp_path, certificate_in):
    certificate_in(tmp_path)
    async with serving(tmp_path) as server:
        response = await review(server, "/judge", operation="DELETE", oldObject={"x": "queue q"})
        assert response["status"] == {"code": 422, "reason": "Invalid", "message": "queue q stays"}
        assert not response["allowed"]
        assert (await review(server, "/later", operation="CREATE", userInfo={"username": "root"}))["allowed"]


async def test_what_is_no_review_is_refused_and_a_defect_does_not_allow(tmp_path, certificate_in):
    certificate_in(tmp_path)
    async with serving(tmp_path) as server:
        assert (await ask(server, "/judge", "{"))[0] == 400
        assert (await ask(server, "/judge", '{"request": 3}'))[0] == 400
        assert (await ask(server, "/nothing", "{}"))[0] == 404
        body = '{"request": {"uid": "1", "operation": "CREATE"}}'
        assert (await ask(server, "/fail", body))[0] == 500
        assert (await ask(server, "/judge", body))[0] == 200


async def served_serial(server):
    _, writer = await asyncio.open_connection("127.0.0.1", server.address[1], ssl=insecure())
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der).serial_number


async def test_certificates_are_waited_for_and_read_again_when_they_change(
    tmp_path, certificate_in, monkeypatch
):
    monkeypatch.setattr(tls, "POLL_SECONDS", 0.02)
    health = Health()
    async with serving(tmp_path / "certs", health=health) as server:
        await asyncio.sleep(0)
        assert health.ask() == {"webhook": "waiting for its certificate"}
        first = certificate_in(tmp_path / "certs")
        await started(server)
        assert health.ready
        assert await served_serial(server) == first
        second = certificate_in(tmp_path / "certs")
        later = (tmp_path / "certs" / "tls.crt").stat().st_mtime + 10
        for name in ("tls.key", "tls.crt"):
            os.utime(tmp_path / "certs" / name, (later, later))
        await eventually(lambda: served_serial(server), lambda serial: serial == second)


async def test_half_of_a_rotation_keeps_the_old_certificate(tmp_path, certificate_in, monkeypatch):
    monkeypatch.setattr(tls, "POLL_SECONDS", 0.01)
    first = certificate_in(tmp_path)
    async with serving(tmp_path) as server:
        await started(server)
        (tmp_path / "tls.crt").write_text("half")
        os.utime(tmp_path / "tls.crt", (1, 1))
        await asyncio.sleep(0.05)
        assert await served_serial(server) == first


async def test_a_port_in_use_is_an_error_that_names_it(tmp_path, certificate_in):
    certificate_in(tmp_path)
    async with serving(tmp_path) as server:
        await started(server)
        other = WebhookServer(
            {},
            listen=f"127.0.0.1:{server.address[1]}",
            certificates=CertificateFiles.in_directory(str(tmp_path)),
        )
        with pytest.raises(ListenError, match="is in use; choose another with --webhook-listen"):
            await other.run()


async def test_a_connection_that_waits_for_its_next_review_holds_little_memory(tmp_path, certificate_in):
    """At both its ends, which are in this process: buffers, the objects of TLS, and those of HTTP."""
    certificate_in(tmp_path)
    connections = 40
    async with serving(tmp_path) as server:
        await started(server)
        host, port = server.address
        tracemalloc.start()
        try:
            pairs = [await asyncio.open_connection(host, port, ssl=insecure()) for _ in range(connections)]
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        for _, writer in pairs:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in pairs))
    assert held / connections < 200 * 2**10
