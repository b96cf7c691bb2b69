"""What processes tell is what the page, the dashboards and the alerts know, asked of a real Prometheus."""

import json
import os
import uuid
from contextlib import contextmanager

import aiohttp
import pytest
import yaml
from prometheus_client import CollectorRegistry

from deadlines import eventually
from e2e import monitoring, prometheus, troubles
from e2e.harness import REAL, local_cluster
from e2e.manifests import a_group, a_job, a_pod, as_yaml, on, sized
from e2e.metrics import target, total
from e2e.monitoring import Query
from e2e.third_party import definitions
from kai.config.plugin_table import DEFAULT_PLUGINS, written_defaults
from kai.kube.errors import ApiError
from kai.kube.resources import PODS
from kai.observe import exposition
from kai_local.kubelet.nodes import NodeShape
from kai_local.operators.definitions import a_definition
from kai_local.services.suite import SERVICES
from kai_numa_placement_exporter.exporter import ExporterMetrics

_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_RULE = {"alert": _TEXT, "expr": _TEXT, "for": _TEXT, "labels": _TEXTS, "annotations": _TEXTS}
#: What the Prometheus operator takes of rules, as far as it concerns alerts.
RULES = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "groups": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": _TEXT,
                            "rules": {
                                "type": "array",
                                "items": {"type": "object", "required": ["expr"], "properties": _RULE},
                            },
                        },
                    },
                }
            },
        }
    },
}
#: Labels that Prometheus gives whatever it scrapes.
SCRAPED = {"namespace": "kai-scheduler"}


class Defect:
    """A package with a plugin that fails: over one pod, and over everything for as long as it is told to."""

    NAME, POD = "example.defect", "poisoned"
    CODE = f"""
from pathlib import Path

from kai.engine.framework import JobRanking, PluginSpec

IN_ALL = Path(__file__).with_name("in-all-cycles")


class Poisoned(JobRanking):
    def rank(self, job, gone, /):
        if job.name.startswith("pg-{POD}-"):
            raise RuntimeError("over one pod")
        return 0


def opened(handle):
    if IN_ALL.exists():
        raise RuntimeError("over everything")
    return (Poisoned(),)


plugin = PluginSpec(meaning="fails", opener=opened)
"""

    def __init__(self, site):
        self.site = site
        (site / "example_defect.py").write_text(self.CODE)
        info = site / "example_defect-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example_defect\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kai.plugins]\n{self.NAME} = example_defect:plugin\n")

    def configuration(self):
        """That of a scheduler that has it."""
        plugins = [{"name": each, "arguments": written_defaults(each)} for each in DEFAULT_PLUGINS]
        return yaml.safe_dump({"tiers": [{"plugins": [*plugins, {"name": self.NAME}]}]})

    @contextmanager
    def in_all_cycles(self):
        switch = self.site / "in-all-cycles"
        switch.touch()
        try:
            yield
        finally:
            switch.unlink()


@pytest.fixture(scope="module")
def defect(tmp_path_factory):
    return Defect(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory, defect):
    """Instead of the suite's cluster, one with every process that there is, and a plugin that can fail."""
    if REAL:
        pytest.skip("what processes tell of themselves is the same, whatever the control plane")
    folder, name = tmp_path_factory.mktemp("monitoring"), f"monitoring-{uuid.uuid4().hex[:8]}"
    (folder / "scheduler.yaml").write_text(defect.configuration())
    size = ("--nodes=2", "--binders=2", "--autoscaling", "--history")
    flag = f"--flag=scheduler:scheduler-conf={folder / 'scheduler.yaml'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(defect.site), prepend=os.pathsep)
        with local_cluster(name, folder / "kubeconfig", *size, flag):
            yield name, folder / "kubeconfig"


async def processes(cluster) -> dict[str, list[str]]:
    """``host:port`` of our processes' metrics, by what they are."""
    found: dict[str, list[str]] = {}
    for one in cluster.status()["processes"]:
        kind = one["name"].rstrip("-0123456789")
        if kind in SERVICES:
            found.setdefault(kind, []).append(await target(one["address"]))
    return found


async def scraped(address) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return await answer.text()


@pytest.fixture
async def life(cluster, queue, node, namespace):
    """A little of everything: binds, a shared GPU, a preemption, a reclaim, work that waits, a refusal."""
    poor, rich = await queue(gpus=1), await queue(gpus=0)
    place = on(await node(NodeShape(gpus=2)))

    def pod(name, payer, **more):
        return a_pod(name, namespace, payer, spec=place, **more)

    await cluster.apply(as_yaml(a_job("part", namespace, rich, pods=1, **sized(0.5), spec=place)))
    await cluster.running(namespace, "part", count=1)
    await cluster.apply(as_yaml(a_job("lent", namespace, rich, pods=1, gpus=1, spec=place)))
    await cluster.running(namespace, "lent", count=1)
    train, build = ({"priorityClassName": name} for name in ("train", "build"))
    await cluster.apply(as_yaml(pod("due", poor, gpus=1, labels=train)))
    await cluster.running(namespace, "due", count=1)
    await cluster.apply(as_yaml(pod("urgent", poor, gpus=1, labels=build)))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.apply(as_yaml(a_job("wide", namespace, poor, pods=2, gang=2, gpus=64)))
    await cluster.apply(as_yaml(a_group("nobody", namespace, "there-is-no-such-queue", minMember=1)))
    with pytest.raises(ApiError):
        await cluster.apply(as_yaml(pod("wrong", poor, annotations={"gpu-fraction": "7"})))


async def test_every_series_is_in_the_table_of_the_page(cluster, life):
    page, differences, seen = monitoring.documented(), [], {}
    for process, addresses in (await processes(cluster)).items():
        for name, (kind, labels) in monitoring.told(await scraped(addresses[0])).items():
            seen.setdefault(name, set()).add(process)
            row = page.get(name)
            if row is None or row.kind != kind or (labels is not None and set(labels) != set(row.labels)):
                differences.append(f"{process} tells {name}, {kind} {labels}; the page has {row}")
    everybody = set(await processes(cluster))
    for name, row in page.items():
        tellers = everybody if row.tellers == ("all",) else set(row.tellers) & everybody
        if seen.get(name, set()) != tellers:
            differences.append(f"{name} is told by {seen.get(name)}; the page has {row.tellers}")
    assert not differences, "\n".join(differences)


def test_series_of_the_exporter_on_nodes_are_in_the_table():
    registry = CollectorRegistry()
    ExporterMetrics(registry)
    page = {name: row for name, row in monitoring.documented().items() if name.startswith("kai_numa")}
    told = monitoring.told(exposition.encode(registry).decode())
    assert {name: kind for name, (kind, _) in told.items()} == {name: row.kind for name, row in page.items()}
    assert {row.tellers for row in page.values()} == {("numa-placement-exporter",)}


async def test_dashboards_and_alerts_name_series_that_there_are(cluster):
    known = monitoring.documented()
    queries = [*monitoring.dashboard_queries(), *monitoring.alert_queries()]
    assert len({query.place.partition(":")[0] for query in queries if ":" in query.place}) == 5
    for query in queries:
        assert query.families or "up{" in query.expression, query
        assert query.families <= set(known), query


async def until_answered(server, queries):
    """Wait until each has had an answer, with the labels that it asks for."""
    unanswered = {query.expression: query for query in queries}

    async def look() -> list[Query]:
        for expression, query in list(unanswered.items()):
            found = await server.query(expression)
            if found and all(query.labels <= sample.labels.keys() for sample in found):
                del unanswered[expression]
        return list(unanswered.values())

    await eventually(look, lambda left: not left, what="all panels have data")


async def test_every_query_of_the_dashboards_and_every_alert_is_answered(
    cluster, life, prometheus_program, tmp_path
):
    del prometheus_program  # it is there
    with prometheus.running(tmp_path, rules=monitoring.alerts()) as server:
        server.scrape(await processes(cluster), **SCRAPED)
        await eventually(server.ready, what="prometheus answers")
        queries = list(monitoring.dashboard_queries())
        await until_answered(server, (query for query in queries if not query.of_trouble))
        for query in queries:  # whether there is any trouble or not
            assert not query.of_trouble or await server.query(query.expression), query

        rules = await eventually(
            server.rules,
            lambda found: all(rule["health"] != "unknown" for rule in found),
            what="all rules are evaluated",
        )
        assert [rule for rule in rules if rule["health"] != "ok"] == []
        assert len(rules) == len(list(monitoring.alert_queries()))


@pytest.fixture
async def trouble(cluster, queue, node, namespace, defect):
    """A group that cycles fail over, cycles that fail altogether, a node that refuses a pod, and an API
    server that ends, forgets what it told, and has too much to do.
    """
    own, where = await queue(), await node(NodeShape(gpus=1))
    addresses = [one["address"] for one in cluster.status()["processes"] if one["address"]]

    async def told(name):
        await cluster.eventually(
            lambda: total(addresses, name), lambda found: found > 0, what=f"{name} is told"
        )

    async def work():
        await cluster.apply(as_yaml(a_pod(f"work-{uuid.uuid4().hex[:6]}", namespace, own)))

    # First what a process may not live through: its counters then begin anew.
    # It may be back before anybody asked in vain, but whoever was told to come again does so.
    for befalls in (troubles.server_is_killed, troubles.history_is_lost, troubles.requests_are_refused):
        await befalls(cluster, work)
    await cluster.running(namespace, "work-", count=3)
    await told("kai_api_request_retries_total")
    await told("kai_api_relists_total")
    await cluster.apply(as_yaml(a_pod(defect.POD, namespace, own)))
    await told("kai_set_aside_total")
    # Where KWOK plays the node, who refuses the pod is not who starts it, and may come second.
    slow = {"kai.local/start-seconds": "10"}
    await cluster.apply(as_yaml(a_pod("refused", namespace, own, gpus=99, annotations=slow)))
    await cluster.waits(namespace, "refused")
    binding = {"metadata": {"name": "refused"}, "target": {"kind": "Node", "name": where}}
    await cluster.client.create_subresource(PODS, "refused", "binding", binding, namespace=namespace)
    await told("kai_node_refusals_total")
    with defect.in_all_cycles():
        await told("kai_cut_off_total")


async def test_what_dashboards_show_as_0_is_told_where_there_is_trouble(
    cluster, trouble, prometheus_program, tmp_path
):
    del prometheus_program  # it is there
    queries = [query.strict for query in monitoring.dashboard_queries() if query.of_trouble]
    assert queries
    with prometheus.running(tmp_path) as server:
        server.scrape(await processes(cluster), **SCRAPED)
        await eventually(server.ready, what="prometheus answers")
        await until_answered(server, queries)


_OF_QUEUES = ("queue_name", "queue_metadata_name", "queue_display_name")
#: What dashboards and alerts made for the original ask for: type and labels, by series without ``kai_``.
ORIGINAL = {
    **dict.fromkeys(
        (
            "queue_info", "queue_deserved_gpus", "queue_quota_cpu_cores", "queue_quota_memory_bytes",
            "queue_allocated_gpus", "queue_allocated_cpu_cores", "queue_allocated_memory_bytes",
            "queue_fair_share_cpu_cores", "queue_fair_share_memory_gb", "queue_fair_share_gpu",
            "queue_cpu_usage", "queue_memory_usage", "queue_gpu_usage",
        ),
        ("gauge", _OF_QUEUES),
    ),
    **dict.fromkeys(
        (
            "e2e_scheduling_latency_milliseconds", "open_session_latency_milliseconds",
            "close_session_latency_milliseconds", "scenario_search_job_budget_configured_seconds",
        ),
        ("gauge", ()),
    ),
    "plugin_scheduling_latency_milliseconds": ("gauge", ("plugin", "OnSession")),
    "action_scheduling_latency_milliseconds": ("gauge", ("action",)),
    **dict.fromkeys(
        (
            "task_scheduling_latency_milliseconds", "task_bind_latency_milliseconds",
            "usage_query_latency_milliseconds",
        ),
        ("histogram", ()),
    ),
    **dict.fromkeys(
        (
            "podgroups_scheduled_by_action", "podgroups_acted_on_by_action", "scenarios_simulation_by_action",
            "scenarios_filtered_by_action", "scenario_search_action_budget_exhausted_total",
        ),
        ("counter", ("action",)),
    ),
    "total_preemption_attempts": ("counter", ()),
    "pod_group_evicted_pods_total": ("counter", ("podgroup", "namespace", "uid", "nodepool", "action")),
    "scenario_search_jobs_total": ("counter", ("action", "result", "reduced_budget")),
    "scenario_search_action_budget_configured_seconds": ("gauge", ("action",)),
    "scenario_search_generator_budget_configured_seconds": ("gauge", ("generator",)),
    "scenario_search_duration_seconds": ("histogram", ("action", "generator", "result")),
    "scenario_search_scenarios_total": ("counter", ("action", "generator", "state")),
}  # fmt: skip
#: The same of what stands behind controllers written in Go, by whole names.
CONTROLLERS = {
    "controller_runtime_reconcile_total": ("counter", ("controller", "result")),
    "controller_runtime_reconcile_errors_total": ("counter", ("controller",)),
    "controller_runtime_reconcile_time_seconds": ("histogram", ("controller",)),
    "controller_runtime_max_concurrent_reconciles": ("gauge", ("controller",)),
    "controller_runtime_active_workers": ("gauge", ("controller",)),
    "controller_runtime_webhook_requests_total": ("counter", ("webhook", "code")),
    "controller_runtime_webhook_latency_seconds": ("histogram", ("webhook",)),
    "controller_runtime_webhook_requests_in_flight": ("gauge", ("webhook",)),
    "workqueue_depth": ("gauge", ("name", "controller")),
    "workqueue_adds_total": ("counter", ("name", "controller")),
    "workqueue_queue_duration_seconds": ("histogram", ("name", "controller")),
    "workqueue_work_duration_seconds": ("histogram", ("name", "controller")),
    "workqueue_unfinished_work_seconds": ("gauge", ("name", "controller")),
    "workqueue_longest_running_processor_seconds": ("gauge", ("name", "controller")),
    "workqueue_retries_total": ("counter", ("name", "controller")),
    "rest_client_requests_total": ("counter", ("code", "method", "host")),
    "leader_election_master_status": ("gauge", ("name",)),
    "process_cpu_seconds_total": ("counter", ()),
    "process_resident_memory_bytes": ("gauge", ()),
}


def test_what_was_made_for_the_original_finds_its_series():
    page = monitoring.documented()
    for name, (kind, labels) in {**{f"kai_{n}": of for n, of in ORIGINAL.items()}, **CONTROLLERS}.items():
        assert (page[name].kind, page[name].labels) == (kind, labels), name


async def test_an_api_server_takes_the_alerts_and_drops_nothing_of_them(cluster):
    definition = a_definition("monitoring.coreos.com", "PrometheusRule", ["v1"])
    for version in definition["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": RULES}
    await cluster.apply(as_yaml(definition))
    await definitions.served(cluster, "monitoring.coreos.com/v1", "PrometheusRule")
    await cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: kai-scheduler}}")
    (made,) = await cluster.apply(monitoring.ALERTS.read_text())
    assert made["spec"] == monitoring.alerts()


def test_the_page_names_each_dashboard_and_each_alert():
    page = monitoring.PAGE.read_text()
    for name in [*monitoring.dashboards(), *(query.place for query in monitoring.alert_queries())]:
        assert f"`{name}`" in page


def test_each_dashboard_is_whole_and_its_panels_do_not_overlap():
    for name, dashboard in monitoring.dashboards().items():
        assert dashboard["uid"] == f"kai-{name}"
        ids = [panel["id"] for panel in dashboard["panels"]]
        assert len(ids) == len(set(ids))
        cells = [
            (x, y)
            for panel in dashboard["panels"]
            for place in [panel["gridPos"]]
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(cells) == len(set(cells)), name
        assert max(x for x, _ in cells) < 24
        assert "${datasource}" in json.dumps(dashboard)
        for panel in dashboard["panels"]:
            assert panel["title"]
            assert panel["type"] == "row" or panel["targets"]
