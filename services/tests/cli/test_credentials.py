"""With what the command line connects to a scheduler that wants TLS."""

import base64

import pytest
import typer

from kai.kube.errors import Forbidden, NotFound
from kai_cli import credentials

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
async def test_broken_ones_are_told(broken, capsys):
    data = {name: value for name, value in (encoded(DATA) | broken).items() if value is not None}
    with pytest.raises(typer.Exit):
        async with credentials.of_installation(FakeClient(data), namespace="kai"):
            pytest.fail("they cannot be used")
    assert "secret kai/kai-cli-grpc-tls-secret has no usable tls.key" in capsys.readouterr().err
