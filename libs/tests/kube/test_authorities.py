"""The machine's certificate authorities are read late, and all the same where they are needed."""

import asyncio
import json
import os
import ssl
import sys
from datetime import UTC, datetime

import pytest
from aiohttp import web

from kai.runtime.certificates import issue, new_authority

#: Asks an address by aiohttp's own contexts: what these knew before and after, and the answer.
_CLIENT = """
import asyncio, json, ssl, sys
import kai.kube.client
import aiohttp
from aiohttp import connector

def known():
    contexts = connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED
    return [context.cert_store_stats()["x509"] for context in contexts]

async def answer_of(url):
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(url) as answer:
                return answer.status
        except aiohttp.ClientConnectorCertificateError:
            return "not trusted"

before = known()
made = ssl.create_default_context().cert_store_stats()["x509"]
print(json.dumps({"before": before, "made by others": made,
                  "answer": asyncio.run(answer_of(sys.argv[1])), "after": known()}))
"""


@pytest.fixture
def authority():
    return new_authority("public", now=datetime.now(UTC))


@pytest.fixture
async def address(tmp_path, authority):
    pair = issue(authority, ["localhost"], now=datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    async def answer(_):
        return web.Response()

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0, ssl_context=context)
    await site.start()
    yield f"https://localhost:{site._server.sockets[0].getsockname()[1]}/"
    await runner.cleanup()


async def _ask(address, trusted):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _CLIENT,
        address,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "SSL_CERT_FILE": str(trusted), "SSL_CERT_DIR": "/nonexistent"},
    )
    told, _ = await process.communicate()
    return json.loads(told)


@pytest.mark.parametrize("trusts", [True, False], ids=["of a known authority", "of an unknown authority"])
async def test_authorities_are_read_before_the_first_connection(tmp_path, authority, address, trusts):
    known = authority if trusts else new_authority("another", now=datetime.now(UTC))
    (tmp_path / "authorities.crt").write_bytes(known.certificate)

    told = await _ask(address, tmp_path / "authorities.crt")

    assert told == {
        "before": [0, 0],
        "made by others": 1,
        "answer": 200 if trusts else "not trusted",
        "after": [1, 0],
    }
