"""By the configuration on the page a real Prometheus scrapes all processes of an installation.

Debian's Prometheus has no part that discovers pods. What that part tells of them is told here.
"""

import json
import subprocess
from urllib.parse import urlsplit

import pytest

from deadlines import eventually
from e2e import prometheus
from e2e.harness import REAL, chart_cluster
from e2e.installation import HOME, until_ready
from e2e.manifests import as_yaml
from e2e.page import bodies
from kai.kube.resources import PODS
from kai_local.processes.ports import LOOPBACK

DISCOVERY = "kubernetes_sd_configs"
#: Keeps sessions, and has no metrics of ours.
SILENT = "kai-redis"


@pytest.fixture(scope="module")
def embedded(helm_program, tmp_path_factory):
    """Instead of the suite's cluster, one in which the chart is installed, with one process of each kind."""
    if REAL:
        pytest.skip("what is found is what pods of an installation say, whatever the control plane")
    with chart_cluster("scraping", tmp_path_factory.mktemp("scraping"), helm_program) as made:
        yield made


@pytest.fixture
def job():
    (configuration,) = (body for body in bodies("monitoring.md") if "scrape_configs" in body)
    assert configuration.keys() == {"scrape_configs"}
    (found,) = configuration["scrape_configs"]
    return found


def told_by_file(job, file):
    """The same where what is discovered stands in a file."""
    rest = {key: value for key, value in job.items() if key != DISCOVERY}
    return {**rest, "file_sd_configs": [{"files": [str(file)]}]}


def places(cluster):
    """Where pods of the installation are, by their label: on this machine, and in no pod network."""
    found = {one["name"]: urlsplit(one["address"]).hostname for one in cluster.status()["processes"]}
    return found | {"kai-scheduler-default": found["scheduler"], SILENT: LOOPBACK}


def discovered(pods, where):
    """What a Prometheus knows of pods by the role ``pod``: a target for each port of a container."""
    return [
        {
            "targets": [f"{where[pod['metadata']['labels']['app']]}:{port['containerPort']}"],
            "labels": {
                "__meta_kubernetes_namespace": pod["metadata"]["namespace"],
                "__meta_kubernetes_pod_name": pod["metadata"]["name"],
                "__meta_kubernetes_pod_label_app": pod["metadata"]["labels"]["app"],
                "__meta_kubernetes_pod_container_port_name": port.get("name", ""),
            },
        }
        for pod in pods
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
    ]


def test_the_configuration_of_the_page_is_one(prometheus_program, job, tmp_path):
    del prometheus_program  # it is there, and what comes with it
    assert job[DISCOVERY] == [{"role": "pod", "namespaces": {"names": [HOME]}}]
    file = tmp_path / "prometheus.yml"
    file.write_text(as_yaml({"scrape_configs": [told_by_file(job, tmp_path / "pods.json")]}))
    command = [str(prometheus.program("promtool")), "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


async def test_a_prometheus_that_goes_by_the_page_scrapes_each_process_once(
    cluster, prometheus_program, job, tmp_path
):
    del prometheus_program  # it is there
    await until_ready(cluster)
    (namespace,) = job[DISCOVERY][0]["namespaces"]["names"]
    pods = await cluster.client.list(PODS, namespace=namespace)
    (tmp_path / "pods.json").write_text(json.dumps(discovered(pods, places(cluster))))
    expected = {
        (HOME, pod["metadata"]["labels"]["app"], pod["metadata"]["name"])
        for pod in pods
        if pod["metadata"]["labels"]["app"] != SILENT
    }
    assert len(expected) == 7
    with prometheus.running(tmp_path, jobs=[told_by_file(job, tmp_path / "pods.json")]) as server:
        await eventually(server.ready, what="prometheus answers")

        async def scraped():
            labels = ("namespace", "job", "pod")
            found = [sample.labels for sample in await server.query("up == 1")]
            return sorted(tuple(each.get(label) for label in labels) for each in found)

        await eventually(
            scraped, lambda found: found == sorted(expected), what=f"{expected} are scraped, each once"
        )
        down = await server.query("up == 0")
        assert down == []
        (leading,) = await server.query("kai_leading")
        assert (leading.labels["job"], leading.value) == ("kai-scheduler-default", 1.0)
