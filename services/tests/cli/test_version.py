"""``kai version``: each process that leads by its name, with its release."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from e2e.api_server import serving
from kai.kube.client import KubeClient
from kai.kube.resources import LEASES, NAMESPACES
from kai.model import names, release
from kai_cli.__main__ import app

pytestmark = pytest.mark.integration


def a_lease(name: str, *, version: str, renewed: str) -> dict:
    annotations = {names.EPOCH_ANNOTATION: "3", names.VERSION_ANNOTATION: version}
    spec = {"holderIdentity": f"{name}-1", "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


async def lead(kubeconfig) -> None:
    """Have processes lead: two of this release, one of another; and one that ended long ago."""
    now = datetime.now(UTC)
    leases = {
        "kai-scheduler-h200": (release.version(), now),
        names.POD_GROUPER_LEASE: (release.version(), now - timedelta(seconds=20)),
        "kai-queue-controller": ("9.9", now),
        "kai-podgroup-controller": ("9.8", now - timedelta(hours=3, minutes=1)),
    }
    async with KubeClient.connect(str(kubeconfig), user_agent="test") as client:
        await client.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
        for name, (version, renewed) in leases.items():
            lease = a_lease(name, version=version, renewed=renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            await client.create(LEASES, lease, namespace=names.NAMESPACE)


def test_who_leads_is_told_by_name_and_who_is_of_another_release_is_pointed_out(tmp_path):
    with serving(tmp_path) as server:
        asyncio.run(lead(server.kubeconfig))
        command = ["--kubeconfig", str(server.kubeconfig), "version", "-o", "json"]
        done = CliRunner().invoke(app, command)
    told = {each["what"]: each["leader"] for each in json.loads(done.stdout)}
    assert told["pod-grouper"] == f"{names.POD_GROUPER_LEASE}-1"
    assert told["kai-scheduler-h200"] == "kai-scheduler-h200-1"
    assert "they do not know: queue-controller 9.9" in done.stderr
    assert told["podgroup-controller"] is None
    assert "9.8" not in done.stderr


def test_a_process_that_does_not_renew_its_lease_leads_no_more_and_it_says_since_when(tmp_path):
    with serving(tmp_path) as server:
        asyncio.run(lead(server.kubeconfig))
        done = CliRunner().invoke(app, ["--kubeconfig", str(server.kubeconfig), "version"])
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "podgroup-controller 9.8 none (last renewed 3h1m ago)" in lines
    assert any(line.endswith("kai-queue-controller-1") for line in lines)
