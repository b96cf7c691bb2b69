"""A plugin of another package is found by its entry point; docs/plugins.md has the one used here."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from kai.config import DEFAULT_OPTIONS, installed
from kai.config.arguments import ConfigError
from kai.engine import Engine, SchedulerConfig, framework, neighbourhood, plugins
from kai.engine.framework import handle, protocols, victims
from kai.replay import config as replayed
from libs.tests.engine.builders import NOW, a_group, a_job, a_node, a_pod, a_queue, a_state, add

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "plugins.md").read_text()


def block(language: str, number: int = 1) -> str:
    """A block of the page in a language."""
    return PAGE.split(f"```{language}\n")[number].partition("```")[0]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    installed._installed.cache_clear()
    before = set(sys.modules)
    yield tmp_path
    installed._installed.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("example_"):
            del sys.modules[name]


def install(site: Path, package: str, code: str, entry: str) -> None:
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kai.plugins]\n{entry}\n")


@pytest.fixture
def quiet(site: Path) -> None:
    """The package of the page."""
    _, entry = block("toml").strip().splitlines()
    install(site, "example_quiet", block("python"), entry.replace('"', ""))


def named(name: str, arguments: str = "{}") -> str:
    ours = "".join(f"  - {{name: {each.name}}}\n" for each in DEFAULT_OPTIONS)
    return f"tiers:\n- plugins:\n{ours}  - {{name: {name}, arguments: {arguments}}}\n"


def place(config: SchedulerConfig) -> tuple[dict[str, str], str]:
    """Where a pod without GPUs goes if the better node is quiet, and what its group is told."""
    state = a_state(
        a_node("a", gpus=0, labels={"example.com/quiet": ""}),
        a_node("b", gpus=8, labels={"example.com/spare": ""}),
        a_group("job", queue="team"),
        a_pod("job", group="job"),
    )
    result = Engine(config).run(state, NOW)
    told = [each.message for outcome in result.outcomes for each in outcome.explanations]
    return {bind.pod.name: bind.node for bind in result.binds}, "".join(told)


@pytest.mark.usefixtures("quiet")
def test_the_plugin_of_the_page_filters_nodes() -> None:
    assert place(SchedulerConfig()) == ({"job": "a"}, "")
    assert place(SchedulerConfig.parse(named("example.quiet")))[0] == {"job": "b"}


@pytest.mark.usefixtures("quiet")
def test_its_arguments_are_read_with_their_types_and_its_reason_is_told() -> None:
    text = named("example.quiet", '{labels: "example.com/quiet, example.com/spare"}')
    binds, told = place(SchedulerConfig.parse(text))
    assert not binds
    assert "node is kept quiet" in told


@pytest.mark.usefixtures("quiet")
def test_an_argument_that_it_does_not_have_is_refused_when_the_configuration_is_loaded() -> None:
    with pytest.raises(ConfigError, match=r"'lables'.*did you mean 'labels'"):
        SchedulerConfig.parse(named("example.quiet", "{lables: x}"))


@pytest.mark.usefixtures("quiet")
def test_a_snapshot_file_brings_it_along_by_name() -> None:
    config = SchedulerConfig.parse(named("example.quiet", "{labels: x}"))
    again, notes = replayed.read(replayed.document(config), config.params)
    assert not notes
    assert again.plugins == config.plugins


@pytest.mark.usefixtures("quiet")
def test_a_name_that_no_package_has_is_refused_with_the_nearest_that_is_installed() -> None:
    with pytest.raises(ConfigError, match=r"unknown plugin 'example.quite'.*did you mean 'example.quiet'"):
        SchedulerConfig.parse(named("example.quite"))


def test_where_none_is_installed_that_is_said(site: Path) -> None:
    assert site.exists()
    with pytest.raises(ConfigError, match=r"'example.quiet'; no installed package has an entry point"):
        SchedulerConfig.parse(named("example.quiet"))


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import nothing_of_the_kind", r"cannot be loaded from example_bad:plugin: ModuleNotFoundError"),
        ("plugin = 3", r"example_bad:plugin is 3; it must be a PluginSpec"),
        (
            "from kai.engine.framework import PluginSpec\nplugin = PluginSpec(priority=1, meaning='first')",
            r"example_bad:plugin has a priority; leave it out",
        ),
    ],
)
def test_one_that_cannot_be_used_is_named_with_its_place(site: Path, code: str, problem: str) -> None:
    install(site, "example_bad", code, "example.bad = example_bad:plugin")
    with pytest.raises(ConfigError, match=problem):
        SchedulerConfig.parse(named("example.bad"))


@pytest.mark.usefixtures("quiet")
def test_two_packages_with_one_name_are_refused(site: Path) -> None:
    install(site, "example_other", block("python"), "example.quiet = example_other:plugin")
    with pytest.raises(ConfigError, match="in several packages: example_other:plugin, example_quiet:plugin"):
        SchedulerConfig.parse(named("example.quiet"))


def test_a_configuration_without_one_looks_through_no_packages() -> None:
    with mock.patch.object(installed, "entry_points", side_effect=AssertionError):
        config = SchedulerConfig.parse(named("numa"))
        assert place(config)[0] == {"job": "a"}
        with pytest.raises(ConfigError, match="did you mean 'elastic'"):
            SchedulerConfig.parse(named("elastc"))


def test_its_pods_may_be_ranked_by_a_label_of_its_own(site: Path) -> None:
    code = (
        "from kai.engine.framework import LabelRank, PluginSpec\n"
        "rank = LabelRank('example.com/first', lambda told: 0 if told else 1)\n"
        "plugin = PluginSpec(meaning='pods with a label first', ranks=rank)\n"
    )
    install(site, "example_rank", code, "example.rank = example_rank:plugin")

    def first(config: SchedulerConfig) -> list[str]:
        state = a_state(a_node("n", gpus=1), a_group("job", queue="team"))
        for age, name in enumerate("az"):
            labels = {"example.com/first": "yes"} if name == "z" else None
            add(state, a_pod(name, group="job", gpus=1, created=age, labels=labels))
        return [bind.pod.name for bind in Engine(config).run(state, NOW).binds]

    assert first(SchedulerConfig()) == ["a"]
    assert first(SchedulerConfig.parse(named("example.rank"))) == ["z"]


_SHIELD = """
from kai.engine.framework import PluginSpec, VictimPolicy, VictimRules

class Shield(VictimPolicy):
    def rules(self, search):
        if search.action != "reclaim":
            return None
        return VictimRules({part}={function})

plugin = PluginSpec(meaning="jobs of a name are safe", opener=lambda handle: (Shield(),))
"""


@pytest.mark.parametrize(
    ("part", "function"),
    [
        ("accepts", "lambda job: job.name != 'safe'"),
        ("most_of", "lambda victims: [each for each in victims if each.job.name != 'safe']"),
        ("allows", "lambda victims: all(each.job.name != 'safe' for each in victims)"),
    ],
)
def test_it_may_have_a_say_in_who_gives_up_a_place(site: Path, part: str, function: str) -> None:
    code = _SHIELD.replace("{part}", part).replace("{function}", function)
    install(site, "example_shield", code, "example.shield = example_shield:plugin")

    def evicted(config: SchedulerConfig) -> list[str]:
        state = a_state(a_queue("much", gpu=0), a_queue("none", gpu=1), a_job("waits", queue="none", gpus=1))
        for created, name in enumerate(("open", "safe")):
            node = a_node(f"of-{name}", gpus=1)
            add(state, node, a_job(name, queue="much", gpus=1, created=created, on=f"of-{name}"))
        return [each.pod.name for each in Engine(config).run(state, NOW).evictions]

    assert evicted(SchedulerConfig()) == ["safe-0"]
    assert evicted(SchedulerConfig.parse(named("example.shield"))) == ["open-0"]


def test_it_may_rank_jobs_and_say_who_may_be_a_victim_as_the_page_shows(site: Path) -> None:
    install(site, "example_spot", block("python", 2), "example.spot = example_spot:plugin")

    def decided(config: SchedulerConfig) -> tuple[list[str], list[str]]:
        """Who is evicted for an urgent job, and which job comes last in order."""
        state = a_state(
            a_queue("team", gpu=3), a_node("n", gpus=2), a_job("urgent", priority="build", gpus=1)
        )
        for created, name in enumerate(("spot", "steady")):
            labels = {"example.com/spot": ""} if name == "spot" else None
            add(state, a_job(name, gpus=1, created=created, on="n", labels=labels))
            add(state, a_job(f"{name}-waits", gpus=1, created=created, labels=labels))
        engine = Engine(config)
        evicted = [each.pod.name for each in engine.run(state, NOW).evictions]
        order = engine.job_order(state)
        assert order is not None
        return evicted, [each.id for each in order.global_order if each.id.endswith("waits")]

    order = ["default/spot-waits", "default/steady-waits"]
    assert decided(SchedulerConfig()) == (["steady-0"], order)
    assert decided(SchedulerConfig.parse(named("example.spot"))) == (["spot-0"], order[::-1])


_HALVES = """
from kai.engine.framework import NodeSets, PluginSpec


class Halves(NodeSets):
    def subsets(self, job, member, tasks, *, nodes, extra):
        return [(nodes, extra)]

    def required(self, constraint):
        return None


plugin = PluginSpec(meaning="halves of the cluster", node_sets=TOLD, opener=lambda handle: (Halves(),))
"""


def test_one_plugin_at_most_chooses_sets_of_nodes(site: Path) -> None:
    install(site, "example_halves", _HALVES.replace("TOLD", "True"), "example.halves = example_halves:plugin")
    message = "plugins 'topology' and 'example.halves' both choose sets of nodes for groups; leave one of"
    with pytest.raises(ConfigError, match=message):
        SchedulerConfig.parse(named("example.halves"))
    alone = SchedulerConfig.parse("tiers: [{plugins: [{name: example.halves}]}]")
    assert place(alone)[0] == {"job": "a"}


def test_a_plugin_that_does_not_tell_that_it_chooses_them_is_told_to(site: Path) -> None:
    install(
        site, "example_halves", _HALVES.replace("TOLD", "False"), "example.halves = example_halves:plugin"
    )
    with pytest.raises(ConfigError, match=r"'example\.halves' .*; write node_sets=True there"):
        place(SchedulerConfig.parse(named("example.halves")))


@pytest.mark.parametrize("module", [protocols, handle, victims], ids=lambda module: module.__name__)
def test_all_types_of_what_a_plugin_is_given_and_returns_come_from_one_place(module: ModuleType) -> None:
    """A name that a module of the contract imports from us is one of which it speaks."""
    assert module.__file__ is not None
    spoken_of = {
        each.name
        for node in ast.parse(Path(module.__file__).read_text()).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kai.")
        for each in node.names
    }
    assert spoken_of - set(framework.__all__) == set()


def test_a_plugin_sees_nothing_that_none_of_ours_reads() -> None:
    read = {
        node.attr
        for room in (plugins, neighbourhood)
        for path in Path(room.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("handle")
    }
    assert {each.name for each in fields(handle.Handle)} == read


_CURFEW = """
from kai.engine.framework import Handle, Job, Node, Opener, PluginSpec, Quota, Reason, Task, Unschedulable


class Curfew(Quota):
    def unbounded(self, job: Job) -> bool:
        return job.name != "late"

    def refuse(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        return None if self.unbounded(job) else Unschedulable(Reason.OVER_LIMIT, "it comes too late")

    def refuse_on(self, job: Job, task: Task, node: Node) -> Unschedulable | None:
        return None

    def refuse_for_good(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        return None


def opened(handle: Handle) -> list[Curfew]:
    return [Curfew()]


opener: Opener = opened
plugin = PluginSpec(meaning="no place for jobs that come late", opener=opener)
"""

_BUSY = """
import numpy as np

from kai.engine.framework import Floats, Handle, Mask, Node, PluginSpec
from kai.engine.framework import Scorer, Task, TaskClass, Tracker, Weight


class Busy(Scorer, Tracker):
    def __init__(self, handle: Handle) -> None:
        self.placements: list[tuple[int, int]] = []
        self.nodes = len(handle.nodes.nodes)

    def concerns(self, cls: TaskClass) -> bool:
        return True

    def score(self, task: Task, able: Mask) -> Floats | None:
        told = np.zeros(self.nodes)
        for row, count in self.placements:
            told[row] -= count * Weight.PREFERENCE
        return told

    def placed(self, task: Task, node: Node) -> None:
        self.placements.append((node.row, 1))

    def evicted(self, task: Task, node: Node) -> None:
        self.placements.append((node.row, -1))

    stays = placed

    def mark(self) -> int:
        return len(self.placements)

    def undo(self, mark: int) -> None:
        del self.placements[mark:]


plugin = PluginSpec(meaning="the next pod goes elsewhere", opener=lambda handle: (Busy(handle),))
"""


def test_a_quota_says_with_a_reason_what_a_job_may_not_have(site: Path) -> None:
    install(site, "example_curfew", _CURFEW, "example.curfew = example_curfew:plugin")

    def told(config: SchedulerConfig) -> tuple[list[str], dict[str, str]]:
        state = a_state(a_node("n", gpus=2), a_job("early", gpus=1), a_job("late", gpus=1))
        result = Engine(config).run(state, NOW)
        return sorted(each.pod.name for each in result.binds), {
            each.pod_group: reason.reason for each in result.outcomes for reason in each.explanations
        }

    assert told(SchedulerConfig()) == (["early-0", "late-0"], {})
    assert told(SchedulerConfig.parse(named("example.curfew"))) == (
        ["early-0"],
        {"default/late": "OverLimit"},
    )


def test_a_scorer_may_go_by_the_placements_that_it_tracks(site: Path) -> None:
    install(site, "example_busy", _BUSY, "example.busy = example_busy:plugin")
    world = [a_node("a", gpus=2), a_node("b", gpus=2), a_job("one", gpus=1), a_job("two", gpus=1)]

    def nodes_used(config: SchedulerConfig) -> int:
        return len({each.node for each in Engine(config).run(a_state(world), NOW).binds})

    assert nodes_used(SchedulerConfig()) == 1
    assert nodes_used(SchedulerConfig.parse(named("example.busy"))) == 2
