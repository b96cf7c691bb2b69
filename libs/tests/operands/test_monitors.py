"""Who is scraped, and that nobody is scraped twice."""

from dataclasses import replace

import pytest

from kai.operands import Facts, operands_of_config, operands_of_shard, read_config, read_shard
from kai.operands.facts import OPTIONAL_KINDS
from kai.operands.spec.shards import Shard

EXTERNAL = {"enabled": True, "externalPrometheusUrl": "http://prometheus.monitoring:9090"}
FACTS = Facts(served=frozenset(OPTIONAL_KINDS))


def installed(**spec):
    """All objects of an installation with one shard."""
    on = {"service": {"enabled": True}}
    config = read_config({"spec": {"nodeScaleAdjuster": on, "numaPlacementExporter": on, **spec}})
    shard: Shard = read_shard({"metadata": {"name": "default"}, "spec": {}}, config)
    return [*operands_of_config(config, FACTS, [shard]), *operands_of_shard(config, shard, FACTS)]


def of(objects, kind):
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def selects(selector, labels):
    """Whether a label selector means an object with these labels."""
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "NotIn"
        if labels.get(expression["key"]) in expression["values"]:
            return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def scraped(objects):
    """Services by the monitors that reach a port of theirs."""
    found = {}
    for name, monitor in of(objects, "ServiceMonitor").items():
        (endpoint,) = monitor["spec"]["endpoints"]
        for service in of(objects, "Service").values():
            ports = {port["name"] for port in service["spec"]["ports"]}
            if (
                selects(monitor["spec"]["selector"], service["metadata"]["labels"])
                and service["metadata"]["namespace"] in monitor["spec"]["namespaceSelector"]["matchNames"]
                and endpoint["port"] in ports
            ):
                found.setdefault(service["metadata"]["name"], []).append(name)
    return found


@pytest.mark.parametrize(
    "queues",
    [{}, {"controllerService": {"metrics": {"name": "http-metrics"}}}],
    ids=["usual port", "port of another name"],
)
def test_every_process_is_scraped_once(queues):
    objects = installed(prometheus=EXTERNAL, queueController=queues)
    programs = {*of(objects, "Deployment"), *of(objects, "DaemonSet")}
    programs -= {"kai-redis"}
    assert scraped(objects) == {
        name: ["queue-controller" if name == "queue-controller" else "kai-processes"] for name in programs
    }
    monitors = of(objects, "ServiceMonitor")
    assert {monitors[name]["spec"]["jobLabel"] for name in ("queue-controller", "kai-processes")} == {"app"}


def test_of_several_schedulers_each_is_scraped_once_by_a_service_that_selects_it():
    """Prometheus finds pods by the Endpoints of a Service, which only one with a selector has."""
    objects = installed(prometheus=EXTERNAL, scheduler={"replicas": 2})
    found = scraped(objects)
    services = of(objects, "Service")
    assert {"kai-schedulers-default", "kai-scheduler-default"} <= services.keys()
    assert found["kai-schedulers-default"] == ["kai-processes"]
    assert all(services[name]["spec"].get("selector") for name in found)
    every = services["kai-schedulers-default"]
    (pods,) = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in of(objects, "Deployment").values()
        if each["metadata"]["name"] == "kai-scheduler-default"
    ]
    assert selects({"matchLabels": every["spec"]["selector"]}, pods)
    assert every["metadata"]["labels"]["app"] == "kai-scheduler-default"


def test_a_prometheus_of_ours_may_write_to_its_volume():
    def user(facts):
        config = read_config({"spec": {"prometheus": {"enabled": True}}})
        (found,) = of(operands_of_config(config, facts, []), "Prometheus").values()
        return found["spec"].get("securityContext", {}).get("fsGroup")

    assert user(FACTS)
    assert user(replace(FACTS, openshift=True)) is None


def test_a_prometheus_of_ours_goes_where_all_pods_go_and_may_do_as_little():
    place = {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        "priorityClassName": "system-cluster-critical",
    }
    secure = {"podSecurityContext": {"supplementalGroups": [7]}, "additionalImagePullSecrets": ["pull"]}
    config = read_config({"spec": {"prometheus": {"enabled": True}, "global": {**place, **secure}}})
    (found,) = of(operands_of_config(config, FACTS, []), "Prometheus").values()
    assert {key: found["spec"][key] for key in place} == place
    assert found["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    context = found["spec"]["securityContext"]
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (context["runAsNonRoot"], context["supplementalGroups"]) == (True, [7])


def test_monitors_are_found_by_their_label_and_scrape_as_often_as_they_are_told():
    often = {"interval": "5s", "scrapeTimeout": "3s"}
    objects = installed(
        prometheus={
            **EXTERNAL,
            "serviceMonitor": often,
            "accountingLabelKey": "who",
            "accountingLabelValue": "me",
        }
    )
    monitors = of(objects, "ServiceMonitor")
    assert set(monitors) == {"queue-controller", "kai-processes", "kube-state-metrics"}
    for monitor in monitors.values():
        assert monitor["metadata"]["labels"]["who"] == "me"
        (endpoint,) = monitor["spec"]["endpoints"]
        assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("5s", "3s")


@pytest.mark.parametrize("prometheus", [{}, {**EXTERNAL, "serviceMonitor": {"enabled": False}}])
def test_there_are_none_unless_they_are_asked_for(prometheus):
    assert not of(installed(prometheus=prometheus), "ServiceMonitor")
