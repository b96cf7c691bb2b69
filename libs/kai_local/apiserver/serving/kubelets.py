"""Questions about pods that a kubelet answers, passed on to it where the node has one to be asked."""

from typing import Final

import aiohttp
from aiohttp import web

from kai_local.apiserver.errors import ApiFailure, Obj
from kai_local.apiserver.kinds.catalogue import dig
from kai_local.apiserver.store.storage import Store

_NODES: Final = ("", "nodes")
_PATHS: Final = {
    "log": "containerLogs", "exec": "exec", "attach": "attach", "portforward": "portForward",
}  # fmt: skip


class Kubelets:
    """Reaches the kubelets of nodes that say where theirs listens, through a proxy at ``egress``."""

    def __init__(self, store: Store, egress: str) -> None:
        self._store = store
        self._egress = egress

    def knows(self, pod: Obj) -> bool:
        """Whether the pod's node has a kubelet to be asked."""
        return self._port(pod) > 0

    def _port(self, pod: Obj) -> int:
        node = self._store.collection(_NODES).get("", dig(pod, "spec", "nodeName") or "")
        port = dig(node.obj, "status", "daemonEndpoints", "kubeletEndpoint", "Port") if node else 0
        return int(port or 0)

    async def pass_on(self, http: web.BaseRequest, pod: Obj, subresource: str) -> web.StreamResponse:
        """The kubelet's answer, as it comes. Raises ApiFailure with what the kubelet refuses."""
        meta, query = pod["metadata"], dict(http.query)
        container = query.pop("container", "") or pod["spec"]["containers"][0]["name"]
        path = f"{_PATHS[subresource]}/{meta['namespace']}/{meta['name']}/{container}"
        url = f"https://{pod['spec']['nodeName']}:{self._port(pod)}/{path}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url, params=query, proxy=f"http://{self._egress}", ssl=False) as found,
            ):
                if found.status != 200:
                    raise ApiFailure(found.status, "BadRequest", (await found.text()).strip())
                response = web.StreamResponse(headers={"Content-Type": "text/plain"})
                await response.prepare(http)
                async for part in found.content.iter_any():
                    await response.write(part)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiFailure(503, "ServiceUnavailable", f"{url}: {error}") from error
