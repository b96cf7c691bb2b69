"""What is asked for is found, the newest first, and nothing else."""

import pytest

from kai.history.addresses import open_database
from kai.history.questions import Selection, count, find, known_namespaces, namespaces
from kai.history.records import Cycle, Decision, Run, Taking
from kai.history.store import open_store
from kai.history.usage import By, usage
from libs.tests.history.builders import HOUR, NOON, a_cycle, a_decision, a_run, an_eviction


def pods(store, **wanted):
    return [run.pod for run in find(store.database, Run, Selection(**wanted))]


def test_the_newest_come_first_and_no_more_than_are_wanted(store):
    store.add([a_cycle(number, at=number) for number in range(5)])
    assert [each.cycle for each in find(store.database, Cycle, Selection(), most=3)] == [4, 3, 2]


def test_a_run_counts_if_any_of_its_time_lies_between(store):
    store.add([a_run("before", ended=1), a_run("across", ended=3), a_run("lasts"), a_run("later", began=5)])
    assert pods(store, since=NOON + 2 * HOUR, until=NOON + 4 * HOUR) == ["across", "lasts"]


def test_only_certain_namespaces(store):
    store.add([a_run("a", namespace="team"), a_run("b", namespace="other")])
    assert pods(store, namespaces={"team"}) == ["a"]
    assert pods(store, namespaces=[]) == []
    assert count(store.database, Run, Selection(namespaces=["team", "other"])) == 2
    assert namespaces(store.database, Run, Selection()) == ["other", "team"]


def test_which_of_some_namespaces_are_known(store):
    store.add([a_run("a", namespace="team"), a_decision("x", namespace="other")])
    assert known_namespaces(store.database, ["team", "other", "nobody's"]) == {"team", "other"}
    assert known_namespaces(store.database, []) == frozenset()


def test_how_much_history_there_is_does_not_matter_for_which_namespaces_are_known(tmp_path):
    store = open_store(open_database(f"sqlite:///{tmp_path / 'history.db'}"))
    steps = []

    def work():
        (connection,) = store.database._idle
        steps.append(0)

        def count():
            steps[-1] += 1

        connection.set_progress_handler(count, 1)
        assert known_namespaces(store.database, ["team", "other"]) == {"team", "other"}
        connection.set_progress_handler(None, 0)

    store.add([a_run("a", namespace="team"), a_decision("x", namespace="other")])
    work()
    store.add([a_run(f"a{number}", namespace="team") for number in range(500)])
    store.add([a_decision(f"x{number}", namespace="other") for number in range(500)])
    work()
    assert steps[0] == steps[1]
    store.database.close()


def test_only_what_says_certain_things(store):
    store.add([a_decision("x", at=1), a_decision("x", at=2, outcome="Placed"), a_decision("y")])
    found = find(store.database, Decision, Selection(equal={"namespace": "team", "pod_group": "x"}))
    assert [each.outcome for each in found] == ["Placed", "Unschedulable"]


def test_evictions_of_a_time(store):
    store.add([an_eviction("a", at=0), an_eviction("b", at=1), an_eviction("c", at=2)])
    found = find(store.database, Taking, Selection(since=NOON + HOUR, until=NOON + 2 * HOUR))
    assert [each.pod for each in found] == ["b"]


# --- usage --------------------------------------------------------------------------------------
def usages(store, by, *, since=0, until=10, now=100, **more):
    since, until, now = (NOON + hours * HOUR for hours in (since, until, now))
    return usage(store.database, by=by, since=since, until=until, now=now, **more)


def used(store, by, **span):
    return {each.name: each.gpu_hours for each in usages(store, by, **span)}


def test_what_was_held_counts_for_as_long_as_it_was(store):
    store.add([a_run("a", began=1, ended=3, gpus=4.0), a_run("b", began=2, ended=2.5, gpus=0.5)])
    (found,) = usages(store, By.QUEUE)
    assert (found.name, found.gpu_hours, found.pods) == ("research", pytest.approx(8.25), 2)
    assert found.cpu_hours == pytest.approx(2 * 2.5)
    assert found.memory_gib_hours == pytest.approx(2.5)


def test_only_the_time_asked_for_counts(store):
    store.add([a_run("a", began=-5, ended=1), a_run("b", began=9), a_run("c", began=20)])
    assert used(store, By.NAMESPACE) == {"team": pytest.approx(2)}


def test_hours_that_have_not_happened_do_not_count(store):
    store.add([a_run("a", began=1, gpus=8.0), a_run("b", ended=1)])
    assert used(store, By.WORKLOAD, until=400, now=3) == {
        "team/Job/a": pytest.approx(16),
        "team/Job/b": pytest.approx(1),
    }
    assert used(store, By.QUEUE, since=4, until=400, now=3) == {}


def test_a_pod_that_changed_is_one_pod(store):
    store.add([a_run("a", ended=1, ending="Changed"), a_run("a", began=1, ended=2, gpus=3.0)])
    (found,) = usages(store, By.USER)
    assert (found.name, found.gpu_hours, found.pods) == ("ada", pytest.approx(4), 1)


def test_workloads_of_one_name_are_told_apart_by_namespace_and_the_largest_come_first(store):
    store.add(
        [
            a_run("a", ended=1, workload="Job/train"),
            a_run("b", ended=2, workload="Job/train"),
            a_run("c", ended=9, workload="Job/train", namespace="other"),
            a_run("d", ended=1, workload=""),
        ]
    )
    found = used(store, By.WORKLOAD)
    assert list(found.items()) == [
        ("other/Job/train", pytest.approx(9)),
        ("team/Job/train", pytest.approx(3)),
        ("", pytest.approx(1)),
    ]


def test_usage_of_certain_namespaces(store):
    store.add([a_run("a", ended=1), a_run("b", ended=1, namespace="other")])
    assert used(store, By.NAMESPACE, namespaces=["other"]) == {"other": pytest.approx(1)}
    assert used(store, By.QUEUE, namespaces=[]) == {}
