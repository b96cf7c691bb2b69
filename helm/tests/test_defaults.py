"""What the chart starts without any values is what every other way to run us starts.

Where a way differs on purpose, docs/configuration.md has a row that says why; nothing else may differ.
"""

import importlib
import os
import re
from pathlib import Path
from unittest import mock

import pytest

from kai.config.plugin_table import DEFAULT_PLUGINS, PLUGINS
from kai.engine import SchedulerConfig
from kai.model.documents import load_written
from kai.operands import read_config
from kai.runtime import ServiceSettings
from kai_admission.settings import AdmissionSettings
from kai_local.box.options import ClusterOptions
from kai_local.box.options import suite_options as of_cluster
from kai_local.installation import bootstrap
from kai_local.installation.chart import chart_values
from kai_local.services.run import RunOptions
from kai_local.services.run import suite_options as of_run
from kai_local.services.suite import SERVICES, USUAL, plan

ROOT = Path(__file__).resolve().parents[2]
#: Settings that say where something is, which is another place for each way.
PLACES = {
    "redis_ca",
    "redis_password_file",
    "redis_server_name",
    "advertise_host",
    "cert_dir",
    "context",
    "grpc_listen",
    "health_listen",
    "kubeconfig",
    "metrics_listen",
    "plugin_server_port",
    "redis_url",
    "resource_reservation_pod_image",
    "scheduler_conf",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "webhook_addr",
    "webhook_listen",
}
#: Settings of which a property says what they come to.
EFFECTIVE = {"gpu_fraction_runtime_class_name": "runtime_class"}
WAYS = ("kai local up", "--chart, --real", "kai run", "docker compose")


def written_configuration(objects) -> str:
    return objects.one("ConfigMap", "kai-scheduler-default")["data"]["config.yaml"]


# --- the scheduler's configuration ---------------------------------------------------------------------
def test_the_charts_configuration_is_the_built_in_one(helm):
    text = written_configuration(helm.render())
    assert SchedulerConfig.parse(text) == SchedulerConfig()
    assert SchedulerConfig.parse(text).notes == ()


def test_the_chart_knows_every_plugin_by_its_priority(helm):
    """A plugin that a user gives a priority comes where the table says."""
    values = {"scheduler": {"plugins": {"numa": {"priority": 1450}, "ray": {"priority": 1850}}}}
    tiers = load_written(written_configuration(helm.render(values=values)))["tiers"]
    by_priority = {name: PLUGINS[name].priority for name in DEFAULT_PLUGINS} | {"numa": 1450, "ray": 1850}
    expected = sorted(by_priority, key=by_priority.get, reverse=True)
    assert [plugin["name"] for plugin in tiers[0]["plugins"]] == expected


# --- settings of all services --------------------------------------------------------------------------
def settings(module, arguments, environment) -> dict[str, object]:
    """What a service makes of its flags and environment, without those that only say where something is."""
    found = importlib.import_module(f"{module}.settings")
    (kind,) = (
        each
        for each in vars(found).values()
        if isinstance(each, type) and issubclass(each, ServiceSettings) and each.__module__ == found.__name__
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KAI_")}
    with mock.patch.dict(os.environ, kept | dict(environment), clear=True):
        parsed = kind.parse(list(arguments))
    compared = [name for name in kind.model_fields if name not in PLACES]
    return {name: getattr(parsed, EFFECTIVE.get(name, name)) for name in compared}


def by_chart(helm, values) -> dict[str, dict[str, object]]:
    found = {}
    for deployment in helm.render(values=values).of("Deployment").values():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        command = container["command"]
        # The operator runs where there is a chart, and nowhere else.
        if command[:2] == ["python", "-m"] and command[2].startswith("kai_") and command[2] != "kai_operator":
            environment = {
                entry["name"]: entry["value"] for entry in container.get("env") or () if "value" in entry
            }
            found[command[2]] = settings(command[2], container["args"], environment)
    return found


def by_suite(options) -> dict[str, dict[str, object]]:
    found = {}
    for program in plan(options).programs:
        _, _, module, *arguments = program.command
        found[module] = settings(module, arguments, program.environment)
    return found


def by_compose() -> dict[str, dict[str, object]]:
    def filled(text) -> str:
        return re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", str(text))

    services = load_written((ROOT / "docker-compose.yml").read_text())["services"]
    found = {}
    for name in USUAL:
        _, _, module, *arguments = (filled(word) for word in services[name]["command"])
        environment = {key: filled(value) for key, value in services[name]["environment"].items()}
        found[module] = settings(module, arguments, environment)
    return found


@pytest.fixture(scope="module")
def started(helm):
    """For each way what each service is started with, and for the chart without values."""
    cluster = of_cluster(
        ClusterOptions(name="x"),
        kubeconfig=Path("/k"),
        redis_url="redis://h/0",
        certificates=Path("/c"),
        history=Path("/h"),
    )
    return {
        "chart": by_chart(helm, {}),
        "kai local up": by_suite(cluster),
        "--chart, --real": by_chart(helm, chart_values(binders=1, flags={})),
        "kai run": by_suite(of_run(RunOptions(webhooks=True), Path("/c"))),
        "docker compose": by_compose(),
    }


def written(value) -> str:
    """As the table has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}s" if isinstance(value, float) else str(value)


def table_of_differences() -> list[dict[str, str]]:
    """The rows of the table in docs/configuration.md whose columns are the ways."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    header = next(number for number, line in enumerate(lines) if "| chart | kai local up |" in line)
    titles = cells(lines[header])
    rows = []
    for line in lines[header + 2 :]:
        if len(cells(line)) != len(titles):
            break
        rows.append(dict(zip(titles, cells(line), strict=True)))
    return rows


def cells(line) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def test_every_way_starts_every_service_alike_but_for_what_the_documentation_names(started):
    modules = {SERVICES[name].module for name in USUAL}
    assert all(found.keys() == modules for found in started.values())
    differing = set()
    for module, name in ((module, name) for module, found in started["chart"].items() for name in found):
        values = {way: written(found[module][name]) for way, found in started.items()}
        if len(set(values.values())) > 1:
            differing.add((name, *values.values()))
    named = {(row["setting"], *(row[way] for way in ("chart", *WAYS))) for row in table_of_differences()}
    assert differing == named
    assert all(row["why"] for row in table_of_differences())


# --- what an installation leaves -----------------------------------------------------------------------
def test_other_installations_leave_the_queues_and_priority_classes_of_the_chart(helm):
    objects = helm.render()
    queues = {name: queue["spec"] for name, queue in objects.of("Queue").items()}
    assert {q["metadata"]["name"]: q["spec"] for q in bootstrap.default_queues()} == queues
    classes = {name: (c["value"], c["description"]) for name, c in objects.of("PriorityClass").items()}
    ours = {c["metadata"]["name"]: (c["value"], c["description"]) for c in bootstrap.priority_classes()}
    assert ours == classes


# --- what two services must see alike ------------------------------------------------------------------
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"global": {"resourceReservation": {"namespace": "gpus"}}},
        {"nodescaleadjuster": {"scalingPodNamespace": "scaling"}},
    ],
    ids=["defaults", "values", "scaling elsewhere"],
)
def test_admission_gives_priorities_of_the_system_to_the_namespaces_to_which_the_scheduler_does(helm, values):
    """Or reservation pods elsewhere could not be made."""
    started = by_chart(helm, values)
    keys = ("namespace", "resource_reservation_namespace", "scale_adjust_namespace")
    admission, scheduler = (
        [started[each][key] for key in keys] for each in ("kai_admission", "kai_scheduler")
    )
    assert admission == scheduler
    facts = AdmissionSettings(**dict(zip(keys, admission, strict=True))).known_names
    assert set(facts.system_namespaces) == {"kube-system", *scheduler}


@pytest.mark.parametrize(
    ("certificates", "before"),
    [
        ({}, "2928h"),
        ({"validDays": 90}, "720h"),
        ({"validDays": 90, "renewAfterDays": 80}, "240h"),
        ({"validDays": 1}, "8h"),
        ({"validDays": 1, "renewAfterDays": 1}, "8h"),
    ],
)
def test_certificates_are_renewed_well_before_they_end(helm, certificates, before):
    """Who shortens their time alone need not know after how long a longer one is renewed."""
    config = helm.chart(values={"certificates": certificates}).one("Config", "kai-config")
    assert config["spec"]["certificates"]["renewBefore"] == before
    read_config(config)
