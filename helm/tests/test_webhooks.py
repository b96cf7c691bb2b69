"""The chart registers the webhooks that our services serve, with certificates that work."""

import base64
import ssl

import pytest
from cryptography import x509

from kai.runtime.registration import PodScope, webhook_configurations


def unlabelled(configuration):
    return {**configuration, "metadata": {"name": configuration["metadata"]["name"]}}


def rendered_configurations(objects):
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return {name: unlabelled(o) for kind in kinds for name, o in objects.of(kind).items()}


def bundle(objects):
    webhook = objects.one("MutatingWebhookConfiguration", "mutating-kai-admission")["webhooks"][0]
    return webhook["clientConfig"]["caBundle"]


@pytest.mark.parametrize(
    ("values", "scope"),
    [
        ({}, PodScope(namespace="kai")),
        (
            {
                "global": {"podLabelSelector": {"team": "ml"}, "namespaceLabelSelector": {"kai": "yes"}},
                "podgrouper": {"queueLabelKey": "example.com/queue"},
                "admission": {"queueLabelSelector": True},
            },
            PodScope(
                namespace="kai",
                queue_label_key="example.com/queue",
                queue_label_selector=True,
                namespace_labels={"kai": "yes"},
                pod_labels={"team": "ml"},
            ),
        ),
        ({"global": {"blockNvidiaVisibleDevices": True}}, PodScope(namespace="kai", all_pods=True)),
        (
            {"admission": {"args": {"block-nvidia-visible-devices": True}}},
            PodScope(namespace="kai", all_pods=True),
        ),
        ({"queuecontroller": {"webhook": {"refuseDeletion": True}}}, PodScope(namespace="kai")),
    ],
    ids=["defaults", "scoped", "devices blocked", "devices blocked by a flag", "queues kept"],
)
def test_the_chart_registers_what_the_services_serve(helm, values, scope):
    objects = helm.render(values=values, namespace="kai")
    authority = bundle(objects)

    def client_config(service, path):
        reference = {"name": service, "namespace": "kai", "path": path, "port": 443}
        return {"service": reference, "caBundle": authority}

    refuse = values.get("queuecontroller", {}).get("webhook", {}).get("refuseDeletion", False)
    configurations = webhook_configurations(client_config, scope, refuse_queue_deletion=refuse)
    assert rendered_configurations(objects) == {c["metadata"]["name"]: c for c in configurations}
    controller = objects.one("Deployment", "queue-controller")["spec"]["template"]["spec"]["containers"][0]
    assert f"--refuse-queue-deletion={str(refuse).lower()}" in controller["args"]


def test_only_the_webhooks_of_what_is_deployed_are_registered(helm):
    assert rendered_configurations(helm.render(values={"admission": {"enabled": False}})).keys() == {
        "kai-queue-validation-v2",
        "kai-podgroup-validation-v2alpha2",
    }
    off = {"webhook": {"enabled": False}}
    assert rendered_configurations(
        helm.render(values={"queuecontroller": off, "podgroupcontroller": {"enabled": False}})
    ).keys() == {"mutating-kai-admission", "validating-kai-admission", "kai-warnings"}


@pytest.mark.parametrize(
    ("secret", "service"),
    [
        ("kai-admission-webhook-tls-secret", "admission"),
        ("podgroup-webhook-tls-secret", "podgroup-controller"),
        ("queue-webhook-tls-secret", "queue-controller"),
    ],
)
def test_the_api_server_will_accept_the_certificate(helm, tmp_path, secret, service):
    objects = helm.render(namespace="kai")
    data = {k: base64.b64decode(v) for k, v in objects.one("Secret", secret)["data"].items()}
    assert base64.b64decode(bundle(objects)) == data["ca.crt"]
    assert handshake(data, f"{service}.kai.svc", tmp_path)


def handshake(data, name, directory):
    """Whether a client that trusts ca.crt accepts tls.crt for this name."""
    (directory / "crt").write_bytes(data["tls.crt"])
    (directory / "key").write_bytes(data["tls.key"])
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(directory / "crt", directory / "key")
    client_context = ssl.create_default_context(cadata=data["ca.crt"].decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert() is not None


def test_one_certificate_serves_and_identifies_our_own_processes(helm, tmp_path):
    data = helm.render().one("Secret", "kai-grpc-tls-secret")["data"]
    data = {key: base64.b64decode(value) for key, value in data.items()}
    assert handshake(data, "scheduler.kai-scheduler.svc", tmp_path)
    certificate = x509.load_pem_x509_certificate(data["tls.crt"])
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH in usage


def test_all_secrets_are_of_one_authority(helm):
    secrets = [s for s in helm.render().of("Secret").values() if s.get("type") == "kubernetes.io/tls"]
    assert len(secrets) == 4
    assert len({s["data"]["ca.crt"] for s in secrets}) == 1
    assert len({s["data"]["tls.key"] for s in secrets}) == 4


def test_ones_own_certificates_are_used_as_they_are(helm):
    objects = helm.render(values={"certificates": {"existing": {"enabled": True, "caBundle": "Q0E="}}})
    assert bundle(objects) == "Q0E="
    assert not [s for s in objects.of("Secret").values() if s.get("type") == "kubernetes.io/tls"]
