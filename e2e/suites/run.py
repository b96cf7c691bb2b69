"""One suite in Go, run by ``go test``, and what its JUnit report says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

SUITES: Final = Path("test") / "e2e" / "suites"
#: What needs other clusters: of many nodes, of another release, or with Argo CD.
LEFT_OUT: Final = "!autoscale && !scale && !upgrade && !gitops"
#: To build a suite, beside the time that its specs have.
BUILD_SECONDS: Final = 1200
_SHOWN_LINES: Final = 20
_SPEC: Final = "[It] "


class NoSources(Exception):
    """The folder is not one with the sources of the KAI Scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What became of one suite; ``problem`` says why there is no report."""

    name: str
    passed: int = 0
    skipped: int = 0
    #: Spec -> the first line of what it said.
    failed: dict[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def well(self) -> bool:
        """Whether all that ran passed."""
        return not self.failed and not self.problem


def suites_in(sources: Path, wanted: Sequence[str] = ()) -> list[str]:
    """Folders with suites below ``test/e2e/suites``: all, or those that begin with one of ``wanted``.

    Raises:
        NoSources: there is none.
    """
    root = sources / SUITES
    folders = {path.parent for path in root.rglob("*_test.go") if "RunSpecs(" in path.read_text()}
    names = sorted(str(folder.relative_to(root)) for folder in folders)
    found = [name for name in names if not wanted or name.startswith(tuple(wanted))]
    if not found:
        which = f" that begins with {' or '.join(wanted)}" if wanted and names else ""
        raise NoSources(
            f"{root} has no suite{which}; SOURCES is to be a checkout of kai-scheduler/KAI-Scheduler"
        )
    return found


def run(suite: str, sources: Path, kubeconfig: Path, out: Path, *, seconds: int) -> Suite:
    """Build and run one suite; its output and its report go to ``out``."""
    name = suite.replace("/", "-")
    report, log = out / f"{name}.xml", out / f"{name}.log"
    report.unlink(missing_ok=True)
    command = [
        *("go", "test", "-vet=off", "-count=1", f"-timeout={seconds + 60}s", f"./{SUITES / suite}", "-args"),
        f"--ginkgo.label-filter={LEFT_OUT}",
        f"--ginkgo.timeout={seconds}s",
        f"--ginkgo.junit-report={report.resolve()}",
    ]
    environment = os.environ | {"KUBECONFIG": str(kubeconfig.resolve())}
    limit = seconds + 120 + BUILD_SECONDS
    with log.open("w") as output:
        try:
            subprocess.run(
                command,
                cwd=sources,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=limit,
                check=False,
            )
        except FileNotFoundError:
            return Suite(name=suite, problem="there is no go on the PATH; install Go")
        except subprocess.TimeoutExpired:
            return Suite(name=suite, problem=f"it did not end within {limit} s")
    if not report.exists():
        lines = log.read_text().splitlines()[-_SHOWN_LINES:]
        return Suite(name=suite, problem="it wrote no report:\n" + "\n".join(lines))
    return read(suite, report)


def read(suite: str, report: Path) -> Suite:
    """What a report says of specs; what is run around them is told where it fails."""
    passed, skipped, failed = 0, 0, {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name, is_spec = case.get("name", ""), case.get("name", "").startswith(_SPEC)
        trouble = case.find("failure") if case.find("failure") is not None else case.find("error")
        if trouble is not None:
            said = (trouble.get("message") or trouble.text or "").strip()
            failed[name.removeprefix(_SPEC)] = said.partition("\n")[0]
        elif is_spec and case.find("skipped") is not None:
            skipped += 1
        elif is_spec:
            passed += 1
    return Suite(name=suite, passed=passed, skipped=skipped, failed=failed)


def table(suites: Iterable[Suite]) -> str:
    """A table in Markdown, and below it what failed."""
    lines = ["| suite | passed | failed | skipped |", "|---|---|---|---|"]
    below: list[str] = []
    for each in suites:
        if each.problem:
            lines.append(f"| `{each.name}` | – | – | – |")
            below += ["", f"`{each.name}` did not run: {each.problem}"]
            continue
        lines.append(f"| `{each.name}` | {each.passed} | {len(each.failed)} | {each.skipped} |")
        if each.failed:
            below += ["", f"`{each.name}`:", ""]
            below += [f"* {spec}: {said}" for spec, said in each.failed.items()]
    return "\n".join([*lines, *below])
