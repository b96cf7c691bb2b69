"""With what the command line connects to a scheduler that wants TLS."""

import base64

import pytest

from kai.kube.errors import Forbidden, NotFound
from kai.kube.resources import LEASES
from kai.wire.errors import PeerUnavailable
from kai_cli import credentials
from kai_cli.connection import Target

DATA = {"ca.crt": b"authority", "tls.crt": b"certificate", "tls.key": b"key"}


class FakeClient:
    """Has one Secret, or refuses."""

    def __init__(self, answer):
        self.answer = answer

    async def get(self, res, name, *, namespace):
        assert (res.plural, name, namespace) == ("secrets", credentials.SECRET, "kai")
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"data": self.answer}


class Installation(FakeClient):
    """Has that Secret, or refuses; Leases it refuses in any case."""

    async def get(self, res, name, *, namespace, **_):
        if res is LEASES:
            raise Forbidden("not yours")
        return await super().get(res, name, namespace=namespace)


def encoded(data):
    return {name: base64.b64encode(content).decode() for name, content in data.items()}


async def test_those_of_the_installation_are_there_while_they_are_needed():
    async with credentials.of_installation(FakeClient(encoded(DATA)), namespace="kai") as files:
        found = {"ca.crt": files.ca, "tls.crt": files.cert, "tls.key": files.key}
        assert {name: path.read_bytes() for name, path in found.items()} == DATA
        assert files.key.parent.stat().st_mode & 0o077 == 0
        assert files.namespace == "kai"
    assert not files.key.exists()


@pytest.mark.parametrize("refusal", [NotFound("gone"), Forbidden("not yours")], ids=["none", "not ours"])
async def test_where_there_are_none_for_us_we_do_without(refusal):
    async with credentials.of_installation(FakeClient(refusal), namespace="kai") as files:
        assert files is None


@pytest.mark.parametrize("broken", [{"tls.key": None}, {"tls.key": "%"}], ids=["missing", "not base64"])
async def test_broken_ones_are_told(broken):
    data = {name: value for name, value in (encoded(DATA) | broken).items() if value is not None}
    with pytest.raises(PeerUnavailable, match=r"secret kai/kai-cli-grpc-tls-secret has no usable tls\.key"):
        async with credentials.of_installation(FakeClient(data), namespace="kai"):
            pytest.fail("they cannot be used")


@pytest.mark.parametrize("answer", [{}, Forbidden("not yours")], ids=["broken", "not ours"])
async def test_what_can_do_without_the_scheduler_does(answer):
    """Whoever may list queues need not be allowed to read what is of the installation."""
    target, client = Target(namespace="kai"), Installation(answer)
    assert await target.shares(client) is None
    assert await target.line(client) is None
