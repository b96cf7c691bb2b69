"""``python -m kai_local.installation.compose``: what docker-compose.yml needs before its services start.

Puts the kubeconfig that all of them read into ``/cluster`` and the webhooks' certificate into
``/certificates``, and makes the cluster one in which the product is installed. What the embedded cluster
writes is looked for in ``/embedded`` alone: ``/cluster`` may still hold the kubeconfig of an existing
cluster, which must not be taken for it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import sys
import time
from pathlib import Path
from typing import Any, Final

import yaml

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.errors import KubeError, NotFound
from kai.runtime import certificates
from kai.validation.registration import webhook_configurations
from kai_local.apiserver.access.files import write_private
from kai_local.errors import ClusterError
from kai_local.installation import bootstrap

_CONNECT_SECONDS: Final = 60.0
_ATTEMPT_SECONDS: Final = 10.0
_WEBHOOK_PORT: Final = 9443
_BY_KIND: Final = {r.kind: r for r in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)}


def main() -> None:
    """Do it; what fails is told in one line, with status 1."""
    parser = argparse.ArgumentParser(prog="python -m kai_local.installation.compose", description=__doc__)
    parser.add_argument("--profiles", default="embedded", help="embedded, or anything else for --existing")
    parser.add_argument("--existing", type=Path, default=Path("/kubeconfig"), help="kubeconfig of a cluster")
    parser.add_argument("--install", action="store_true", help="put CRDs and queues into it, too")
    parser.add_argument("--embedded", type=Path, default=Path("/embedded"))
    parser.add_argument("--cluster", type=Path, default=Path("/cluster"))
    parser.add_argument("--certificates", type=Path, default=Path("/certificates"))
    parser.add_argument("--webhooks", default="", help="services that serve one, separated by commas")
    parser.add_argument("--host-port", type=int, default=6443, help="of the API server on the host")
    options = parser.parse_args()
    try:
        _prepare(options)
    except (ClusterError, KubeError) as error:
        sys.exit(str(error))
    except PermissionError as error:
        sys.exit(
            f"{error.filename} is another user's: run with the KAI_USER that the volumes were made with, or "
            "forget all that is in them with `docker compose down --volumes`"
        )


def _prepare(options: argparse.Namespace) -> None:
    """1. certificate  2. kubeconfig  3. custom resources, queues and webhooks."""
    services = [name for name in options.webhooks.split(",") if name]
    authority = certificates.ensure(options.certificates, services or ["localhost"]).trusted
    kubeconfig: Path = options.cluster / "kubeconfig"
    if "embedded" not in options.profiles.split(","):
        write_private(kubeconfig, _self_contained(options.existing).encode())
        # An API server elsewhere could not find our services by their names.
        asyncio.run(_install(str(kubeconfig), install=options.install, webhooks=[], authority=authority))
        return
    embedded: Path = options.embedded / "kubeconfig"
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        _wait_for(embedded, deadline)
        try:
            asyncio.run(_install(str(embedded), install=True, webhooks=services, authority=authority))
        except KubeError:
            # The file may still be that of an API server of yesterday.
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)
        else:
            break
    write_private(options.embedded / "host.kubeconfig", _for_host(embedded, options.host_port))
    write_private(kubeconfig, embedded.read_bytes())


async def _install(kubeconfig: str, *, install: bool, webhooks: list[str], authority: bytes) -> None:
    """Webhooks last: from then on the API server asks services that may still be on their way."""
    connection = KubeClient.connect(kubeconfig, user_agent="kai-compose", wait=_ATTEMPT_SECONDS)
    async with connection as client:
        manifests = [m for m in _configurations(webhooks, authority) if _has_urls(m)]
        for manifest in manifests:
            with contextlib.suppress(NotFound):
                await client.delete(_BY_KIND[manifest["kind"]], manifest["metadata"]["name"])
        if install:
            await bootstrap.furnish(client)
            await bootstrap.install(client)
        for manifest in manifests:
            await client.create(_BY_KIND[manifest["kind"]], manifest)


def _wait_for(path: Path, deadline: float) -> None:
    """The API server writes its kubeconfig when it serves."""
    while not path.exists():
        if time.monotonic() > deadline:
            raise ClusterError(f"{path} does not appear; is the service apiserver running?")
        time.sleep(0.2)


def _for_host(kubeconfig: Path, port: int) -> bytes:
    """The same cluster as seen from the machine that the containers run on."""
    document = yaml.safe_load(kubeconfig.read_text())
    for entry in document["clusters"]:
        entry["cluster"]["server"] = f"https://localhost:{port}"
    return yaml.safe_dump(document).encode()


def _self_contained(path: Path) -> str:
    """The text of a kubeconfig that is of use in another place than where it was written.

    Raises:
        ClusterError: there is none, or it refers to files or programs that are not here.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document: Any = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ClusterError(f"KAI_KUBECONFIG cannot be read: {reason}; see docs/docker.md") from error
    if not isinstance(document, dict):
        raise ClusterError(
            "name the kubeconfig of a cluster with KAI_KUBECONFIG, or use the profile embedded"
        )
    for entry in [*_entries(document, "clusters", "cluster"), *_entries(document, "users", "user")]:
        for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile", "exec"):
            if key in entry:
                raise ClusterError(
                    f"KAI_KUBECONFIG refers to {key} outside of itself, which containers do not have; "
                    "write one with `kubectl config view --raw --flatten --minify`"
                )
    return text


def _entries(document: dict[str, Any], section: str, kind: str) -> list[dict[str, Any]]:
    listed = document.get(section) or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ClusterError(f"KAI_KUBECONFIG is no kubeconfig: {section} is not a list of named entries")
    return [each[kind] for each in listed if isinstance(each.get(kind), dict)]


def _configurations(services: list[str], authority: bytes) -> list[dict[str, Any]]:
    def client_config(service: str, path: str) -> dict[str, Any]:
        url = f"https://{service}:{_WEBHOOK_PORT}{path}" if service in services else ""
        return {"url": url, "caBundle": base64.b64encode(authority).decode()}

    return webhook_configurations(client_config)


def _has_urls(manifest: dict[str, Any]) -> bool:
    return all(webhook["clientConfig"]["url"] for webhook in manifest["webhooks"])


if __name__ == "__main__":
    main()
