"""A real helm, what it makes of the chart, and what the operator makes of that."""

import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from kai.operands import (
    Facts,
    certificates_of,
    operands_of_config,
    operands_of_shard,
    read_config,
    read_shard,
)
from kai_cli.new_secrets import new_secrets

CHART = Path(__file__).resolve().parents[1] / "kai-scheduler"


class Rendered(list):
    """Rendered objects, as dicts."""

    def of(self, kind: str) -> dict[str, dict]:
        """Objects of one kind by name."""
        return {o["metadata"]["name"]: o for o in self if o["kind"] == kind}

    def one(self, kind: str, name: str) -> dict:
        """The object of this kind and name; a KeyError lists those that there are."""
        found = self.of(kind)
        if name not in found:
            raise KeyError(f"no {kind} {name}; there are {sorted(found)}")
        return found[name]

    def flags(self, deployment: str) -> list[str]:
        """The flags of a Deployment's container."""
        (container,) = self.one("Deployment", deployment)["spec"]["template"]["spec"]["containers"]
        return container["args"]


class Helm:
    """The chart as helm sees it."""

    def __init__(self, program: str) -> None:
        self.program = program

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)

    def text(
        self,
        *arguments: str,
        values: dict | None = None,
        namespace: str = "kai-scheduler",
        chart: Path = CHART,
    ) -> str:
        """Everything rendered, in one text; fails with what helm says."""
        result = self.template(*arguments, values=values, namespace=namespace, chart=chart)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def chart(
        self,
        *arguments: str,
        values: dict | None = None,
        namespace: str = "kai-scheduler",
        chart: Path = CHART,
    ) -> Rendered:
        """What helm itself puts into a cluster."""
        text = self.text(*arguments, values=values, namespace=namespace, chart=chart)
        return Rendered(documents(text))

    def render(
        self, *arguments: str, values: dict | None = None, namespace: str = "kai-scheduler", **facts: object
    ) -> Rendered:
        """The whole installation: what helm puts into a cluster, and what the operator makes of it there."""
        chart = self.chart(*arguments, values=values, namespace=namespace)
        return Rendered([*chart, *operands(chart, Facts(**facts))])

    def template(
        self,
        *arguments: str,
        values: dict | None = None,
        namespace: str = "kai-scheduler",
        chart: Path = CHART,
    ) -> subprocess.CompletedProcess[str]:
        command = [self.program, "template", "kai", str(chart), "--namespace", namespace]
        command += ["--kube-version", "1.34.0", "--values", "-", *arguments]
        result = subprocess.run(
            command, input=yaml.safe_dump(values or {}), capture_output=True, text=True, check=False
        )
        result.stderr = in_one_wording(result.stderr)
        return result


def documents(text: str) -> list[dict]:
    """The objects of a stream, read by the loader in C: the one in Python takes longer than helm."""
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each is not None]


def in_one_wording(refusal: str) -> str:
    """What helm says of values that a schema refuses, as before 3.18: ``a.b`` for ``at '/a/b'``."""
    dotted = re.sub(r"at '/([^']*)'", lambda found: found[1].replace("/", "."), refusal)
    return re.sub(r"additional properties '(\w+)' not allowed", r"\1 is not allowed", dotted)


def operands(chart: Rendered, facts: Facts = Facts()) -> list[dict]:  # noqa: B008 (frozen)
    """What the operator makes of the Config and the shards of a chart, secrets and all."""
    if "kai-config" not in chart.of("Config"):
        return []
    config = read_config(chart.one("Config", "kai-config"))
    shards = [read_shard(each, config) for each in chart.of("SchedulingShard").values()]
    secrets, trust = certified(config)
    facts = replace(facts, trust=trust)
    made = [*secrets, *operands_of_config(config, facts, shards)]
    for shard in shards:
        made += operands_of_shard(config, shard, facts)
    return made


_CERTIFIED: dict[str, tuple[list[dict], dict[str, str]]] = {}


def certified(config):
    """Secrets that the operator would make for a Config, and whom they are trusted by; made once."""
    tls = config.everywhere.tls.enabled
    key = repr((config.namespace, certificates_of(config), config.redis.ours, config.redis.port, tls))
    if key not in _CERTIFIED:
        _CERTIFIED[key] = new_secrets(config, now=datetime.now(UTC))
    return _CERTIFIED[key]


@pytest.fixture(scope="session")
def helm(helm_program: str) -> Helm:
    return Helm(helm_program)
