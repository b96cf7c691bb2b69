"""Divisions as the original's simulator is asked for them."""

import pytest

from kai.simulate.fair_share import Question, divide
from kai.simulate.reading import InvalidInput

#: The example of the original's documentation.
ASKED = {
    "totalResource": {"GPU": 100, "CPU": 16000, "Memory": 32000000},
    "queues": [
        {
            "uid": "queue1",
            "name": "test-queue",
            "priority": 0,
            "resourceShare": {"gpu": {"deserved": 10, "request": 100, "overQuotaWeight": 3}},
        },
        {
            "uid": "queue2",
            "name": "test-queue2",
            "priority": 0,
            "resourceShare": {"gpu": {"deserved": 10, "request": 100, "overQuotaWeight": 1}},
        },
    ],
}


def shares(document):
    return divide(Question.read(document))


def gpus(*queues, total=10, **more):
    found = shares({"totalResource": {"GPU": total}, "queues": list(queues), **more})
    return {uid: gpu for uid, (_, _, gpu) in found.items()}


def a_queue(uid, *, parent="", children=(), created=None, priority=0, **gpu):
    found = {"uid": uid, "parentQueue": parent, "childQueues": list(children), "priority": priority}
    return {**found, "creationTimestamp": created, "resourceShare": {"gpu": gpu}}


def test_the_example_of_the_original_gives_what_it_documents():
    assert shares(ASKED) == {
        "queue1": (16000.0, 100000.0, 70.0),
        "queue2": (16000.0, 100000.0, 30.0),
    }


def test_keys_are_understood_in_whatever_case_they_are_written():
    lowered = {
        "TOTALRESOURCE": {"gpu": 10},
        "Queues": [{"UID": "a", "ResourceShare": {"GPU": {"Request": 4}}}],
    }
    assert shares(lowered)["a"][2] == 4


def test_who_says_nothing_deserves_all_cpu_and_no_gpus_and_asks_for_much():
    (share,) = shares({"totalResource": {"GPU": 8, "CPU": 50}, "queues": [{"uid": "a"}]}).values()
    assert share == (50.0, 0.0, 8.0)


def test_priority_comes_before_weight_and_age_breaks_ties():
    assert gpus(a_queue("low", overQuotaWeight=100), a_queue("high", priority=1, request=7)) == {
        "low": 3,
        "high": 7,
    }
    younger = a_queue("a", created="2030-01-02T00:00:00Z")
    older = a_queue("b", created="2030-01-01T00:00:00")
    assert gpus(younger, older, total=1) == {"a": 0, "b": 1}
    assert gpus(a_queue("b"), a_queue("a"), total=1) == {"b": 1, "a": 0}


def test_children_divide_what_their_parent_is_given():
    queues = [
        a_queue("child", parent="top", request=10),
        a_queue("other", request=10),
        a_queue("top", overQuotaWeight=4, children=["second"]),
        a_queue("second", request=10),
    ]
    assert gpus(*queues) == {"top": 8, "child": 4, "other": 2, "second": 4}


def test_a_parent_asks_for_what_its_children_do_unless_it_says_so_itself():
    child = a_queue("child", parent="top", request=3)
    assert gpus(a_queue("top"), child, a_queue("other"))["other"] == 7
    assert gpus(a_queue("top", request=2), child, a_queue("other"))["child"] == 2


def test_past_use_counts_as_strongly_as_told():
    queues = [a_queue("a", usage=0.5), a_queue("b")]
    assert gpus(*queues) == {"a": 5, "b": 5}
    assert gpus(*queues, kValue=1) == {"a": 3, "b": 7}
    assert gpus(*queues, kValue=20) == {"a": 0, "b": 10}


def test_what_has_no_effect_is_told():
    question = Question.read({"queues": [a_queue("a", parent="gone", allocated=3, absoluteUsage=0.5)]})
    parent, allocated, usage = question.notes
    assert allocated.startswith("queues[0].resourceShare.gpu.allocated has no effect: ")
    assert usage.startswith(
        "queues[0].resourceShare.gpu.absoluteUsage has no effect: past use is said as usage"
    )
    assert parent == "queue 'a' counts as a top queue: its parent 'gone' is not among the queues"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the input is []; it must be a mapping of keys"),
        ({"queue": []}, "unknown key 'queue'; did you mean 'queues'?"),
        ({"queues": {}}, "queues is {}; it must be a list"),
        ({"queues": [{"uid": "a"}, {"uid": "a"}]}, "queue 'a' is there twice; name it once"),
        ({"queues": [{"priority": 1}]}, "queues[0].uid is missing; give the queue one"),
        ({"queues": [{"uid": "a", "priority": 1.5}]}, "queues[0].priority is 1.5; it must be an integer"),
        (
            {"queues": [{"uid": "a", "UID": "b"}]},
            "queues[0].uid is there twice, in two spellings; say it once",
        ),
        (
            {"queues": [{"uid": "a", "creationTimestamp": "soon"}]},
            "creationTimestamp is 'soon'; write a time",
        ),
        ({"queues": [a_queue("a", deserved="much")]}, "gpu.deserved is 'much'; it must be a number"),
        ({"queues": [a_queue("a", deserved=True)]}, "gpu.deserved is True; it must be a number"),
        ({"queues": [a_queue("a", deserved=-2)]}, "gpu.deserved is -2; it must be at least 0, or -1 for no"),
        ({"queues": [a_queue("a", request=float("nan"))]}, "gpu.request is nan; it must be a number"),
        ({"queues": [a_queue("a", request=-1)]}, "gpu.request is -1; it must be at least 0"),
        ({"queues": [a_queue("a", usage=2)]}, "gpu.usage is 2; it must be a part of the cluster, 0 to 1"),
        ({"queues": [a_queue("a", wieght=2)]}, "unknown key 'wieght' in queues[0].resourceShare.gpu"),
        ({"queues": [a_queue("a", parent="a")]}, "queue 'a' is its own ancestor; change its parent"),
        (
            {"queues": [a_queue("a", parent="b"), a_queue("b", parent="a")]},
            "queue 'a' is its own ancestor; change its parent",
        ),
        (
            {"queues": [a_queue("a", children=["b"])]},
            "queue 'a' has a child 'b' that is not among the queues",
        ),
        (
            {"queues": [a_queue("a", children=["c"]), a_queue("b", children=["c"]), a_queue("c")]},
            "queue 'c' has two parents, 'a' and 'b'; leave one of them",
        ),
        ({"totalResource": {"GPU": -1}}, "totalResource.gpu is -1; it must be at least 0"),
        ({"kValue": "1"}, "kValue is '1'; it must be a number"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_place(document, message):
    with pytest.raises(InvalidInput) as raised:
        Question.read(document)
    assert message in str(raised.value)
