"""What one who was away learns from the store."""

from kai.history.continuation import position, recorded, standing
from libs.tests.history.builders import a_cycle, a_decision, a_run


def test_the_position_is_the_newest_cycle_of_the_newest_leader_of_a_shard(store, database):
    assert position(database, "default") is None
    store.add([a_cycle(9, epoch=7), a_cycle(2, epoch=8), a_cycle(50, epoch=9, shard="other")])
    assert position(database, "default") == (8, 2)


def test_the_newest_leader_is_that_of_the_last_cycle_though_epochs_went_back(store, database):
    """As where the API server's store was restored from a backup: an epoch is a version of it."""
    store.add([a_cycle(70, epoch=9_000_000, at=1), a_cycle(3, epoch=5_000_000, at=2)])
    store.add([a_cycle(4, epoch=5_000_000, at=2)])
    assert position(database, "default") == (5_000_000, 4)


def test_groups_stand_as_the_last_word_on_them_says(store, database):
    store.add(
        [
            a_decision("a", at=1),
            a_decision("a", at=2, outcome="Placed"),
            a_decision("b", at=1, reason="OverLimit"),
            a_decision("c", at=1),
            a_decision("c", at=2, outcome="Gone"),
            a_decision("d", at=1, shard="other"),
            a_decision("a", at=1, namespace="elsewhere"),
        ]
    )
    found = {
        (each.namespace, each.pod_group, each.outcome) for each in standing(database, "default", gone="Gone")
    }
    assert found == {
        ("team", "a", "Placed"),
        ("team", "b", "Unschedulable"),
        ("elsewhere", "a", "Unschedulable"),
    }


def test_pods_with_runs_are_known_however_many_are_asked_about(store, database):
    store.add([a_run("a"), a_run("b", ended=1)])
    asked = [f"uid-team-{number}" for number in range(3000)] + ["uid-team-a", "uid-team-b"]
    assert recorded(database, asked) == {"uid-team-a", "uid-team-b"}
    assert recorded(database, []) == set()
