"""What pods prefer about their neighbours draws and drives off others too, through placements taken back."""

import pytest

from kai.engine import Engine, SchedulerConfig
from kai.engine.neighbourhood.affinity import PodAffinity
from kai.snapshot.state import Kind
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_state

CONFIG = """
tiers:
- plugins:
  - {name: predicates}
  - {name: nodeplacement}
  - {name: nodeavailability}
  - {name: podaffinity}
"""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def a_term(app, *, key="zone"):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def preferring(kind, app, weight):
    return {"affinity": {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": a_term(app)}]}}}


def requiring(kind, app):
    return {"affinity": {kind: {REQUIRED: [a_term(app)]}}}


def zones_a_and_b(*, running=(), waiting=()):
    """Nodes a and b of one zone each; pods as (name, node, app, spec), each in a group of its own."""
    made = [a_node(name, gpus=8, labels={"zone": name}) for name in ("a", "b")]
    for created, (name, node, app, spec) in enumerate([*running, *waiting]):
        made.append(a_group(name, queue="team", created=created, started=NOW if node else 0))
        made.append(a_pod(name, group=name, node=node, gpus=1, labels={"app": app}, spec=spec))
    return a_state(made)


def place(state, config=CONFIG):
    result = Engine(SchedulerConfig.parse(config)).run(state, NOW)
    return {bind.pod.name: bind.node for bind in result.binds}


@pytest.mark.parametrize(
    ("near_a", "near_b", "chosen"),
    [
        (preferring("podAffinity", "web", 5), None, "a"),
        (None, preferring("podAffinity", "web", 5), "b"),
        (preferring("podAntiAffinity", "web", 5), None, "b"),
        (None, preferring("podAntiAffinity", "web", 5), "a"),
        (preferring("podAffinity", "web", 5), preferring("podAffinity", "web", 6), "b"),
        (requiring("podAffinity", "web"), None, "a"),
        (None, requiring("podAffinity", "web"), "b"),
        # A required term is worth a weight of one.
        (preferring("podAffinity", "web", 2), requiring("podAffinity", "web"), "a"),
    ],
)
def test_terms_of_running_pods_that_match_count_like_own_ones(near_a, near_b, chosen):
    running = [("run-a", "a", "db", near_a), ("run-b", "b", "db", near_b)]
    assert place(zones_a_and_b(running=running, waiting=[("new", "", "web", None)])) == {"new": chosen}


def test_terms_that_do_not_match_the_pod_say_nothing():
    running = [("run-a", "a", "db", None), ("run-b", "b", "db", preferring("podAffinity", "web", 100))]
    assert place(zones_a_and_b(running=running, waiting=[("new", "", "other", None)])) == {"new": "a"}


def test_terms_of_both_sides_add_up():
    running = [
        ("run-a", "a", "db", preferring("podAffinity", "web", 10)),
        ("run-b", "b", "cache", None),
    ]
    for weight, chosen in ((9, "a"), (11, "b")):
        waiting = [("new", "", "web", preferring("podAffinity", "cache", weight))]
        assert place(zones_a_and_b(running=running, waiting=waiting)) == {"new": chosen}


def test_a_pod_placed_in_this_cycle_draws_the_next():
    waiting = [
        ("first", "", "db", preferring("podAntiAffinity", "web", 1)),
        ("second", "", "web", None),
    ]
    assert place(zones_a_and_b(waiting=waiting)) == {"first": "a", "second": "b"}


def test_without_the_plugin_preferences_have_no_effect():
    running = [("run-a", "a", "db", None), ("run-b", "b", "db", preferring("podAffinity", "web", 100))]
    config = CONFIG.replace("  - {name: podaffinity}\n", "")
    assert place(zones_a_and_b(running=running, waiting=[("new", "", "web", None)]), config) == {"new": "a"}


def test_a_placement_taken_back_leaves_no_neighbour_behind():
    waiting = [("db", "", "db", None), ("web", "", "web", requiring("podAffinity", "db"))]
    state = zones_a_and_b(waiting=waiting)
    session = Engine(SchedulerConfig.parse(CONFIG)).open(state, NOW)
    plugin = session.plugins.of(PodAffinity)
    web = state.task("default/web")
    statement = session.statement()
    statement.allocate(state.task("default/db"), session.nodes.by_name["b"], groups=())
    near, _ = plugin.mask(web)
    assert near.tolist() == [False, True]
    statement.rollback()
    near, _ = plugin.mask(web)
    assert near.tolist() == [False, False]


def test_what_pods_say_of_namespaces_by_label_follows_the_labels():
    draws = preferring("podAffinity", "web", 5)
    (weighted,) = draws["affinity"]["podAffinity"][PREFERRED]
    weighted["podAffinityTerm"]["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    repels = {"affinity": {"podAntiAffinity": {REQUIRED: [a_term("web")]}}}
    repels["affinity"]["podAntiAffinity"][REQUIRED][0]["namespaceSelector"] = {"matchLabels": {"team": "b"}}
    state = zones_a_and_b(running=[("near", "b", "x", draws), ("far", "a", "x", repels)])
    engine = Engine(SchedulerConfig.parse(CONFIG))
    chosen = []
    for number, team in enumerate(["", "a", "b", ""]):
        state.apply(Kind.NAMESPACE, {"metadata": {"name": "default", "labels": {"team": team}}})
        name = f"web-{number}"
        state.apply(Kind.POD_GROUP, a_group(name, queue="team", created=number))
        state.apply(Kind.POD, a_pod(name, group=name, gpus=1, labels={"app": "web"}))
        (bind,) = engine.run(state, NOW + number).binds
        chosen.append(bind.node)
        state.remove(Kind.POD, f"default/{name}")
    assert chosen == ["a", "b", "b", "a"]
