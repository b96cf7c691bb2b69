"""Follows the cluster by what its installation goes by now: begun anew when that has become another."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from kai.kube.client import KubeClient
from kai.kube.errors import KubeError
from kai.live.waiting import Known
from kai_cli.looking import installation
from kai_cli.looking.following import Following
from kai_cli.looking.installation import Installation
from kai_cli.looking.rights import Readable
from kai_insight.live.live import Live

#: How often the Config and the shards are read again.
LOOK_SECONDS: Final = 15.0

_log = structlog.get_logger(__name__)


class Current:
    """What is followed; ``found`` says what may be, ``namespace`` is that of the installation."""

    def __init__(
        self, client: KubeClient, live: Live, found: Readable, installed: Installation, *, namespace: str
    ) -> None:
        self._client = client
        self._live = live
        self._found = found
        self._installed = installed
        self._namespace = namespace
        self._following = self._begun()

    def known(self, shard: str) -> Known:
        """What was found of the groups of a shard that wait."""
        return self._following.known(shard)

    async def run(self) -> None:
        """Follow the cluster until cancelled.

        Raises:
            Unauthorized: the credentials are not accepted any more, in a group.
        """
        while True:
            follow = asyncio.create_task(self._following.run(), name="follow an installation")
            try:
                await self._until_another(follow)
            finally:
                follow.cancel()
                await asyncio.wait([follow])
            _log.info("the installation is another one now", shards=[*self._installed.shards])
            self._following = self._begun()

    def _begun(self) -> Following:
        return Following(self._client, self._live, self._found, self._installed)

    async def _until_another(self, follow: asyncio.Task[None]) -> None:
        """Until the installation is not what is followed; what ends the following is raised."""
        while True:
            await asyncio.wait([follow], timeout=LOOK_SECONDS)
            if follow.done():
                return follow.result()
            try:
                now = await installation.read(self._client, namespace=self._namespace)
            except KubeError:  # whoever follows tells it, if it lasts
                continue
            if now != self._installed:
                self._installed = now
                return None
