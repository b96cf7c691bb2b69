"""How long workloads ran is read from records of their pods; the nearest curve that says something counts."""

from kai.forecast.curves import Span
from kai.forecast.learned import LEAST_RUNS, Basis, Learned, nearest
from kai.forecast.runs import Kin, Lasted, lasted
from kai.history.records import Ending
from libs.tests.history.builders import HOUR, NOON, a_run

NOW = NOON + 10 * HOUR


def spans(*runs):
    return [(each.span.seconds / HOUR, each.span.ended) for each in lasted(runs, now=NOW)]


def test_a_gang_lasts_from_its_first_pod_to_its_last():
    gang = {"pod_group": "pg", "workload": "Job/gang"}
    [found] = lasted([a_run("a", began=1, ended=3, **gang), a_run("b", began=2, ended=5, **gang)], now=NOW)
    assert found == Lasted(Kin("team", "gang", "Job", "research"), Span(4 * HOUR, True))
    assert spans(a_run("a", began=1, ended=3, **gang), a_run("b", began=2, **gang)) == [(9, False)]


def test_what_was_evicted_or_went_unseen_or_still_runs_lasts_longer_than_it_ran():
    assert spans(a_run(began=1, ended=3, ending=Ending.EVICTED)) == [(2, False)]
    assert spans(a_run(began=1, ended=3, ending=Ending.UNSEEN)) == [(2, False)]
    assert spans(a_run(began=1)) == [(9, False)]
    assert spans(a_run(began=1, ended=3, ending=Ending.DELETED)) == [(2, True)]
    assert spans(a_run(began=1, ended=3, ending=Ending.FAILED)) == [(2, True)]


def test_a_pod_that_goes_on_otherwise_runs_once():
    assert spans(a_run(began=1, ended=3, ending=Ending.CHANGED), a_run(began=3, ended=4)) == [(3, True)]


def test_who_comes_again_after_an_eviction_runs_twice():
    first = a_run("a", began=1, ended=3, ending=Ending.EVICTED, pod_group="pg")
    again = a_run("b", began=5, ended=9, pod_group="pg")
    assert sorted(spans(first, again)) == [(2, False), (4, True)]


def test_what_began_so_long_ago_that_others_may_be_forgotten_is_left_out():
    assert spans(a_run(began=-30 * 24, ended=9), a_run("b", began=-29 * 24, ended=0)) == [(29 * 24, True)]


def test_pods_without_a_group_each_are_a_workload():
    assert spans(a_run("a", ended=1, pod_group=""), a_run("b", ended=2, pod_group="")) == [
        (1, True),
        (2, True),
    ]


def _lasted(name, seconds, *, owner="Job", queue="research", namespace="team", count=LEAST_RUNS):
    return [Lasted(Kin(namespace, f"{name}-{n}", owner, queue), Span(seconds, True)) for n in range(count)]


def test_the_nearest_curve_that_says_something_counts():
    learned = Learned.of(
        [
            *_lasted("train", 100),
            *_lasted("eval", 20, count=LEAST_RUNS - 1),
            *_lasted("serve", 900, owner="Deployment"),
            *_lasted("web", 5000, owner="Deployment", queue="web", namespace="web"),
        ]
    )

    def basis(name, *, ran=0.0, **more):
        kin = {"namespace": "team", "name": name, "owner": "Job", "queue": "research", **more}
        return nearest(learned.known(Kin(**kin)), ran=ran)[0]

    assert learned.runs == 4 * LEAST_RUNS - 1
    assert basis("train-9") is Basis.PATTERN
    assert basis("train-9", namespace="other") is Basis.OWNER
    assert basis("eval-9") is Basis.OWNER, "too few of this name ran"
    assert basis("new", owner="RayJob") is Basis.QUEUE
    assert basis("new", owner="RayJob", queue="elsewhere") is Basis.ALL
    assert basis("train-9", ran=100) is Basis.QUEUE, "none like it lasted so long"
    assert basis("train-9", ran=900) is Basis.ALL
    assert basis("train-9", ran=5000) is Basis.NONE
    assert nearest(Learned.of([]).known(Kin("a", "b", "c", "d")), ran=0) == (Basis.NONE, None)
