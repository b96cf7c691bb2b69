import pytest

from kai.model.objects import ObjectMeta, Queue, QueueResource, QueueResources, QueueSpec, QueueStatus
from kai.validation import queues
from kai.validation.queues import QueueRules

QUOTAS = QueueRules(quotas=True)
UNLIMITED = -1


def a_queue(name, parent="", *, gpu=UNLIMITED, cpu=UNLIMITED, memory=UNLIMITED, labels=None, **spec):
    """A queue with these quotas and no limits."""
    spec.setdefault(
        "resources",
        QueueResources(
            gpu=QueueResource(quota=gpu, limit=UNLIMITED, over_quota_weight=1),
            cpu=QueueResource(quota=cpu, limit=UNLIMITED, over_quota_weight=1),
            memory=QueueResource(quota=memory, limit=UNLIMITED, over_quota_weight=1),
        ),
    )
    return Queue(metadata=ObjectMeta(name=name, labels=labels), spec=QueueSpec(parent_queue=parent, **spec))


def by_name(*all_queues):
    return {queue.metadata.name: queue for queue in all_queues}


def test_a_queue_below_its_parent_is_accepted_without_a_word():
    verdict = queues.check(a_queue("team", "org"), by_name(a_queue("org")))
    assert verdict.allowed
    assert not verdict.warnings


def test_resources_are_demanded_in_error_and_warning():
    verdict = queues.check(a_queue("team", resources=None), {})
    assert "spec.resources is missing" in verdict.message
    assert verdict.warnings == verdict.errors


def test_a_queue_is_not_its_own_parent():
    assert "is the queue itself" in queues.check(a_queue("team", "team"), {}).message


def test_a_circle_is_refused_and_shown():
    known = by_name(a_queue("a", "b"), a_queue("b", "c"), a_queue("c"))
    message = queues.check(a_queue("c", "a"), known).message
    assert "queue c: " in message
    assert "c -> a -> b -> c" in message


def test_moving_a_queue_elsewhere_is_no_circle_though_its_old_form_was_below():
    known = by_name(a_queue("a"), a_queue("b", "a"))
    assert queues.check(a_queue("a", "c"), {**known, "c": a_queue("c")}).allowed


def test_somebody_elses_circle_is_not_this_queues_error():
    known = by_name(a_queue("a", "b"), a_queue("b", "a"))
    assert queues.check(a_queue("team", "a"), known).allowed


def test_a_missing_parent_is_a_warning():
    verdict = queues.check(a_queue("team", "org"), {})
    assert verdict.allowed
    assert 'spec.parentQueue "org" does not exist' in verdict.warnings[0]


@pytest.mark.parametrize("field", ["preempt_min_runtime", "reclaim_min_runtime"])
def test_a_runtime_that_is_no_duration_is_refused(field):
    verdict = queues.check(a_queue("team", **{field: "10"}), {})
    assert "MinRuntime: '10' is not a duration" in verdict.message
    assert queues.check(a_queue("team", **{field: "10m"}), {}).allowed


@pytest.mark.parametrize("pool", [None, {"kai.scheduler/node-pool": "b"}], ids=["none", "another"])
def test_parent_and_child_in_different_node_pools_are_a_warning(pool):
    parent = a_queue("org", labels={"kai.scheduler/node-pool": "a"})
    verdict = queues.check(a_queue("team", "org", labels=pool), by_name(parent))
    assert verdict.allowed
    assert "give them the same label" in verdict.warnings[0]


@pytest.mark.parametrize(
    ("kind", "amount", "said"),
    [
        ("cpu", QueueResource(), "may use no cpu at all"),
        ("memory", QueueResource(quota=5), "may use no memory at all"),
        ("gpu", QueueResource(quota=5), "may use no gpu at all"),
        ("gpu", QueueResource(quota=5, limit=2), "limit 2 is below the quota 5"),
        ("gpu", QueueResource(quota=-2, limit=UNLIMITED), "write -1 for no bound"),
        ("cpu", QueueResource(quota=4, limit=UNLIMITED), "4 cores are 4000"),
    ],
)
def test_amounts_that_are_seldom_meant_are_warnings(kind, amount, said):
    queue = a_queue("team")
    setattr(queue.spec.resources, kind, amount)
    verdict = queues.check(queue, {})
    assert verdict.allowed
    assert len(verdict.warnings) == 1
    assert said in verdict.warnings[0]


def test_a_queue_without_gpus_needs_no_word_about_them():
    queue = a_queue("team")
    queue.spec.resources.gpu = QueueResource()
    assert not queues.check(queue, {}).warnings


# --- quotas ------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["gpu", "cpu", "memory"])
def test_a_quota_above_the_parents_is_a_warning(kind):
    verdict = queues.check(
        a_queue("team", "org", **{kind: 900}), by_name(a_queue("org", **{kind: 800})), QUOTAS
    )
    assert verdict.allowed
    assert f"{kind} quota 900 is more than the 800 of its parent org" in verdict.warnings[0]


def test_quotas_are_compared_only_on_demand():
    assert not queues.check(a_queue("team", "org", gpu=9), by_name(a_queue("org", gpu=8))).warnings


@pytest.mark.parametrize(
    ("own", "above", "warned"),
    [(UNLIMITED, UNLIMITED, False), (5, UNLIMITED, False), (UNLIMITED, 5, True), (5, 5, False)],
)
def test_minus_one_is_infinity(own, above, warned):
    verdict = queues.check(a_queue("team", "org", gpu=own), by_name(a_queue("org", gpu=above)), QUOTAS)
    assert bool(verdict.warnings) is warned
    if warned:
        assert "gpu quota unlimited is more than the 5 of its parent" in verdict.warnings[0]


def test_siblings_that_want_too_much_together_are_a_warning_with_the_new_value_counted():
    known = by_name(a_queue("org", cpu=1000), a_queue("a", "org", cpu=600), a_queue("b", "org", cpu=300))
    assert not queues.check(a_queue("b", "org", cpu=400), known, QUOTAS).warnings
    (warning,) = queues.check(a_queue("b", "org", cpu=500), known, QUOTAS).warnings
    assert "cpu quotas of the children of org sum up to 1100, over its 1000" in warning


def test_a_quota_below_what_the_children_were_promised_is_a_warning():
    known = by_name(a_queue("a", "org", gpu=6), a_queue("b", "org", gpu=4))
    (warning,) = queues.check(a_queue("org", gpu=8), known, QUOTAS).warnings
    assert "queue org: gpu quotas of the children of org sum up to 10, over its 8" in warning


def test_an_unknown_quota_of_the_parent_is_an_error_when_quotas_are_compared():
    assert "is unknown" in queues.check(a_queue("team", "org"), {}, QUOTAS).message
    known = by_name(a_queue("org", resources=None))
    assert "org has no spec.resources" in queues.check(a_queue("team", "org"), known, QUOTAS).message


# --- deletion ----------------------------------------------------------------------------------
def test_deleting_a_queue_with_children_is_a_warning():
    below = queues.children("org", [a_queue("org"), a_queue("b", "org"), a_queue("a", "org")])
    verdict = queues.check_deletion(a_queue("org"), below)
    assert verdict.allowed
    assert verdict.warnings == (
        (
            "queue org: it is the parent of a, b, where nothing is scheduled without it; "
            "delete those too or give them another spec.parentQueue"
        ),
    )


def test_many_children_are_not_all_listed():
    (warning,) = queues.check_deletion(a_queue("org"), [f"q{i}" for i in range(8)]).warnings
    assert "q0, q1, q2, q3, q4 and 3 more" in warning


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (QueueStatus(allocated={"nvidia.com/gpu": "8", "cpu": "4500m"}), "holds 4500m cpu, 8 nvidia.com/gpu"),
        (QueueStatus(allocated={"cpu": "1"}, requested={"cpu": "4"}), "holds 1 cpu"),
        (QueueStatus(requested={"cpu": "4"}, allocated={"cpu": "0"}), "waits for 4 cpu"),
    ],
    ids=["running", "running and waiting", "waiting"],
)
def test_deleting_a_queue_with_work_is_a_warning(status, said):
    queue = a_queue("team")
    queue.status = status
    verdict = queues.check_deletion(queue, [])
    assert verdict.allowed
    assert f"queue team: work in it {said}" in verdict.warnings[0]
    assert len(verdict.warnings) == 1


def test_deletion_is_refused_on_demand_for_the_same_reasons():
    queue = a_queue("team")
    assert queues.check_deletion(queue, [], refuse=True).allowed
    assert "it is the parent of a" in queues.check_deletion(queue, ["a"], refuse=True).message
    queue.status = QueueStatus(requested={"cpu": "4"})
    assert "waits for 4 cpu" in queues.check_deletion(queue, [], refuse=True).message


def test_of_leaves_and_broken_queues_without_work_nothing_is_said():
    assert not queues.children("leaf", [a_queue("org"), a_queue("leaf", "org")])
    assert not queues.children("self", [a_queue("self", "self")])
    assert not queues.check_deletion(a_queue("leaf"), []).warnings
