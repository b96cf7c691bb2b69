"""Credentials of a pod, which are read again while its process runs."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

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
async def opened():
    transport = Transport(None, context=None, user_agent="test")
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
