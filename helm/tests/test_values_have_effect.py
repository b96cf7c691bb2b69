"""No value of the chart is taken and ignored: each, changed alone, changes something that is made.

helm takes longer to start than to render, so one run renders the chart many times, as dependencies of one
chart that have values of their own. Most values reach a Config or a shard, so these are rendered first,
without the rest.
"""

import copy
import json
import re
import shutil

import yaml

from helm.tests.conftest import CHART, Rendered, operands
from kai.model.documents import load_written
from kai.operands import Facts, InvalidSpec, certificates_of, read_config
from kai.operands.facts import OPTIONAL_KINDS

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = load_written((CHART / "values.yaml").read_text())
FACTS = Facts(served=frozenset(OPTIONAL_KINDS))
APIS = ("kueue.x-k8s.io/v1beta1/Topology", "autoscaling.k8s.io/v1", "monitoring.coreos.com/v1")
CLIENT = {"k8sClientConfig": {"qps": 50, "burst": 70}}
#: All that a value may be about is switched on.
EVERYTHING = {
    "global": {"clusterAutoscaling": True, "gpuSharing": True, "vpa": {"enabled": True}},
    "operator": {"replicaCount": 2},
    "numaPlacementExporter": {"enabled": True},
    "redis": {"persistence": {"enabled": True}},
    "prometheus": {"enabled": True},
    "dashboards": {"enabled": True},
    "networkPolicy": {"egress": {"apiServerPorts": [6443]}},
    "insight": {"enabled": True},
    **{name: CLIENT for name, each in SCHEMA["properties"].items() if "k8sClientConfig" in str(each)},
}
#: What values by path, or by its beginning, need beside that to mean something.
ONLY_WITH = {
    "global.leaderElection": {"operator": {"replicaCount": 1}},
    "insight.externalSecret": {"insight": {"externalSecret": {"name": "own"}}},
    "insight.ingress": {"insight": {"ingress": {"enabled": True, "host": "page"}}},
    "insight.podDisruptionBudget": {"insight": {"replicas": 2, "externalSecret": {"name": "own"}}},
    "redis.externalSecret": {"redis": {"externalSecret": {"name": "own"}}},
    "redis.externalCa": {"redis": {"externalUrl": "rediss://user:secret@host:7777/1"}},
    "certificates.existing.caBundle": {"certificates": {"existing": {"enabled": True, "caBundle": "b2xk"}}},
    "certificates.existing.enabled": {"certificates": {"existing": {"caBundle": "b2xk"}}},
    "kaiConfig.render": {"kaiConfigDeployer": {"enabled": False}},
    "podgrouper.defaultPrioritiesConfigMap": {
        "podgrouper": {
            "defaultPrioritiesConfigMapName": "old",
            "defaultPrioritiesConfigMapNamespace": "old",
        }
    },
}
#: Values that are not just some text, number or object, by path or by its end.
OTHER = {
    "global.gpuSharing": False,
    "global.gpuSharingMode": "HamiCore",
    "global.fipsMode": "on",
    "global.imagePullSecrets": [{"name": "other"}],
    "binder.cdiEnabled": True,
    "scheduler.actions.allocate.priority": 7,
    "redis.externalUrl": "rediss://user:secret@host:7777/1",
    "redis.externalCa": "-----BEGIN CERTIFICATE-----\nother\n-----END CERTIFICATE-----",
    "redis.maxMemory": "77mb",
    "certificates.existing.caBundle": "bmV3",
    "prometheus.externalPrometheusUrl": "http://other:9090",
    "scheduler.usageDBConfig.connectionString": "redis://other:6379/0",
    "queuecontroller.queueLabelToMetricLabel": "other=label",
    "queuecontroller.queueLabelToDefaultMetricValue": "other=value",
    "insight.retention": "77d",
    ".extraParams": {"queryResolution": "77s"},
    ".tumblingWindowStartTime": "2026-01-01T00:00:00Z",
    ".cronString": "0 0 * * 0",
    ".claims": [{"name": "other"}],
    ".requests": {"cpu": "77m"},
    ".limits": {"cpu": "77m"},
    ".size": "77Gi",
    ".affinity": {"podAffinity": {}},
    ".securityContext": {"privileged": False},
    ".podSecurityContext": {"fsGroup": 77},
    ".updatePolicy": {"updateMode": "Off"},
    ".resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": "Off"}]},
    ".tolerations": [{"key": "other", "operator": "Exists"}],
    ".daemonsetsTolerations": [{"key": "other", "operator": "Exists"}],
    ".apiServerPorts": [77],
    ".dnsPorts": [77],
    ".more": [{"ports": [{"protocol": "TCP", "port": 77}]}],
    ".metricsFrom": [{"podSelector": {}}],
    ".grpcFrom": [{"podSelector": {}}],
    ".pageFrom": [{"podSelector": {}}],
    ".tls": [{"secretName": "other"}],
    ".reservationImages": ["other/image:1"],
    ".metricsBindAddress": ":7777",
    ".probeBindAddress": ":7777",
    # Tables that are given on as they are; one entry stands for all.
    ".args": {"log-level": "debug"},
    "scheduler.plugins": {"proportion": {"enabled": False}},
    "binder.plugins": {"volumebinding": {"enabled": False}},
}
#: Templates of what helm itself makes beside rights, policies and hooks.
OF_HELM = ("dashboards", "default-queues", "insight-ingress", "namespaces", "operator", "redis")
#: So many charts a run: more need not less time, but more memory.
AT_ONCE = 50
ALIAS = "chart-"


def leaves(schema, above=""):
    """Paths of all values with what the schema says of each."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    if "properties" not in schema or above.endswith((".args", ".plugins")):
        yield above, schema
        return
    for key, each in schema["properties"].items():
        yield from leaves(each, f"{above}.{key}" if above else key)


def refused():
    """Paths of what is refused with a sentence; that it is, is tested with the sentences."""
    return tuple(re.findall(r"\{path: ([^,]+),", (CHART / "templates" / "_refusals.tpl").read_text()))


def merged(values, more):
    result = copy.deepcopy(values)
    for key, each in more.items():
        both = isinstance(each, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], each) if both else each
    return result


def now(values, path):
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def another(path, schema, current):
    """A value that differs from the current one."""
    for known, value in OTHER.items():
        if path == known or (known.startswith(".") and path.endswith(known)):
            return value
    if "enum" in schema:
        return next(each for each in schema["enum"] if each not in (current, ""))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "boolean" in kinds:
        return current is False
    if "integer" in kinds and "pattern" not in schema:
        return 7777
    if "number" in kinds:
        return 0.5
    if "object" in kinds:
        return {"other": "x"}
    if "ns|us" in schema.get("pattern", ""):
        return "77s"
    return "/other" if schema.get("pattern", "").startswith("^(/") else "other"


def nested(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def with_context(path):
    more = next((each for start, each in ONLY_WITH.items() if path.startswith(start)), {})
    return merged(EVERYTHING, more)


class Renderer:
    """Renders the chart without the templates that are left out, with many values at once."""

    def __init__(self, helm, folder, *, left_out):
        self.helm = helm
        self.folder = folder
        shutil.copytree(CHART, folder / "charts" / CHART.name, ignore=shutil.ignore_patterns(*left_out))

    def render(self, every):
        """What each of the values gives: documents of helm."""
        made = []
        for first in range(0, len(every), AT_ONCE):
            made += self._render(every[first : first + AT_ONCE])
        return made

    def _render(self, every):
        aliases = [f"{ALIAS}{number:04}" for number in range(len(every))]
        dependencies = [{"name": CHART.name, "version": "*", "alias": alias} for alias in aliases]
        chart = {"apiVersion": "v2", "name": "many", "version": "0.0.0", "dependencies": dependencies}
        (self.folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
        arguments = [each for api in APIS for each in ("--api-versions", api)]
        values = self.folder / "all.json"
        values.write_text(json.dumps(dict(zip(aliases, every, strict=True))))
        text = self.helm.text(*arguments, "--values", str(values), chart=self.folder)
        found = {alias: [] for alias in aliases}
        for document in text.split("---\n# Source: many/charts/")[1:]:
            alias, _, rest = document.partition("/")
            found[alias].append(f"# {rest.replace(alias, CHART.name)}")
        return list(found.values())


def of_operator(documents):
    """What the operator makes of Config and shards, and how long certificates last; or its refusal."""
    loaded = [load_written(each) for each in documents]
    objects = Rendered(each for each in loaded if each)
    if not objects.of("Config"):
        return "no Config"
    try:
        config = read_config(objects.one("Config", "kai-config"))
        return certificates_of(config), config.certificates, operands(objects, FACTS)
    except InvalidSpec as error:
        return str(error)


def test_every_value_changes_something_that_is_made(helm, tmp_path):
    found = {}
    for path, schema in leaves(SCHEMA):
        if path in OTHER or not path.startswith(refused()):
            before = with_context(path)
            value = another(path, schema, now(merged(DEFAULTS, before), path))
            found[path] = (before, merged(before, nested(path, value)))

    for number, (left_out, made) in enumerate(PASSES):
        renderer = Renderer(helm, tmp_path / str(number), left_out=left_out)
        silent = unchanged(renderer, found, made)
        found = {path: found[path] for path in silent}
    assert list(found) == []


def others(documents):
    """What helm itself makes beside Config and shards."""
    operators = re.compile(r"^kind: (Config|SchedulingShard)$", re.MULTILINE)
    return [each for each in documents if not operators.search(each)]


def unchanged(renderer, found, made):
    """Those of the paths whose values before and after give the same."""
    contexts = list({json.dumps(before): before for before, _ in found.values()}.values())
    rendered = renderer.render([*contexts, *(after for _, after in found.values())])
    usual = {json.dumps(each): made(rendered[number]) for number, each in enumerate(contexts)}
    after = zip(found.items(), rendered[len(contexts) :], strict=True)
    return [path for (path, (before, _)), documents in after if made(documents) == usual[json.dumps(before)]]


#: What is left out, and what is compared; the last takes by far the longest for each value. The first has the
#: schema take all of them.
PASSES = (
    (("policies", "rbac", "hooks", *(f"{each}.yaml" for each in OF_HELM)), of_operator),
    (("policies", "rbac", "values.schema.json"), others),
    (("values.schema.json",), others),
)
