"""Devices on a cluster with ``resource.k8s.io`` in an older version only: drivers and controllers, too."""

import functools
import re
import subprocess
import uuid

import pytest

from e2e.dra import Driver
from e2e.harness import REAL, Cluster, local_cluster
from e2e.manifests import a_queue, as_yaml
from kai.kube.client import KubeClient
from kai.kube.forms import served
from kai.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kai_local.kubelet.nodes import slice_manifest
from kai_local.real import binaries

#: The first whose own parts need v1.
_NEEDS_V1 = (1, 34)

NODE, NAMESPACE = "node-0", "default"


@functools.cache
def api_server_version():
    """Of the kube-apiserver that there is: of one in ``KUBEBUILDER_ASSETS``, whichever that is."""
    program = binaries.locate("kube-apiserver")
    if program is None:
        pytest.skip("there is no kube-apiserver")
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.search(r"v(\d+)\.(\d+)", told).groups()))


def versions(newest):
    """What has this version of ``resource.k8s.io`` served, and no newer one."""
    if not REAL:
        return f"resource.k8s.io/v1=false,resource.k8s.io/{newest}=true"
    if api_server_version() >= _NEEDS_V1:
        pytest.skip("a kube-apiserver of 1.34 and newer does not do without v1 itself")
    older = [each for each in ("v1beta1", "v1beta2") if each <= newest]  # it needs v1beta1 itself
    return ",".join(f"resource.k8s.io/{each}=true" for each in older)


@pytest.fixture(scope="module", params=["v1beta2", "v1beta1"])
def old_cluster(request, tmp_path_factory):
    """Name and kubeconfig of a cluster with no newer version than this, and the version."""
    name, kubeconfig = f"e2e-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("e2e") / "kubeconfig"
    with local_cluster(name, kubeconfig, "--nodes=1", f"--runtime-config={versions(request.param)}"):
        yield name, kubeconfig, request.param


async def create(cluster, res, body):
    """An object, given as one of v1, in the version that is served."""
    form = await served(cluster.client, res)
    namespace = NAMESPACE if res.namespaced else ""
    await cluster.client.create(form.resource, form.write(body), namespace=namespace)


async def test_pods_get_devices_by_claims_made_from_a_template_and_give_them_back(old_cluster):
    name, kubeconfig, version = old_cluster
    driver = Driver("gpu.example.com", {"nodeSelector": {"kubernetes.io/hostname": NODE}})
    async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
        cluster = Cluster(kubeconfig=kubeconfig, client=client, name=name)
        await cluster.apply(as_yaml(a_queue("team")))
        await create(cluster, DEVICE_CLASSES, driver.device_class())
        await create(cluster, RESOURCE_SLICES, slice_manifest(NODE, driver.name, 2))
        await create(cluster, RESOURCE_CLAIM_TEMPLATES, driver.template(NAMESPACE))
        await cluster.apply(as_yaml(*(driver.a_pod(f"p{n}", NAMESPACE, "team") for n in range(2))))
        await cluster.running(NAMESPACE, count=2)

        form = await served(client, RESOURCE_CLAIMS)
        assert form.resource.version == version
        claims = await client.list(form.resource, namespace=NAMESPACE)
        given = [each["status"]["allocation"]["devices"]["results"][0]["device"] for each in claims]
        assert sorted(given) == ["gpu-0", "gpu-1"]

        await cluster.apply(as_yaml(driver.a_pod("late", NAMESPACE, "team")))
        await cluster.waits(NAMESPACE, "late")
        await cluster.delete("v1", "Pod", "p0", namespace=NAMESPACE)
        await cluster.running(NAMESPACE, "late", count=1)
