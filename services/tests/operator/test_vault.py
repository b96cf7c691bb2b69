"""What is in Secrets is decided once, also where it cannot be written."""

from datetime import UTC, datetime, timedelta

import pytest

from kai_operator.cache import Cache
from kai_operator.product import Needs
from kai_operator.vault import Vault

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NEEDS = Needs(
    namespace="kai-scheduler",
    certificates={"webhooks": {"admission-tls": "admission.kai-scheduler.svc"}},
    passwords={"kai-redis": "redis://kai-redis:6379/0"},
    lifetime=timedelta(days=365),
    renew_before=timedelta(days=100),
    authority_lifetime=timedelta(days=3650),
)


@pytest.fixture
def decide(build):
    """Decides on Secrets that are there with this content, and does not write them."""

    class There:
        content = None

        async def look(self, manifest):
            return build.live(manifest) | {"data": self.content} if self.content is not None else None

    there = There()
    vault = Vault(Cache(lambda _: None), there, settling=timedelta(minutes=5))

    async def decide(content, *, seconds=0):
        there.content = content
        return await vault.contents(NEEDS, build.owner, now=NOW + timedelta(seconds=seconds))

    decide.vault = vault
    return decide


@pytest.mark.parametrize("content", [None, {}, {"tls.crt": "eA==", "tls.key": "eA=="}])
async def test_what_cannot_be_written_is_decided_once(decide, content):
    first, second = await decide(content), await decide(content, seconds=30)
    assert second.trust == first.trust
    assert second.checksums == first.checksums


async def test_what_was_written_and_is_gone_again_is_made_anew(decide):
    first = await decide(None)
    decide.vault.forget(first.secrets)
    second = await decide(None)
    assert second.trust != first.trust
    assert second.checksums != first.checksums
