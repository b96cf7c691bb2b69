"""What `kai render` prints is what the operator makes."""

import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from typer.testing import CliRunner

from kai.operands import Facts, operands_of_config, operands_of_shard, read_config, read_shard
from kai_cli.__main__ import app

CONFIG = {"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}}
SHARD = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "default"}}
OTHER = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kai-scheduler"}}


def a_file(folder: Path, *documents) -> str:
    path = folder / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def render(*arguments, given=None):
    return CliRunner().invoke(app, ["render", *arguments], input=given)


def printed(result):
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def test_the_objects_are_those_of_the_operator_and_other_documents_are_left_out(tmp_path):
    pool = {**SHARD, "metadata": {"name": "pool"}, "spec": {"partitionLabelValue": "pool"}}
    result = render("-f", a_file(tmp_path, OTHER, CONFIG, SHARD, pool), "--api-server-port", "6443", "--cdi")
    config = read_config(CONFIG)
    facts = Facts(api_server_ports=(6443,), cdi=True, leaders_kept=False)
    shards = [read_shard(each, config) for each in (SHARD, pool)]
    expected = operands_of_config(config, facts, shards)
    for shard in shards:
        expected += operands_of_shard(config, shard, facts)
    assert printed(result) == expected
    assert "webhooks have no caBundle" in result.stderr


def test_what_a_shard_is_told_is_told_here_too(tmp_path):
    shard = {**SHARD, "spec": {"usageDBConfig": {"clientType": "redis"}}}
    config = {**CONFIG, "spec": {"redis": {"persistence": {"enabled": False}}}}
    result = render("-f", a_file(tmp_path, config, shard))
    assert "warning: SchedulingShard default: what queues used is kept in a Redis without" in result.stderr
    assert printed(result)


def test_without_an_operator_the_service_of_several_schedulers_leads_to_all_of_them(tmp_path):
    config = {**CONFIG, "spec": {"scheduler": {"replicas": 2}}}
    objects = printed(render("-f", a_file(tmp_path, config, SHARD)))
    services = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Service"}
    assert services["kai-scheduler-default"]["spec"]["selector"] == {"app": "kai-scheduler-default"}
    assert "kai-schedulers-default" not in services
    assert [name for name, each in services.items() if not each["spec"].get("selector")] == []


def test_files_may_come_from_standard_input_and_several():
    given = yaml.safe_dump_all([CONFIG, SHARD])
    names = {each["metadata"]["name"] for each in printed(render("-f", "-", given=given))}
    assert "kai-scheduler-default" in names


def test_what_kubectl_prints_of_a_cluster_is_read():
    given = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [CONFIG, SHARD]})
    names = {each["metadata"]["name"] for each in printed(render("-f", "-", given=given))}
    assert "kai-scheduler-default" in names


def test_secrets_are_made_and_trusted_by_the_webhooks(tmp_path):
    objects = printed(render("-f", a_file(tmp_path, CONFIG, SHARD), "--with-certificates"))
    secrets = {each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "Secret"}
    (webhook,) = [each for each in objects if each["metadata"]["name"] == "mutating-kai-admission"]
    bundle = base64.b64decode(webhook["webhooks"][0]["clientConfig"]["caBundle"])
    certificate, authority = (
        x509.load_pem_x509_certificate(pem)
        for pem in (base64.b64decode(secrets["kai-admission-webhook-tls-secret"]["tls.crt"]), bundle)
    )
    certificate.verify_directly_issued_by(authority)
    assert certificate.not_valid_after_utc > datetime.now(UTC)
    assert {"binder-grpc-tls-secret", "kai-redis-tls-secret", "kai-redis"} <= set(secrets)
    assert base64.b64decode(secrets["kai-redis"]["url"]) == b"rediss://kai-redis.kai-scheduler.svc:6379/0"


def test_a_kind_that_the_cluster_is_said_to_have_is_rendered(tmp_path):
    config = {**CONFIG, "spec": {"global": {"vpa": {"enabled": True}}}}
    path = a_file(tmp_path, config)
    assert "asks for autoscaling.k8s.io/VerticalPodAutoscaler" in render("-f", path).stderr
    objects = printed(render("-f", path, "--served", "VerticalPodAutoscaler"))
    assert any(each["kind"] == "VerticalPodAutoscaler" for each in objects)


@pytest.mark.parametrize(
    ("documents", "arguments", "status", "told"),
    [
        ([SHARD], (), 2, "the files have 0 objects of kind Config; give one"),
        ([CONFIG, CONFIG], (), 2, "the files have 2 objects of kind Config; give one"),
        ([{**CONFIG, "metadata": {"name": "mine"}}], (), 2, "only kai-config counts"),
        ([{**CONFIG, "spec": {"binder": {"replcas": 2}}}], (), 1, "Config kai-config: spec.binder.replcas"),
        ([CONFIG, {**SHARD, "spec": {"kValue": -1}}], (), 1, "SchedulingShard default: spec.kValue"),
        ([CONFIG, SHARD, {**SHARD, "metadata": {"name": "b"}}], (), 1, "SchedulingShard b: spec.partition"),
        ([CONFIG, {**SHARD, "kind": "SchedulngShard"}], (), 2, "v1 SchedulngShard default is not known"),
        ([CONFIG, {**SHARD, "apiVersion": "kai.schedular/v1"}], (), 2, "known: kai.scheduler/v1 Config"),
        ([{**CONFIG, "metadata": "kai-config"}], (), 2, "the Config is called ''; only kai-config counts"),
        ([{"kind": "List", "items": 3}], (), 2, "the files have 0 objects of kind Config"),
        ([CONFIG, {**SHARD, "kind": "Shard", "metadata": []}], (), 2, "v1 Shard is not known"),
        ([CONFIG, SHARD, SHARD], (), 2, "the files have 2 SchedulingShards called default; give one"),
        ([CONFIG, {**SHARD, "metadata": {}}], (), 1, "metadata.name is ''; a Service is named after it"),
        ([CONFIG, {**SHARD, "metadata": {"name": "Pool_1"}}], (), 1, "write lower-case letters, digits"),
        ([CONFIG], ("--api-server-port", "70000"), 2, "less than or equal to"),
        ([CONFIG], ("--served", "Pod"), 2, "--served Pod: there are ServiceMonitor"),
        ([CONFIG], ("--ca-bundle", "/nowhere"), 1, "cannot read the manifests"),
    ],
)
def test_what_cannot_be_rendered_is_told(tmp_path, documents, arguments, status, told):
    result = render("-f", a_file(tmp_path, *documents), *arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert told in " ".join(result.stderr.split())


def test_a_file_that_is_not_there_or_no_yaml_is_told(tmp_path):
    assert "cannot read the manifests" in render("-f", str(tmp_path / "none.yaml")).stderr
    for text in ("a: [", "[" * 5000):
        assert "cannot read the manifests" in render("-f", "-", given=text).stderr


#: What others write without quotes: a date that no calendar has, and an operator.
THEIRS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: alertmanagerconfigs.monitoring.coreos.com, labels: {since: 2026-13-45}}
spec: {versions: [{schema: {enum: [=, '!=']}}]}
---
"""


def test_manifests_of_others_are_read_as_a_server_gets_them(tmp_path):
    given = THEIRS + yaml.safe_dump_all([CONFIG, SHARD])
    assert printed(render("-f", "-", given=given))


def test_a_tag_that_looks_like_a_day_is_one():
    text = """
apiVersion: kai.scheduler/v1
kind: Config
metadata: {name: kai-config}
spec: {binder: {service: {image: {tag: 2026-11-01}}}}
"""
    objects = printed(render("-f", "-", given=text))
    images = [
        container["image"]
        for each in objects
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "binder"
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    assert [image.rpartition(":")[2] for image in images] == ["2026-11-01"]


def test_a_key_that_is_there_twice_is_told_with_its_line():
    given = f"{yaml.safe_dump(CONFIG)}spec:\n  global: {{}}\nspec: {{}}\n"
    result = render("-f", "-", given=given)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot read the manifests: line 7: 'spec' is there twice; say it once" in result.stderr
