"""The chart registers the webhooks that our services serve, with certificates that work."""

import base64
import ssl

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from kai.validation.registration import PodScope, webhook_configurations
from kai.wire.permissions import Role, identity, role_of


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


def decoded(secret):
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}


def tls_secrets(objects):
    found = {name: s for name, s in objects.of("Secret").items() if s.get("type") == "kubernetes.io/tls"}
    return {name: decoded(secret) for name, secret in found.items()}


GRPC_ROLES = (
    Role.SCHEDULER,
    Role.BINDER,
    Role.POD_GROUPER,
    Role.PODGROUP_CONTROLLER,
    Role.QUEUE_CONTROLLER,
    Role.KAI_CLI,
)


@pytest.mark.parametrize("role", GRPC_ROLES)
def test_each_process_that_talks_over_grpc_has_a_certificate_of_its_role(helm, tmp_path, role):
    objects = helm.render(namespace="kai")
    data = decoded(objects.one("Secret", f"{role}-grpc-tls-secret"))
    assert handshake(data, identity(role, "kai"), tmp_path)
    certificate = x509.load_pem_x509_certificate(data["tls.crt"])
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert role_of(alternatives.get_values_for_type(x509.DNSName), "kai") is role
    deployments = {"kai-scheduler-default" if role is Role.SCHEDULER else str(role)} - {Role.KAI_CLI}
    assert {
        name
        for name, deployment in objects.of("Deployment").items()
        for volume in deployment["spec"]["template"]["spec"]["volumes"]
        if volume.get("secret", {}).get("secretName") == f"{role}-grpc-tls-secret"
    } == deployments


def test_what_the_api_server_is_shown_is_of_another_authority_than_what_callers_show(helm):
    secrets = tls_secrets(helm.render())
    grpc = {f"{role}-grpc-tls-secret" for role in GRPC_ROLES}
    authorities = (
        {secrets[name]["ca.crt"] for name in grpc},
        {data["ca.crt"] for name, data in secrets.items() if name not in grpc | {"kai-redis-tls-secret"}},
    )
    assert [len(each) for each in authorities] == [1, 1]
    assert secrets.pop("kai-redis-tls-secret")["ca.crt"] not in set.union(*authorities)
    ((of_grpc,), (of_webhooks,)) = authorities
    for name, data in secrets.items():
        certificate = x509.load_pem_x509_certificate(data["tls.crt"])
        signs = of_grpc if name in grpc else of_webhooks
        other = of_webhooks if name in grpc else of_grpc
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(signs))
        with pytest.raises((ValueError, InvalidSignature)):
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(other))
    assert len({data["tls.key"] for data in secrets.values()}) == len(secrets) == 9


def test_without_tls_between_processes_only_the_webhooks_have_certificates(helm):
    objects = helm.render(values={"global": {"tls": {"enabled": False}}})
    assert tls_secrets(objects).keys() == {
        "kai-admission-webhook-tls-secret",
        "podgroup-webhook-tls-secret",
        "queue-webhook-tls-secret",
    }


def test_ones_own_certificates_are_used_as_they_are(helm):
    objects = helm.render(values={"certificates": {"existing": {"enabled": True, "caBundle": "Q0E="}}})
    assert bundle(objects) == "Q0E="
    assert not [s for s in objects.of("Secret").values() if s.get("type") == "kubernetes.io/tls"]
