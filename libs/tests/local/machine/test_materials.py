"""What a pod's process has of the cluster is good for as long as the cluster is."""

from pathlib import Path
from typing import Any, cast

import yaml

from kai.kube.client import KubeClient
from kai_local.apiserver.access import pki
from kai_local.machine.materials import write_kubeconfig

POD = {
    "metadata": {"name": "binder-x", "namespace": "kai-scheduler"},
    "spec": {"serviceAccountName": "binder"},
}


class Tokens:
    """The API server, as far as it gives tokens."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    async def create_subresource(self, *names: object, namespace: str) -> dict[str, Any]:
        *_, self.asked = names  # type: ignore[assignment]
        return {"status": {"token": "a-token"}}


async def test_its_token_lives_as_long_as_the_certificates(tmp_path: Path) -> None:
    admin, tokens = tmp_path / "admin", Tokens()
    admin.write_text(
        yaml.safe_dump({"users": [{"user": {"client-key-data": "x"}}], "contexts": [{"context": {}}]})
    )
    path = await write_kubeconfig(cast(KubeClient, tokens), POD, admin, tmp_path)
    written = yaml.safe_load(path.read_text())
    assert written["users"] == [{"user": {"token": "a-token"}}]
    assert written["contexts"] == [{"context": {"namespace": "kai-scheduler"}}]
    assert tokens.asked["spec"]["expirationSeconds"] >= pki._LIFETIME.total_seconds()
