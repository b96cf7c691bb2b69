"""docs/contributing.md is right: what it shows, put where it says in a copy of the tree, works.

``services/tests/pod_grouper/test_adding_a_kind.py`` tries the kind; here is what follows from it elsewhere.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
COPIED = (
    "conftest.py",
    "deadlines.py",
    "derived.py",
    "pyproject.toml",
    "docs",
    "e2e",
    "helm",
    "libs",
    "services",
)
#: After which line a block goes that the page puts into a file that is there; in an empty place: at its end.
PLACES = {
    "PLUGINS": r"^PLUGINS: .*\{\n(?:.*\n)*?(?=\}\n)",
    "Weight": r"^    NUMA: .*\n",
    "ACTIONS": r"^ACTIONS: .*\(\n    \"allocate\",\n",
    "SchedulerMetrics": r"^        self\.cycle_latency = .*\n",
    "cycle": r"^        self\.cycles\.inc\(\)\n",
    "QueueSpec": r"^    parent_queue: .*\n",
    "spec": r"^            spec:\n(?:.*\n)*?              properties:\n",
    "": r"\Z",
}
#: How many files somebody has to edit for each kind of change; the third of a field is not shown.
FILES = {
    "A filter": 2,
    "A score": 2,
    "A workload kind": 2,
    "An action": 2,
    "A metric": 2,
    "A field of a custom resource": 2,
}
SHOWN = re.compile(
    r"^`(?P<path>[\w./-]+)`(?:, (?:in `(?P<place>\w+)`)?[^\n]*)?:\n\n```\w+\n(?P<block>.*?)```\n",
    re.MULTILINE | re.DOTALL,
)
#: Places pods that ask for no and for one GPU, and says where they went, or why not.
CYCLE = """
import json, sys
from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.engine import Engine, SchedulerConfig
from kai.snapshot.state import ClusterState, Kind

told = json.loads(sys.argv[1])
state = ClusterState()
state.apply(Kind.QUEUE, a_queue("team"))
for name, label in told["nodes"].items():
    state.apply(Kind.NODE, a_node(name, gpus=2, labels={label: ""} if label else {}))
for name, pod in told["pods"].items():
    state.apply(Kind.POD_GROUP, a_group(name, queue="team"))
    state.apply(Kind.POD, a_pod(name, group=name, **pod))
result = Engine(SchedulerConfig()).run(state, 1_900_000_000.0)
binds = {bind.pod.name: bind.node for bind in result.binds}
evictions = {each.pod.name: [each.action, each.message] for each in result.evictions}
reasons = " ".join(each.message for outcome in result.outcomes for each in outcome.explanations)
print(json.dumps([binds, evictions, reasons]))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with all that the page shows, and with what is derived from it."""
    root = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(source, target)
    shown = list(SHOWN.finditer((ROOT / "docs" / "contributing.md").read_text()))
    assert len(shown) == 14, [each["path"] for each in shown]
    for each in shown:
        put(root / each["path"], each["place"] or "", each["block"])
    run(root, "-m", "derived")
    return root


def put(path: Path, place: str, block: str) -> None:
    """Make the file, or put the block where it belongs in the one that is there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block)
        return
    text = path.read_text()
    found = re.search(PLACES[place], text, re.MULTILINE)
    assert found is not None, f"{path.name} has no {place}"
    path.write_text(text[: found.end()] + block + text[found.end() :])


def run(root: Path, *arguments: str, **environment: str) -> str:
    paths = os.pathsep.join(map(str, (root / "libs", root / "services", root)))
    environment = {**os.environ, "PYTHONPATH": paths, **environment}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cycle(
    root: Path, *, nodes: dict[str, str], pods: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any], str]:
    binds, evictions, reasons = json.loads(run(root, "-c", CYCLE, json.dumps({"nodes": nodes, "pods": pods})))
    return binds, evictions, reasons


def test_the_page_shows_all_kinds_of_change_and_each_needs_few_files() -> None:
    sections = (ROOT / "docs" / "contributing.md").read_text().split("\n## ")[1:]
    files = {
        section.partition("\n")[0]: len({each["path"] for each in SHOWN.finditer(section)})
        for section in sections
    }
    assert files == FILES


def test_all_tests_pass_that_the_page_names_for_changes_of_the_scheduler(
    tree: Path, helm_program: str
) -> None:
    """In one run; of those of the kind the one that has names of kinds, those of the field take minutes.

    Nothing that is shown has a section of values, and to take away each of all there are takes long.
    """
    sections = (ROOT / "docs" / "contributing.md").read_text().split("\n## ")
    named = [
        file
        for section in sections
        if section.startswith(("A filter\n", "A score\n", "An action\n", "A metric\n"))
        for command in re.findall(r"`pytest ([^`]*)`", section)
        for file in command.split()
    ]
    assert len(named) == 7, named
    path = os.pathsep.join((str(Path(helm_program).parent), os.environ["PATH"]))
    named.append("services/tests/pod_grouper/test_manifests.py")
    options = ("-q", "-p", "no:cacheprovider", "-k", "not a_section_that_is_taken_away")
    run(tree, "-m", "pytest", *options, *dict.fromkeys(named), PATH=path)


def test_what_the_page_shows_is_as_tidy_as_the_rest(tree: Path) -> None:
    shown = [each["path"] for each in SHOWN.finditer((ROOT / "docs" / "contributing.md").read_text())]
    modules = sorted({path for path in shown if path.endswith(".py")})
    run(tree, "-m", "ruff", "check", "--no-cache", *modules)
    run(tree, "-m", "ruff", "format", "--no-cache", "--check", *modules)


def test_the_filter_filters(tree: Path) -> None:
    label = "example.com/quarantine"
    binds, _, reasons = cycle(tree, nodes={"a": label}, pods={"plain": {}, "gpu": {"gpus": 1}})
    assert binds == {"plain": "a"}
    assert "node is in quarantine" in reasons


def test_the_score_decides_between_nodes_that_are_equal(tree: Path) -> None:
    label = "example.com/cool"
    for nodes in ({"a": label, "b": ""}, {"a": "", "b": label}):
        binds, _, _ = cycle(tree, nodes=nodes, pods={"gpu": {"gpus": 1}})
        assert nodes[binds["gpu"]] == label


def test_the_action_acts(tree: Path) -> None:
    nodes = {"a": "example.com/switch-off", "b": ""}
    pods = {"one": {"gpus": 1, "node": "a"}, "two": {"gpus": 1, "node": "b"}}
    _, evictions, _ = cycle(tree, nodes=nodes, pods=pods)
    assert evictions == {"one": ["drain", "pod default/one is evicted: its node is to be switched off"]}


def test_the_metric_is_told(tree: Path) -> None:
    code = """
from prometheus_client import CollectorRegistry, generate_latest
from kai.model.decisions import CycleResult
from kai_scheduler.metrics import SchedulerMetrics

metrics = SchedulerMetrics(registry := CollectorRegistry(), namespace="kai")
metrics.cycle(CycleResult(searches={("reclaim", "g", "r"): [0.1, 0.2]}), seconds=1)
print(generate_latest(registry).decode())
"""
    told = run(tree, "-c", code)
    assert "kai_searches_in_last_cycle 2.0" in told
    code = "from e2e.monitoring import documented; print(documented()['kai_searches_in_last_cycle'])"
    assert run(tree, "-c", code) == "Family(kind='gauge', labels=(), tellers=('scheduler',))\n"


def test_the_field_may_be_written_and_is_read(tree: Path) -> None:
    crd = yaml.safe_load((tree / "helm/kai-scheduler/crds/queues.scheduling.run.ai.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["contact"]["type"] == "string"
    code = """
import msgspec
from kai.model.objects import Queue

print(msgspec.convert({"metadata": {"name": "q"}, "spec": {"contact": "us"}}, Queue).spec.contact)
"""
    assert run(tree, "-c", code) == "us\n"


@pytest.mark.parametrize(
    ("path", "piece"),
    [
        ("docs/configuration.md", "| `quarantine` | 1650 | keeps pods with GPUs off nodes in quarantine |"),
        ("docs/configuration.md", "| `cool` | 1550 | nodes that are cool first |"),
        ("docs/pod-grouper.md", "| Crew | one gang of spec.size pods |"),
        ("docs/security.md", " crews.harbor.example.com,"),
        ("docs/security.md", " crews/finalizers.harbor.example.com,"),
        ("helm/kai-scheduler/values.schema.json", '"quarantine": {"type": "object"'),
        ("helm/kai-scheduler/values.schema.json", '"drain": {"$ref": "#/definitions/depth"}'),
        ("helm/kai-scheduler/templates/_workloads.tpl", "\nharbor.example.com: [crews]\n"),
    ],
)
def test_chart_and_pages_follow(tree: Path, path: str, piece: str) -> None:
    assert piece in (tree / path).read_text()


def test_what_is_derived_is_checked_in() -> None:
    from derived import PARTS

    behind = [
        name for name, change in PARTS if change((ROOT / name).read_text()) != (ROOT / name).read_text()
    ]
    assert not behind, "run `make derived` and commit these files"
