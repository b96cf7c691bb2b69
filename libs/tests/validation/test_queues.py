import msgspec
import pytest

from kai.model import limits
from kai.model.objects import ObjectMeta, Queue, QueueAccess, QueueResource, QueueResources, QueueSpec
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


def test_a_queue_stands_on_the_last_level_and_not_below_it():
    most = limits.QUEUE_DEPTH.most
    known = by_name(a_queue("q1"), *(a_queue(f"q{i}", f"q{i - 1}") for i in range(2, most + 1)))
    assert queues.check(known[f"q{most}"], known).allowed
    message = queues.check(a_queue("below", f"q{most}"), known).message
    assert "spec.parentQueue is 'q32'; it must be a queue with at most 30 queues above it" in message


def test_somebody_elses_circle_is_not_this_queues_error():
    known = by_name(a_queue("a", "b"), a_queue("b", "a"))
    assert queues.check(a_queue("team", "a"), known).allowed


@pytest.mark.parametrize("field", ["preempt_min_runtime", "reclaim_min_runtime"])
def test_a_runtime_that_is_no_duration_is_refused(field):
    verdict = queues.check(a_queue("team", **{field: "10"}), {})
    assert "MinRuntime: '10' is not a duration" in verdict.message
    for text in ("90s", "10m", "2h30m", "1d", "0s"):
        assert queues.check(a_queue("team", **{field: text}), {}).allowed


# --- access ------------------------------------------------------------------------------------
def restricted(**access):
    return queues.check(a_queue("team", access=msgspec.convert(access, QueueAccess)), {}).message


@pytest.mark.parametrize(
    "access",
    [
        {},
        {"namespaces": ["team-a"], "serviceAccounts": ["team-a/train.er-1"]},
        {"groups": ["system:serviceaccounts", "system:serviceaccounts:team-a"]},
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}},
        {"namespaceSelector": {"matchExpressions": [{"key": "t", "operator": "In", "values": ["a"]}]}},
    ],
)
def test_a_rule_of_access_that_can_be_kept_is_accepted(access):
    assert restricted(**access) == ""


@pytest.mark.parametrize(
    ("access", "told"),
    [
        ({"serviceAccounts": ["trainer"]}, 'serviceAccounts: "trainer" is no service account'),
        ({"serviceAccounts": ["system:serviceaccount:a:b"]}, "write namespace/name"),
        ({"groups": ["team-a-people"]}, "list namespaces where its members may create pods"),
        ({"groups": ["system:authenticated"]}, "no group of service accounts"),
        ({"namespaces": ["x"] * 1025}, "must be at most 1024 namespaces"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "t", "operator": "Gt", "values": ["1"]}]}},
            'operator "Gt" is not known',
        ),
        ({"namespaceSelector": {"matchExpressions": [{"key": "t", "operator": "In"}]}}, "needs values"),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "t", "operator": "Exists", "values": ["x"]}]
                }
            },
            "takes no values",
        ),
    ],
)
def test_a_rule_of_access_that_would_admit_nobody_it_means_is_refused(access, told):
    assert told in restricted(**access)


# --- quotas ------------------------------------------------------------------------------------
def test_an_unknown_quota_of_the_parent_is_an_error_when_quotas_are_compared():
    assert "is unknown" in queues.check(a_queue("team", "org"), {}, QUOTAS).message
    known = by_name(a_queue("org", resources=None))
    assert "org has no spec.resources" in queues.check(a_queue("team", "org"), known, QUOTAS).message
