"""Asked at once or one by one, selections mean the same pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.bench.objects import a_node
from kai.engine.kernel import neighbours
from kai.engine.kernel.neighbours import Neighbours
from kai.engine.kernel.selections import Selection, Selections
from kai.snapshot.state import Kind
from libs.tests.engine.builders import a_job, a_state

NAMESPACES = {
    name: {"metadata": {"name": name, "labels": {"team": team}}}
    for name, team in {"here": "a", "there": "b", "elsewhere": "b"}.items()
}
LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))
SELECTORS = st.none() | st.fixed_dictionaries(
    {
        "matchLabels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        "matchExpressions": st.lists(
            st.fixed_dictionaries(
                {
                    "key": st.sampled_from("abc"),
                    "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Resembles")),
                    "values": st.none() | st.lists(st.sampled_from("xy"), max_size=2),
                }
            ),
            max_size=3,
        ),
    }
)
TERMS = st.fixed_dictionaries(
    {
        "labelSelector": SELECTORS,
        "namespaces": st.none() | st.lists(st.sampled_from(sorted(NAMESPACES)), max_size=2),
        "namespaceSelector": st.sampled_from((None, {}, {"matchLabels": {"team": "b"}})),
    }
)


@given(terms=st.lists(TERMS, max_size=8), labels=LABELS, namespace=st.sampled_from(sorted(NAMESPACES)))
def test_those_that_mean_a_pod_are_those_that_say_so_when_asked_alone(
    terms: list[dict[str, Any]], labels: dict[str, str], namespace: str
) -> None:
    selections = [Selection(term, namespace="here", namespaces=NAMESPACES, labels={}) for term in terms]
    together = Selections()
    for number, selection in enumerate(selections):
        assert together.add(selection) == number
        together.about(namespace, labels)  # and whoever asks in between changes nothing
    expected = [row for row, each in enumerate(selections) if each.matches(namespace, labels)]
    for since in range(len(selections) + 1):
        found = together.about(namespace, labels, since=since).tolist()
        assert found == [row for row in expected if row >= since]
    if terms:
        of_all = Selection(*terms, namespace="here", namespaces=NAMESPACES, labels={})
        assert of_all.matches(namespace, labels) is (len(expected) == len(terms))


@pytest.mark.parametrize("few", [0, 99])
def test_terms_are_counted_together_as_they_are_alone(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_FEW", few)
    runs = [a_job(f"job-{i}", on=f"n{i % 2}", labels={"app": "xyz"[i % 3]}) for i in range(9)]
    state = a_state(a_node("n0"), a_node("n1"), runs)
    asking = state.task("default/job-0-0")
    terms = [{"labelSelector": {"matchLabels": {"app": app}}} for app in "xyzw"] * 5
    terms += [
        {"labelSelector": {"matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"}]}}
        for i in range(9)
    ]
    known = Neighbours(state.nodes, state.objects[Kind.NAMESPACE])
    rows = known.rows(terms, asking)
    together = known.table[rows].tolist()
    assert together[:4] == [[2, 1], [1, 2], [2, 1], [0, 0]]
    assert together[20:] == [[5, 4]] * 9
    alone = Neighbours(state.nodes, state.objects[Kind.NAMESPACE])
    assert [alone.counts(term, asking).tolist() for term in terms] == together


def test_keys_whose_values_must_match_and_those_whose_must_not_are_told_apart() -> None:
    runs = [a_job(f"job-{tenant}", on="n", labels={"tenant": tenant}) for tenant in "ab"]
    state = a_state(a_node("n"), runs, a_job("new", labels={"tenant": "a"}), a_job("more", on="n"))
    known, asking = Neighbours(state.nodes, state.objects[Kind.NAMESPACE]), state.task("default/new-0")
    same, others = (
        {"labelSelector": {}, field: ["tenant"]} for field in ("matchLabelKeys", "mismatchLabelKeys")
    )
    assert (known.counts(same, asking).tolist(), known.counts(others, asking).tolist()) == ([1], [2])


def test_only_pods_that_have_a_label_which_a_term_wants_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the terms of each job about its own kind, of which there are many, cost all pods that run."""
    runs = [a_job(f"job-{i}", on="n", labels={"app": "x", "job": str(i)}) for i in range(30)]
    state = a_state(a_node("n"), runs)
    looked_at: list[str] = []
    matches = Selection.matches

    def counted(self: Selection, namespace: str, labels: dict[str, str]) -> bool:
        looked_at.append(labels["job"])
        return matches(self, namespace, labels)

    monkeypatch.setattr(Selection, "matches", counted)
    known, asking = Neighbours(state.nodes, state.objects[Kind.NAMESPACE]), state.task("default/job-0-0")
    own = [{"labelSelector": {"matchLabels": {"app": "x", "job": job}}} for job in ("7", "8", "gone")]
    assert [known.counts(term, asking).tolist() for term in own] == [[1], [1], [0]]
    assert looked_at == ["7", "8"]


def test_what_demands_nothing_of_a_pods_labels_costs_it_nothing() -> None:
    """However many there are: the labels are looked up, and no selection is asked."""
    asked = Selections()
    for number in range(1000):
        unwanted = [{"key": f"k{number}-{each}", "operator": "NotIn", "values": ["x"]} for each in range(4)]
        term = {"labelSelector": {"matchExpressions": unwanted}}
        asked.add(Selection(term, namespace="here", namespaces=NAMESPACES, labels={}))
    looked_up: list[str] = []

    class Labels(dict[str, str]):
        def items(self) -> Any:
            looked_up.extend(self)
            return super().items()

    assert len(asked.about("here", Labels(app="x"))) == 1000
    assert set(looked_up) == {"app"}
    assert len(looked_up) <= 2


def test_a_pod_that_came_counts_for_terms_asked_before_and_after() -> None:
    state = a_state(a_node("n0"), a_node("n1"), a_job("runs", on="n0", labels={"app": "x"}))
    asking = state.task("default/runs-0")
    known = Neighbours(state.nodes, state.objects[Kind.NAMESPACE])
    before, after = ({"labelSelector": {"matchLabels": {"app": "x"}}}, {"labelSelector": {}})
    known.rows([before], asking)
    known.moved(asking, state.nodes.by_name["n1"], sign=1)
    known.rows([after], asking)
    mark = known.mark()
    known.moved(asking, state.nodes.by_name["n1"], sign=1)
    assert known.counts(before, asking).tolist() == [1, 2]
    assert known.counts(after, asking).tolist() == [1, 1]
    known.undo(mark)
    assert known.counts(before, asking).tolist() == [1, 1]
    assert known.counts(after, asking).tolist() == [1, 0]
