"""``kai version``: each process that leads by its name, with its release."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from e2e.api_server import serving
from kai.kube.client import KubeClient
from kai.kube.resources import LEASES, NAMESPACES
from kai.model import names, release
from kai_cli.__main__ import app

pytestmark = pytest.mark.integration


def a_lease(name: str, *, version: str) -> dict:
    annotations = {names.EPOCH_ANNOTATION: "3", names.VERSION_ANNOTATION: version}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"holderIdentity": f"{name}-1"}}


async def lead(kubeconfig) -> None:
    """Have processes lead: two of this release, one of another."""
    leases = {
        "kai-scheduler-h200": release.version(),
        names.POD_GROUPER_LEASE: release.version(),
        "kai-queue-controller": "9.9",
    }
    async with KubeClient.connect(str(kubeconfig), user_agent="test") as client:
        await client.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
        for name, version in leases.items():
            await client.create(LEASES, a_lease(name, version=version), namespace=names.NAMESPACE)


def test_who_leads_is_told_by_name_and_who_is_of_another_release_is_pointed_out(tmp_path):
    with serving(tmp_path) as server:
        asyncio.run(lead(server.kubeconfig))
        command = ["--kubeconfig", str(server.kubeconfig), "version", "-o", "json"]
        done = CliRunner().invoke(app, command)
    told = {each["what"]: each["leader"] for each in json.loads(done.stdout)}
    assert told["pod-grouper"] == f"{names.POD_GROUPER_LEASE}-1"
    assert told["kai-scheduler-h200"] == "kai-scheduler-h200-1"
    assert "they do not know: queue-controller 9.9" in done.stderr
