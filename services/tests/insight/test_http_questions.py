"""Questions are read within bounds, and what is beyond them is refused by name, with the remedy."""

import pytest

from kai.history.questions import MOST_ROWS
from kai.history.records import RECORDS, Cycle, Run, Taking, texts
from kai.history.usage import By
from kai_insight.http import asked, live_asked, live_endpoints
from kai_insight.http.endpoints import ENDPOINTS, USUAL_SPAN
from kai_insight.http.problems import Problem, Trouble

NOW = 1_800_000_000.0
BY_NAME = {each.name: each for each in ENDPOINTS}


def read(query, endpoint="runs"):
    pairs = [tuple(pair.split("=", 1)) for pair in query.split("&")] if query else []
    return asked.read(BY_NAME[endpoint], pairs, now=NOW)


def refused(query, endpoint="runs"):
    with pytest.raises(Problem) as problem:
        read(query, endpoint)
    assert problem.value.trouble is Trouble.BAD_PARAMETER
    return str(problem.value)


def test_there_is_a_path_for_every_table_and_one_for_use():
    assert set(BY_NAME) == {"runs", "evictions", "decisions", "cycles", "queue-states", "usage"}
    assert [BY_NAME[name].row for name in ("runs", "evictions", "cycles")] == [Run, Taking, Cycle]


@pytest.mark.parametrize("kind", RECORDS)
def test_every_text_of_a_record_may_be_asked_for(kind):
    (endpoint,) = (each for each in ENDPOINTS if each.row is kind)
    assert {each.column for each in endpoint.parameters if each.column} == set(texts(kind))


def test_rows_are_of_the_last_day_unless_something_else_is_said():
    question = read("")
    assert (question.since, question.until, question.limit) == (NOW - USUAL_SPAN, None, 1000)
    assert read("until=1000000").since == 1_000_000 - USUAL_SPAN


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("1500000000", 1_500_000_000.0),
        ("1500000000.25", 1_500_000_000.25),
        ("2017-07-14T02:40:00Z", 1_500_000_000.0),
        ("2017-07-14T04:40:00+02:00", 1_500_000_000.0),
        ("0001-01-01T00:00:00Z", 0.0),
    ],
)
def test_times_are_unix_seconds_or_as_kubernetes_writes_them(said, seconds):
    assert read(f"since={said}").since == seconds


def test_rows_are_picked_by_what_they_say():
    question = read("namespace=team&podGroup=pg&userName=ada")
    assert question.equal == {"namespace": "team", "pod_group": "pg", "user_name": "ada"}
    assert question.namespace == "team"
    assert read("by=user", "usage").by is By.USER


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("since=soon", "since is 'soon'; write Unix seconds, or a time as in"),
        ("since=nan", "since is 'nan'"),
        ("since=1_000", "since is '1_000'"),
        ("since=-5", "since is '-5'"),
        ("since=2026-11-01T08:00:00", "since is '2026-11-01T08:00:00'"),
        ("since=٣", "since is '٣'"),
        ("since=" + "9" * 500, "since is '999"),
        ("since=5&until=5", r"until (5) must be after since (5)"),
        ("limit=0", f"limit is '0'; write a number from 1 to {MOST_ROWS}"),
        ("limit=10001", "limit is '10001'"),
        ("limit=" + "9" * 5000, "limit is '999"),
        ("limit=1e3", "limit is '1e3'"),
        ("limit=1&limit=2", "limit is there twice; say it once"),
        ("namespace=", "namespace is empty; leave it out to ask about all"),
        (
            "namespace=Team",
            "namespace is 'Team'; a namespace has at most 63 lower case letters, digits and -",
        ),
        ("namespace=a.b", "namespace is 'a.b'"),
        ("namespace=-a", "namespace is '-a'"),
        ("namespace=a\n", "namespace is 'a\\n'"),
        ("namespace=" + "x" * 64, "namespace is 'xxx"),
        ("pod=a%00b".replace("%00", "\0"), "pod holds a character that no name has"),
        ("pod=\ud800", "pod holds a character that no name has"),
        ("pod=" + "x" * 1001, "pod has 1001 characters; at most 1000 are compared"),
        ("podgroup=x", "unknown parameter 'podgroup'; did you mean 'podGroup'?"),
        ("pod_group=x", "did you mean 'podGroup'?"),
        ("gpus=1", "unknown parameter 'gpus'; known: since, until, limit"),
        ("by=queue", "unknown parameter 'by'"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_its_name(query, told):
    assert told in refused(query)


def test_the_longest_namespace_may_be_asked_about():
    assert read("namespace=" + "x" * 63).namespace == "x" * 63


def test_a_namespace_that_can_be_none_is_refused_of_the_cluster_as_it_is_now_too():
    for endpoint, more in ((live_endpoints.WAITING, ()), (live_endpoints.WORKLOAD, [("name", "a")])):
        with pytest.raises(Problem, match="a namespace has at most 63"):
            live_asked.read(endpoint, [("namespace", "x" * 64), *more])


def test_a_report_is_by_what_there_is():
    assert refused("by=moon", "usage") == "by is 'moon'; there are queue, namespace, user, workload"


def test_long_values_are_not_repeated():
    assert len(refused("x" * 3000 + "=1")) < 400


@pytest.mark.parametrize("query", ["x" * 4097, "&".join(["a=1"] * 33)])
def test_long_queries_are_not_read_at_all(query):
    with pytest.raises(Problem, match="at most"):
        asked.bounded(query)
