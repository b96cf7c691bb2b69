"""What there is of insight, and what its process is told."""

import pytest

from kai.model.names import RETENTION
from kai.operands import Facts, InvalidSpec, all_secrets, certificates_of, operands_of_config, read_config
from kai.operands.certificates import GRPC
from kai_insight.settings import InsightSettings

ON = {"service": {"enabled": True}}
DATABASE = {**ON, "externalSecret": {"name": "history", "key": "address", "port": 6432}}
SECRET = "insight-grpc-tls-secret"


def objects_of(insight, **spec):
    config = read_config({"spec": {"insight": insight, **spec}})
    facts = Facts(repository="example.com/kai", tag="v1", api_server_ports=(6443,))
    return {(o["kind"], o["metadata"]["name"]): o for o in operands_of_config(config, facts, ())}


def pod_of(objects):
    return objects["Deployment", "insight"]["spec"]["template"]["spec"]


def container_of(objects):
    (container,) = pod_of(objects)["containers"]
    return container


def settings_of(objects):
    return InsightSettings.parse(container_of(objects)["args"])


def mounts_of(objects):
    """Folder -> what is mounted there."""
    volumes = {volume["name"]: volume for volume in pod_of(objects)["volumes"]}
    mounts = container_of(objects)["volumeMounts"]
    return {mount["mountPath"]: (volumes[mount["name"]], mount.get("readOnly", False)) for mount in mounts}


def test_there_is_none_unless_it_is_switched_on():
    assert not any("insight" in name for _, name in objects_of({}))


def test_it_comes_with_an_account_a_service_for_metrics_and_a_volume_for_its_file():
    objects = objects_of({**ON, "persistence": {"size": "20Gi", "storageClassName": "fast"}})
    assert ("ServiceAccount", "insight") in objects
    assert [port["name"] for port in objects["Service", "insight"]["spec"]["ports"]] == [
        "http-metrics",
        "https",
    ]
    assert objects["PersistentVolumeClaim", "kai-insight"]["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "20Gi"}},
        "storageClassName": "fast",
    }
    assert objects["PersistentVolumeClaim", "kai-insight"]["metadata"]["annotations"] == {RETENTION: "30d"}
    volume, read_only = mounts_of(objects)["/data"]
    assert (volume["persistentVolumeClaim"], read_only) == ({"claimName": "kai-insight"}, False)
    assert settings_of(objects).history_url == "sqlite:////data/history.db"


def test_a_file_has_one_writer_who_is_gone_before_the_next_begins_and_may_write_its_volume():
    objects = objects_of(ON, **{"global": {"replicaCount": 3}})
    spec = objects["Deployment", "insight"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    context = pod_of(objects)["securityContext"]
    assert context["fsGroup"] == context["runAsGroup"]
    assert objects["Deployment", "binder"]["spec"]["strategy"]["type"] == "RollingUpdate"
    assert "fsGroup" not in objects["Deployment", "binder"]["spec"]["template"]["spec"]["securityContext"]


@pytest.mark.parametrize(("own", "of_all"), [({"replicas": 0}, 1), ({}, 0)])
def test_who_writes_a_file_can_be_stopped_as_all_others(own, of_all):
    objects = objects_of({**ON, **own}, **{"global": {"replicaCount": of_all}})
    assert objects["Deployment", "insight"]["spec"]["replicas"] == 0
    assert ("PersistentVolumeClaim", "kai-insight") in objects


def test_without_a_volume_the_file_goes_with_its_pod():
    objects = objects_of({**ON, "persistence": {"enabled": False}})
    assert ("PersistentVolumeClaim", "kai-insight") not in objects
    assert mounts_of(objects)["/data"][0]["emptyDir"] == {}


def test_a_database_is_told_by_a_secret_and_may_have_several_who_ask_it(tmp_path):
    objects = objects_of(DATABASE, **{"global": {"replicaCount": 2}})
    assert ("PersistentVolumeClaim", "kai-insight") not in objects
    assert "/data" not in mounts_of(objects)
    assert mounts_of(objects)["/etc/kai/history"][0]["secret"]["secretName"] == "history"
    settings = settings_of(objects)
    assert settings.history_url_file == "/etc/kai/history/address"
    assert settings.leader_elect
    assert objects["Deployment", "insight"]["spec"]["replicas"] == 2
    assert ("PodDisruptionBudget", "insight") in objects


def test_its_process_takes_what_it_is_told():
    told = {
        "retention": "7d",
        "grpcPort": 9999,
        "service": {"enabled": True, "extraArgs": {"queue-interval": "5m"}},
    }
    settings = settings_of(objects_of(told))
    assert (settings.retention, settings.queue_interval) == (7 * 86400, 300)
    assert settings.grpc_listen == ":9999"
    assert settings.tls is not None


def test_it_has_a_certificate_of_its_own_only_where_it_runs():
    assert SECRET in certificates_of(read_config({"spec": {"insight": ON}}))[GRPC]
    assert SECRET not in certificates_of(read_config({}))[GRPC]
    assert SECRET in all_secrets()
    assert mounts_of(objects_of(ON))["/etc/kai/tls"][0]["secret"]["secretName"] == SECRET


def policy_of(objects):
    return objects["NetworkPolicy", "insight"]["spec"]


def ports(rules):
    return [port["port"] for rule in rules for port in rule["ports"]]


def test_nobody_may_ask_it_but_who_is_named_and_who_writes_verdicts():
    writer = {"podSelector": {"matchLabels": {"app": "podgroup-controller"}}}
    like = {"podSelector": {"matchLabels": {"app": "insight"}}}

    def opened(port, *peers):
        return {"ports": [{"protocol": "TCP", "port": port}], "from": [*peers]}

    (*asked, metrics) = policy_of(objects_of(ON))["ingress"]
    assert asked == [opened(9091, writer), opened(9092, like)]
    assert ports([metrics]) == [8080]
    tools = {"namespaceSelector": {"matchLabels": {"team": "platform"}}}
    (*asked, _) = policy_of(objects_of(ON, networkPolicy={"grpcFrom": [tools]}))["ingress"]
    assert asked == [opened(9091, writer, tools), opened(9092, like, tools)]
    without = {"podGroupController": {"service": {"enabled": False}}}
    assert ports(policy_of(objects_of(ON, **without))["ingress"]) == [9092, 8080]


def test_who_writes_verdicts_may_reach_it_where_it_runs():
    def reached(objects):
        egress = objects["NetworkPolicy", "podgroup-controller"]["spec"]["egress"]
        peers = [peer for rule in egress for peer in rule.get("to", ()) if ports([rule]) == [9091]]
        return [peer["podSelector"]["matchLabels"] for peer in peers]

    assert reached(objects_of(ON)) == [{"app": "insight"}]
    assert reached(objects_of({})) == []


def test_over_http_it_listens_where_it_is_said_and_its_service_leads_there():
    objects = objects_of({**ON, "httpPort": 9443})
    assert settings_of(objects).http_listen == ":9443"
    assert {"name": "https", "port": 9443, "targetPort": "https", "protocol": "TCP"} in objects[
        "Service", "insight"
    ]["spec"]["ports"]
    assert {"name": "https", "containerPort": 9443, "protocol": "TCP"} in container_of(objects)["ports"]


def test_over_http_it_takes_nothing_where_that_is_not_wanted():
    objects = objects_of({**ON, "httpPort": 0})
    assert settings_of(objects).http_listen == ""
    assert [port["name"] for port in objects["Service", "insight"]["spec"]["ports"]] == ["http-metrics"]


def test_without_tls_only_forwarded_ports_lead_to_http():
    peers = [{"podSelector": {}}]
    without = {"global": {"tls": {"enabled": False}}, "networkPolicy": {"grpcFrom": peers}}
    objects = objects_of(ON, **without)
    assert settings_of(objects).http_listen == "127.0.0.1:9092"
    assert [port["name"] for port in objects["Service", "insight"]["spec"]["ports"]] == ["http-metrics"]
    assert 9092 not in ports(policy_of(objects)["ingress"])


def test_it_may_reach_schedulers_the_api_server_and_its_database_alone():
    assert {6443, 9090} < set(ports(policy_of(objects_of(ON))["egress"]))
    assert 6432 not in ports(policy_of(objects_of(ON))["egress"])
    assert 6432 in ports(policy_of(objects_of(DATABASE))["egress"])


@pytest.mark.parametrize(
    ("insight", "field", "part"),
    [
        ({**ON, "replicas": 2}, "spec.insight.replicas", "a file has one writer"),
        ({**ON, "persistence": {"size": "0"}}, "spec.insight.persistence.size", "give the volume a size"),
        ({**ON, "retention": "soon"}, "spec.insight.retention", "soon"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(insight, field, part):
    with pytest.raises(InvalidSpec) as refused:
        read_config({"spec": {"insight": insight}})
    ((problem),) = refused.value.problems
    assert problem.field == field
    assert part in problem.text
