"""Who may connect to whom: what our pods listen on is open for those who need it, and for nobody else."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai.model import names
from kai.model.documents import load_written
from kai.operands.facts import PROMETHEUS, SERVICE_MONITOR

WITHOUT_CERTIFICATES = {"certificates": {"existing": {"enabled": True, "caBundle": "Q0E="}}}
VALUES = load_written((Path(__file__).parent / "values.yaml").read_text())
ANYBODY = "anybody"
#: What the pods of all schedulers have in common, of which there is one for each shard.
SCHEDULERS = {"app.kubernetes.io/component": "scheduler"}
#: Who needs which port of which pods, by the name of the port; everybody else has no business there. Probes
#: come from the pod's node, which no policy keeps away.
NEEDED = {
    ("kai-scheduler-default", "grpc"): {"binder", "podgroup-controller", "queue-controller"},
    ("pod-grouper", "grpc"): {"schedulers"},
    ("kai-redis", "redis"): {"schedulers", "queue-controller"},
    ("admission", "webhook"): ANYBODY,
    ("podgroup-controller", "webhook"): ANYBODY,
    ("queue-controller", "webhook"): ANYBODY,
}
METRICS = ("http-metrics", "metrics")
MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
API_SERVER = {"networkPolicy": {"egress": {"apiServerPorts": [6443]}}}


def rendered(helm, *more):
    values: dict = {}
    for one in (WITHOUT_CERTIFICATES, *more):
        values |= one
    return helm.render(values=values)


def listeners(objects) -> Iterator[tuple[str, str, int]]:
    """What all pods listen on: app, name of the port, its number."""
    for workload in (*objects.of("Deployment").values(), *objects.of("DaemonSet").values()):
        template = workload["spec"]["template"]
        for container in template["spec"]["containers"]:
            for port in container["ports"]:
                yield template["metadata"]["labels"]["app"], port["name"], port["containerPort"]


def policy_of(objects, app):
    (policy,) = [
        each
        for each in objects.of("NetworkPolicy").values()
        if each["spec"]["podSelector"] == {"matchLabels": {"app": app}}
    ]
    return policy["spec"]


def app_of(peer) -> str:
    """The app that a peer is, or all schedulers."""
    labels = peer["podSelector"]["matchLabels"]
    return "schedulers" if labels == SCHEDULERS else labels["app"]


def opened(objects, app) -> dict[int, object]:
    """Who may reach which port of an app's pods: names of apps, or anybody."""
    found: dict[int, object] = {}
    for rule in policy_of(objects, app)["ingress"]:
        (port,) = rule["ports"]
        assert port["protocol"] == "TCP"
        peers = rule.get("from")
        found[port["port"]] = {app_of(peer) for peer in peers} if peers else ANYBODY
    return found


def needed_of(objects) -> dict[tuple[str, str], object]:
    """Where it runs, insight listens to schedulers, and the podgroup-controller to it.

    Who else may ask it is said by a value.
    """
    if "insight" not in objects.of("Deployment"):
        return NEEDED
    schedulers = "kai-scheduler-default", "grpc"
    with_insight = {*NEEDED[schedulers], "insight"}
    of_insight = {("insight", "grpc"): {"podgroup-controller"}}
    # Who does not lead hands on what is asked about the cluster as it is.
    served = {("insight", name) for _, name, _ in listeners(objects) if name == "https"}
    return {**NEEDED, schedulers: with_insight, **of_insight, **{key: {"insight"} for key in served}}


@pytest.mark.parametrize("name", VALUES)
def test_every_port_of_every_pod_is_open_for_those_who_need_it_and_for_nobody_else(helm, name):
    objects = rendered(helm, VALUES[name])
    wanted = needed_of(objects)
    needed: dict[str, dict[int, object]] = {}
    for app, port, number in listeners(objects):
        own = needed.setdefault(app, {})
        if port in METRICS or (app, port) in wanted:
            own[number] = wanted.get((app, port), ANYBODY)
    assert needed
    assert {app: opened(objects, app) for app in needed} == needed
    # Everything that a Service offers is among it.
    numbers = {(app, port): number for app, port, number in listeners(objects)}
    for service in objects.of("Service").values():
        app = (service["spec"].get("selector") or {"app": service["metadata"]["name"]})["app"]
        for port in service["spec"]["ports"]:
            assert numbers[app, port["targetPort"]] in needed[app]


@pytest.mark.parametrize("name", VALUES)
def test_every_pod_has_a_policy_and_no_policy_is_for_nobody(helm, name):
    objects = rendered(helm, VALUES[name])
    apps = {app for app, _, _ in listeners(objects)}
    reservation = VALUES[name].get("global", {}).get("resourceReservation", {})
    holders = reservation.get("appLabel", names.RESERVATION_APP)
    scaling = {names.SCALING_POD_APP} if "node-scale-adjuster" in apps else set()
    assert objects.of("NetworkPolicy").keys() == apps | {holders} | scaling
    assert all("Ingress" in policy_of(objects, app)["policyTypes"] for app in apps)


#: Rows of the table of ports that name components, with the port of each.
ROWS = {
    "gRPC of the scheduler": ("kai-scheduler-default", "grpc"),
    "gRPC of the pod-grouper": ("pod-grouper", "grpc"),
    "gRPC and HTTP of insight": ("insight", "grpc"),
    "Redis": ("kai-redis", "redis"),
}


def test_the_table_of_ports_names_all_who_reach_them(helm):
    objects = rendered(helm, {"insight": {"enabled": True}})
    numbers = {(app, port): number for app, port, number in listeners(objects)}
    components = {app for app, _ in numbers if not app.startswith("kai-")} | {"scheduler"}
    lines = (Path(__file__).parents[2] / "docs" / "helm.md").read_text().splitlines()
    told = dict(line.strip("| ").split(" | ")[:2] for line in lines if line.startswith("| "))
    for row, (app, port) in ROWS.items():
        ours, _, _ = told[row].partition(";")
        named = {each for each in components if re.search(rf"\b{each}s?\b", ours)}
        reach = opened(objects, app)[numbers[app, port]]
        assert named == {"scheduler" if each == "schedulers" else each for each in reach}, row


def test_nobody_reaches_the_pods_that_hold_shared_gpus(helm):
    objects = rendered(helm, VALUES["reservation elsewhere"], API_SERVER)
    policy = objects.one("NetworkPolicy", "holder")
    assert policy["metadata"]["namespace"] == "gpu-holders"
    assert policy["spec"]["ingress"] == []
    assert ports_of(policy["spec"]["egress"]) == {
        ("TCP", 6443),
        ("UDP", 53),
        ("TCP", 53),
        ("UDP", 5353),
        ("TCP", 5353),
    }


def test_nobody_reaches_the_pods_that_ask_for_gpus_in_place_of_others_nor_they_anybody(helm):
    policy = rendered(helm, VALUES["autoscaling"]).one("NetworkPolicy", names.SCALING_POD_APP)
    assert policy["metadata"]["namespace"] == "scale"
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert (policy["spec"]["ingress"], policy["spec"]["egress"]) == ([], [])


def test_metrics_may_be_kept_for_a_namespace(helm):
    objects = rendered(helm, {"networkPolicy": {"metricsFrom": [MONITORING]}})
    for app, port, number in listeners(objects):
        rules = [r for r in policy_of(objects, app)["ingress"] if r["ports"][0]["port"] == number]
        if port in METRICS:
            assert [rule["from"] for rule in rules] == [[MONITORING]], app


def test_metrics_that_are_kept_for_a_namespace_are_read_by_our_prometheus_too(helm):
    values = {**WITHOUT_CERTIFICATES, "networkPolicy": {"metricsFrom": [MONITORING]}}
    served = frozenset({PROMETHEUS, SERVICE_MONITOR})
    objects = helm.render(values={**values, "prometheus": {"enabled": True}}, served=served)
    ours = {"podSelector": {"matchLabels": objects.one("Service", "usage-prometheus")["spec"]["selector"]}}
    for app, port, number in listeners(objects):
        if port in METRICS:
            rules = [r for r in policy_of(objects, app)["ingress"] if r["ports"][0]["port"] == number]
            assert [rule["from"] for rule in rules] == [[MONITORING, ours]], app


def test_a_prometheus_of_others_is_let_in_by_who_names_it(helm):
    prometheus = {"enabled": True, "externalPrometheusUrl": "http://prometheus:9090"}
    objects = rendered(helm, {"networkPolicy": {"metricsFrom": [MONITORING]}, "prometheus": prometheus})
    for app in ("kai-operator", "binder"):
        assert [rule["from"] for rule in policy_of(objects, app)["ingress"]] == [[MONITORING]]


def test_others_may_be_let_ask_the_scheduler(helm):
    office = {"ipBlock": {"cidr": "10.1.0.0/16"}}
    objects = rendered(helm, {"networkPolicy": {"grpcFrom": [office]}})
    (rule,) = [
        r for r in policy_of(objects, "kai-scheduler-default")["ingress"] if r["ports"][0]["port"] == 9090
    ]
    assert office in rule["from"]
    assert len(rule["from"]) == 4


def test_a_proxy_may_be_let_ask_insight_over_http_and_nothing_else(helm):
    proxy = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    objects = rendered(helm, {"insight": {"enabled": True}, "networkPolicy": {"pageFrom": [proxy]}})
    found = {
        rule["ports"][0]["port"]: proxy in rule.get("from", ())
        for rule in policy_of(objects, "insight")["ingress"]
    }
    assert found == {9091: False, 9092: True, 8080: False}
    scheduler = policy_of(objects, "kai-scheduler-default")["ingress"]
    assert not any(proxy in rule.get("from", ()) for rule in scheduler)


def test_replicas_of_insight_may_ask_each_other(helm):
    objects = rendered(helm, API_SERVER, {"insight": {"enabled": True}})
    assert ("insight", 9092) in called(objects, "insight")


# --- what goes out -----------------------------------------------------------------------------
def ports_of(rules) -> set[tuple[str, int]]:
    return {(port["protocol"], port["port"]) for rule in rules if "to" not in rule for port in rule["ports"]}


def called(objects, app) -> set[tuple[str, int]]:
    """Pods that an app may connect to, with the port."""
    return {
        (app_of(peer), port["port"])
        for rule in policy_of(objects, app)["egress"]
        for peer in rule.get("to", ())
        for port in rule["ports"]
    }


def test_what_goes_out_is_open_where_nobody_knows_the_port_of_the_api_server(helm):
    """Rendered without a cluster: a wrong guess would stop everything."""
    for policy in rendered(helm).of("NetworkPolicy").values():
        assert policy["spec"]["policyTypes"] == ["Ingress"]
        assert "egress" not in policy["spec"]


def test_where_it_is_known_pods_reach_it_and_those_whom_they_call_and_nobody_else(helm):
    objects = rendered(helm, API_SERVER)
    outside = {("TCP", 6443), ("UDP", 53), ("TCP", 53), ("UDP", 5353), ("TCP", 5353)}
    for app in {app for app, _, _ in listeners(objects)} - {"kai-redis"}:
        assert policy_of(objects, app)["policyTypes"] == ["Ingress", "Egress"]
        assert ports_of(policy_of(objects, app)["egress"]) == outside, app
    assert policy_of(objects, "kai-redis")["egress"] == []
    calls = {app: called(objects, app) for app, _, _ in listeners(objects)}
    assert {app: who for app, who in calls.items() if who} == {
        "binder": {("schedulers", 9090)},
        "podgroup-controller": {("schedulers", 9090)},
        "queue-controller": {("schedulers", 9090), ("kai-redis", 6379)},
        "kai-scheduler-default": {("kai-redis", 6379), ("pod-grouper", 9093)},
    }


def test_whoever_may_go_out_to_a_pod_is_let_in_there(helm):
    objects = rendered(helm, API_SERVER)
    template = objects.one("Deployment", "kai-scheduler-default")["spec"]["template"]
    assert SCHEDULERS.items() <= template["metadata"]["labels"].items()
    also = {"kai-scheduler-default": "schedulers"}
    for app in {app for app, _, _ in listeners(objects)}:
        for other, port in called(objects, app):
            named = "kai-scheduler-default" if other == "schedulers" else other
            assert also.get(app, app) in opened(objects, named)[port]


@pytest.mark.parametrize(
    ("redis", "port"),
    [
        ({"externalUrl": "rediss://user:word@cache.example.com:6390/1"}, 6390),
        ({"externalUrl": "redis://cache.example.com/1"}, 6379),
        ({"externalSecret": {"name": "my-redis", "port": 6391}}, 6391),
    ],
    ids=["port in the url", "no port in the url", "secret"],
)
def test_a_redis_elsewhere_can_be_reached_by_those_who_use_it(helm, redis, port):
    objects = rendered(helm, {"redis": redis}, API_SERVER)
    users = {
        app
        for app in {app for app, _, _ in listeners(objects)}
        if ("TCP", port) in ports_of(policy_of(objects, app)["egress"])
    }
    assert users == {"kai-scheduler-default", "queue-controller"}


def test_rules_of_ones_own_come_on_top(helm):
    proxy = {"ports": [{"protocol": "TCP", "port": 3128}], "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}
    objects = rendered(helm, {"networkPolicy": {"egress": {"apiServerPorts": [443], "more": [proxy]}}})
    assert proxy in policy_of(objects, "admission")["egress"]
    off = rendered(helm, {"networkPolicy": {"egress": {"enabled": False, "apiServerPorts": [443]}}})
    assert policy_of(off, "admission")["policyTypes"] == ["Ingress"]


def test_policies_can_be_left_out(helm):
    assert not rendered(helm, {"networkPolicy": {"enabled": False}}).of("NetworkPolicy")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"metricsFrom": [{"podSelektor": {}}]}, "networkPolicy.metricsFrom.0"),
        ({"egress": {"apiServerPorts": ["https"]}}, "networkPolicy.egress.apiServerPorts.0"),
        ({"enabld": True}, "enabld is not allowed"),
    ],
)
def test_what_is_no_peer_and_no_port_is_refused_by_name(helm, policy, said):
    result = helm.template(values={"networkPolicy": policy})
    assert result.returncode != 0
    assert said in result.stderr
