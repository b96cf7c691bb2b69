"""A real helm, and what it makes of the chart."""

import subprocess
from pathlib import Path

import pytest
import yaml

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

    def text(self, *arguments: str, values: dict | None = None, namespace: str = "kai-scheduler") -> str:
        """Everything rendered, in one text; fails with what helm says."""
        result = self.template(*arguments, values=values, namespace=namespace)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def render(
        self, *arguments: str, values: dict | None = None, namespace: str = "kai-scheduler"
    ) -> Rendered:
        text = self.text(*arguments, values=values, namespace=namespace)
        return Rendered(o for o in yaml.safe_load_all(text) if o is not None)

    def template(
        self, *arguments: str, values: dict | None = None, namespace: str = "kai-scheduler"
    ) -> subprocess.CompletedProcess[str]:
        command = [self.program, "template", "kai", str(CHART), "--namespace", namespace]
        command += ["--kube-version", "1.34.0", "--values", "-", *arguments]
        return subprocess.run(
            command, input=yaml.safe_dump(values or {}), capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="session")
def helm(helm_program: str) -> Helm:
    return Helm(helm_program)
