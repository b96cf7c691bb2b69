"""Where the API server is, and who we are to it.

Loading configuration and credentials (kubeconfig with client certificates, tokens, OIDC, exec
plugins; service account of a pod with token refresh) and the TLS session are those of the
``kubernetes`` package; requests go through its aiohttp session directly.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml

from kai.kube.authorities import aiohttp
from kai.kube.connections import NewestFirst, keep_buffers_small
from kai.kube.errors import KubeConfigError, TransportError
from kai.kube.package import (
    Configuration,
    KubeConfigLoader,
    KubeConfigMerger,
    RESTClientObject,
    cleanup_temp_files,
)
from kai.kube.package import config as kube_config

_DEFAULT_KUBECONFIG = "~/.kube/config"
_DEFAULT_NAMESPACE = "default"
#: Everything that the loader of the ``kubernetes`` package raises on a broken file.
_LOADER_ERRORS = (
    kube_config.ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RecursionError,
)


class _Rest(RESTClientObject):  # type: ignore[misc]
    """The package's transport, with sockets that notice a peer that is gone."""

    def _create_connector(self) -> aiohttp.TCPConnector:
        return NewestFirst(limit=0, ssl=self.ssl_context, socket_factory=_keepalive_socket)

    def open(self) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = self._create_pool_manager()
        self.pool_manager = session
        return session


def _keepalive_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # A watch may be silent for minutes; a dead peer is to be found out in about one.
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
    return made


class Transport:
    """An open session to one API server, with credentials that can be read anew."""

    def __init__(self, kubeconfig: str | None, *, context: str | None, user_agent: str) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": user_agent,
        }
        self._configuration: Configuration | None = None
        self._connection: tuple[object, ...] = ()
        self._rest: _Rest | None = None
        self._session: aiohttp.ClientSession | None = None
        self._reload_lock = asyncio.Lock()
        #: Rises with each reload of the credentials.
        self.generation = 0
        self.server = ""
        #: That of the context, as kubectl takes it where none is given.
        self.namespace = _DEFAULT_NAMESPACE
        self._server_name: str | None = None
        self._proxy: str | None = None

    async def open(self) -> None:
        """Load configuration and credentials; sends nothing to the API server yet.

        Raises:
            KubeConfigError: there is none, or it is broken.
        """
        await self._load()

    async def _load(self) -> bool:
        """Load everything, and connect anew if need be; whether anything is different now."""
        fresh, self.namespace = await load_configuration(self._kubeconfig, self._context)
        try:
            # Nothing waits from here to the end, so no other client can take the files away.
            connection = _connection(fresh)
            if connection != self._connection:
                self._connect(fresh)
                self._connection = connection
            elif self._configuration is not None and fresh.api_key == self._configuration.api_key:
                return False
        except (OSError, ValueError) as error:
            raise KubeConfigError(f"certificates for {fresh.host} cannot be used: {error}") from error
        finally:
            _remove_temporary_files()
        self._configuration = fresh
        return True

    def _connect(self, configuration: Configuration) -> None:
        self.server = configuration.host.rstrip("/")
        self._server_name = configuration.tls_server_name or None
        self._proxy = configuration.proxy or _proxy_of_environment(self.server)
        configuration.client_session_kwargs = {
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=5),
            "headers": self._headers,
            # With the environment's proxies come passwords of a .netrc, which are not for an API server, and
            # go with no token.
            "trust_env": False,
        }
        keep_buffers_small()
        self._rest = _Rest(configuration)
        self._session = self._rest.open()

    async def close(self) -> None:
        """Close all connections."""
        if self._rest is not None:
            await self._rest.close()
            self._rest = self._session = None

    async def reload(self, generation: int) -> bool:
        """Read the credentials anew unless somebody did since ``generation``; whether they are new now.

        Raises:
            KubeConfigError: they cannot be read any more.
        """
        async with self._reload_lock:
            if self.generation != generation:
                return True
            previous = self._rest
            changed = await self._load()
            self.generation += 1
            if previous is not None and previous is not self._rest:
                await previous.close()
            return changed

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None,
        data: bytes | None,
        headers: dict[str, str] | None,
        limits: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        """Send one request with our credentials; the answer's body is still to be read.

        Raises:
            TransportError: they cannot be read now, so nothing was sent.
        """
        assert self._session is not None, "the client is not open; use `async with`"
        assert self._configuration is not None
        sent = dict(headers or ())
        try:
            token = await self._configuration.get_api_key_with_prefix("BearerToken")
        except (kube_config.ConfigException, OSError) as error:  # a kubelet may be about to write them
            raise TransportError(f"credentials for {self.server} cannot be read: {error}") from error
        if token:
            sent["Authorization"] = token.strip()
        extra: dict[str, Any] = {} if limits is None else {"timeout": limits}
        return await self._session.request(
            method,
            self.server + path,
            params=params,
            data=data,
            headers=sent,
            server_hostname=self._server_name,
            proxy=self._proxy,
            **extra,
        )


async def load_configuration(kubeconfig: str | None, context: str | None) -> tuple[Configuration, str]:
    """The configuration named, or that of ``KUBECONFIG``, of ``~/.kube/config``, or of our pod.

    With it the namespace of its context.
    In a pod without a kubeconfig the service account is used.

    Raises:
        KubeConfigError: none is there, or it is broken.
    """
    configuration = Configuration()
    paths = kubeconfig or os.environ.get("KUBECONFIG") or ""
    in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ
    if not paths and in_cluster:
        try:
            kube_config.load_incluster_config(client_configuration=configuration)
        except kube_config.ConfigException as error:
            raise KubeConfigError(f"service account of this pod cannot be used: {error}") from error
        return configuration, _DEFAULT_NAMESPACE
    return configuration, await _load_file(paths or _DEFAULT_KUBECONFIG, context, configuration)


async def _load_file(paths: str, context: str | None, configuration: Configuration) -> str:
    """Load a file, or several; the namespace of the context."""
    if not _some_file_exists(paths):
        raise KubeConfigError(
            f"kubeconfig {paths} does not exist; give one with --kubeconfig or KUBECONFIG, or run in a pod"
        )
    try:
        merged = KubeConfigMerger(paths)
        loader = KubeConfigLoader(config_dict=merged.config, config_base_path=None, active_context=context)
        await loader.load_and_set(configuration)
    except _LOADER_ERRORS as error:
        raise KubeConfigError(f"kubeconfig {paths} cannot be used: {error}") from error
    _check(configuration, paths)
    plugin = loader._user is not None and "exec" in loader._user
    if plugin and not configuration.api_key and not configuration.cert_file:
        raise KubeConfigError(f"kubeconfig {paths}: its exec plugin gave no credentials; run it by hand")
    return str(loader.current_context["context"].get("namespace") or _DEFAULT_NAMESPACE)


def _check(configuration: Configuration, paths: str) -> None:
    """What the loader takes as it is written, though nobody can connect with it."""
    try:
        host = urlsplit(configuration.host).hostname
    except ValueError as error:
        raise KubeConfigError(
            f"kubeconfig {paths} cannot be used: server {configuration.host!r}: {error}"
        ) from error
    if not host:
        raise KubeConfigError(f"kubeconfig {paths} names no server in its current context")
    for field, given in (
        ("proxy-url", configuration.proxy),
        ("tls-server-name", configuration.tls_server_name),
    ):
        if given and not isinstance(given, str):
            raise KubeConfigError(
                f"kubeconfig {paths} cannot be used: {field} is {given!r}; it must be a text"
            )


def _some_file_exists(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def _connection(configuration: Configuration) -> tuple[object, ...]:
    """What a connection is made with; contents of files, since their names may be temporary ones."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (configuration.host, *(Path(name).read_bytes() if name else b"" for name in files))


def _remove_temporary_files() -> None:
    """Remove the files that certificates and keys inside a kubeconfig were written to.

    They are needed only to make a TLS context. The package removes them when the process ends, if it
    gets to that; a private key must not stay behind where it does not.
    """
    cleanup_temp_files()


def _proxy_of_environment(server: str) -> str | None:
    """The proxy that the environment names for a server, if it is spoken to without TLS.

    One for the outside world must not catch an API server on loopback.
    """
    parts = urlsplit(server)
    if is_loopback(server) or proxy_bypass(parts.hostname or ""):
        return None
    proxy = getproxies().get(parts.scheme, "")
    return proxy if urlsplit(proxy).scheme == "http" else None


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine alone."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
