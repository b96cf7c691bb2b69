"""The chart installed, upgraded and taken out again by the real helm, on an API server."""

import asyncio
import base64
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from kai.kube.client import KubeClient
from kai.kube.resources import CRDS, NAMESPACES, QUEUES, Resource
from kai.model import names

pytestmark = pytest.mark.integration
CHART = Path(__file__).resolve().parents[1] / "kai-scheduler"
SECRETS = Resource("", "v1", "secrets", "Secret", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True)
HOOKS = [
    Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
]
WEBHOOK_SECRETS = (
    "kai-admission-webhook-tls-secret",
    "podgroup-webhook-tls-secret",
    "queue-webhook-tls-secret",
)
GRPC_SECRETS = tuple(
    f"{role}-grpc-tls-secret"
    for role in ("scheduler", "binder", "podgroup-controller", "queue-controller", "kai-cli")
)
TLS_SECRETS = (*WEBHOOK_SECRETS, *GRPC_SECRETS, "kai-redis-tls-secret")
OLD = {"kai.scheduler/issued": "1000000000"}


class Release:
    """The release ``kai``, and the cluster that it is in."""

    def __init__(self, helm_program, kubeconfig, client):
        self._helm = helm_program
        self._kubeconfig = kubeconfig
        self.client = client

    async def helm(self, *arguments, values=None):
        process = await asyncio.create_subprocess_exec(
            self._helm, *arguments, "--kubeconfig", str(self._kubeconfig), "--namespace", names.NAMESPACE,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await process.communicate(yaml.safe_dump(values or {}).encode())
        assert process.returncode == 0, said.decode()
        return said.decode()

    async def install(self, **values):
        return await self.helm(
            "install", "kai", str(CHART), "--create-namespace", "--values", "-", values=values
        )

    async def upgrade(self, **values):
        await self.helm("upgrade", "kai", str(CHART), "--values", "-", values=values)

    async def secret(self, name):
        found = await self.client.get(SECRETS, name, namespace=names.NAMESPACE)
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    async def certificates(self):
        return {name: await self.secret(name) for name in TLS_SECRETS}

    async def bundles(self):
        """What the API server trusts the webhooks by."""
        return {
            base64.b64decode(hook["clientConfig"]["caBundle"])
            for kind in HOOKS
            for one in await self.client.list(kind)
            for hook in one["webhooks"]
        }


@asynccontextmanager
async def an_api_server(folder):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kai_local.apiserver", "--dir", str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert b"serving" in await process.stdout.readline()
    try:
        yield folder / "kubeconfig"
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture
async def release(helm_program, tmp_path):
    async with (
        an_api_server(tmp_path) as kubeconfig,
        KubeClient.connect(str(kubeconfig), user_agent="test") as client,
    ):
        yield Release(helm_program, kubeconfig, client)


async def test_an_upgrade_keeps_certificates_and_passwords(release):
    await release.install()
    before, redis, bundles = (
        await release.certificates(),
        await release.secret("kai-redis"),
        await release.bundles(),
    )
    assert bundles == {before[TLS_SECRETS[0]]["ca.crt"]}
    await release.upgrade(binder={"replicas": 3})
    assert await release.certificates() == before
    assert await release.secret("kai-redis") == redis
    assert await release.bundles() == bundles
    binder = await release.client.get(DEPLOYMENTS, "binder", namespace=names.NAMESPACE)
    assert binder["spec"]["replicas"] == 3


async def test_an_upgrade_from_a_redis_without_a_password_makes_one(release):
    """Such a release left a Secret with nothing but a URL, and no certificate."""
    await release.install()
    plain = {"url": base64.b64encode(b"redis://kai-redis:6379/0").decode(), "password": None}
    await release.client.patch(SECRETS, "kai-redis", {"data": plain}, namespace=names.NAMESPACE)
    await release.client.delete(SECRETS, "kai-redis-tls-secret", namespace=names.NAMESPACE)
    assert (await release.secret("kai-redis")).keys() == {"url"}
    await release.upgrade()
    made = await release.secret("kai-redis")
    assert made["url"].startswith(b"rediss://kai-redis.")
    assert len(made["password"]) == 32
    assert (await release.secret("kai-redis-tls-secret")).keys() == {"ca.crt", "tls.crt", "tls.key"}
    await release.upgrade(binder={"replicas": 2})
    assert await release.secret("kai-redis") == made


async def test_what_goes_out_is_closed_where_the_port_of_the_api_server_can_be_seen(release):
    seen = {
        "metadata": {"name": "kubernetes"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"]}],
        "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
    }
    await release.client.create(SLICES, seen, namespace="default")
    await release.install()
    policy = await release.client.get(POLICIES, "binder", namespace=names.NAMESPACE)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert {port["port"] for port in policy["spec"]["egress"][0]["ports"]} == {443, 8443}


async def test_values_of_other_releases_are_taken_and_told_to_have_no_effect(release):
    values = {
        "operator": {"qps": 5},
        "global": {"vpa": {"enabled": True}},
        "scheduler": {"goMemLimit": "1Gi"},
    }
    said = await release.install(**values)
    for name in ("operator", "global.vpa", "scheduler.goMemLimit"):
        assert f"WARNING: the value {name} has no effect here." in said
    assert "the value prometheus" not in said


async def test_certificates_that_are_due_are_renewed_and_the_old_authority_stays_trusted(release):
    await release.install()
    before = await release.certificates()
    for name in TLS_SECRETS:
        await release.client.patch(
            SECRETS, name, {"metadata": {"annotations": OLD}}, namespace=names.NAMESPACE
        )
    await release.upgrade()
    after = await release.certificates()
    for name in TLS_SECRETS:
        assert after[name]["tls.crt"] != before[name]["tls.crt"]
        assert before[name]["ca.crt"].strip() in after[name]["ca.crt"]
    assert await release.bundles() == {after[TLS_SECRETS[0]]["ca.crt"]}


async def test_an_upgrade_makes_the_certificates_of_roles_that_an_earlier_release_did_not_have(release):
    await release.install()
    before = await release.certificates()
    shared = await release.client.get(SECRETS, TLS_SECRETS[0], namespace=names.NAMESPACE)
    shared["metadata"] = {"name": "kai-grpc-tls-secret"}  # one for all, of the webhooks' authority
    await release.client.create(SECRETS, shared, namespace=names.NAMESPACE)
    for name in GRPC_SECRETS:
        await release.client.delete(SECRETS, name, namespace=names.NAMESPACE)
    await release.upgrade()
    after = await release.certificates()
    assert {name: after[name] for name in WEBHOOK_SECRETS} == {name: before[name] for name in WEBHOOK_SECRETS}
    (authority,) = {after[name]["ca.crt"] for name in GRPC_SECRETS}
    assert before[TLS_SECRETS[0]]["ca.crt"].strip() not in authority
    for name in GRPC_SECRETS:
        certificate = x509.load_pem_x509_certificate(after[name]["tls.crt"])
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))


async def test_a_role_without_certificate_gets_one_and_all_go_on_to_trust_the_others(release):
    await release.install()
    before = await release.certificates()
    await release.client.delete(SECRETS, GRPC_SECRETS[-1], namespace=names.NAMESPACE)
    await release.upgrade()
    after = await release.certificates()
    for name in GRPC_SECRETS:
        assert before[name]["ca.crt"].strip() in after[name]["ca.crt"]
    assert len({after[name]["ca.crt"] for name in GRPC_SECRETS}) == 1


async def test_what_users_have_made_of_the_default_queues_survives_an_upgrade(release):
    await release.install()
    for hook in await release.client.list(HOOKS[1]):  # nobody is there to answer them
        await release.client.delete(HOOKS[1], hook["metadata"]["name"])
    limit = {"spec": {"resources": {"gpu": {"limit": 3}}}}
    await release.client.patch(QUEUES, "default-queue", limit)
    await release.upgrade()
    queue = await release.client.get(QUEUES, "default-queue")
    assert queue["spec"]["resources"]["gpu"]["limit"] == 3


async def test_taken_out_it_leaves_what_holds_the_users_work(release):
    await release.install()
    await release.helm("uninstall", "kai")
    assert await release.client.list(DEPLOYMENTS, namespace=names.NAMESPACE) == []
    assert not [hook for kind in HOOKS for hook in await release.client.list(kind)]
    queues = {queue["metadata"]["name"] for queue in await release.client.list(QUEUES)}
    assert queues == {"default-parent-queue", "default-queue"}
    crds = {crd["metadata"]["name"] for crd in await release.client.list(CRDS)}
    assert "podgroups.scheduling.run.ai" in crds
    assert await release.client.get(NAMESPACES, names.RESERVATION_NAMESPACE)
