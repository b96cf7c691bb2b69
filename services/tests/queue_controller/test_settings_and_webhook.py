"""What the service is told, and what its webhook answers."""

from inspect import isawaitable

import pytest

from kai.kube import errors
from kai.runtime import SettingsError
from kai.runtime.webhook import AdmissionRequest
from kai.validation.queues import QueueRules
from kai_queue_controller.settings import QueueControllerSettings
from kai_queue_controller.webhook import reviewer

AMOUNT = {"quota": 1, "limit": -1, "overQuotaWeight": 1}
RESOURCES = {"gpu": AMOUNT, "cpu": AMOUNT, "memory": AMOUNT}


def test_flags_of_the_original_are_understood():
    settings = QueueControllerSettings.parse([
        "--queue-label-to-metric-label=tier=level,cost=center",
        "--queue-label-to-default-metric-value=tier=low",
        "--metrics-namespace=acme",
        "--metrics-listen-address=:9090",
        "--enable-quota-validation",
        "--enable-webhook=false",
    ])  # fmt: skip
    assert settings.queue_label_to_metric_label == {"tier": "level", "cost": "center"}
    assert settings.queue_label_to_default_metric_value == {"tier": "low"}
    assert (settings.enable_webhook, settings.enable_quota_validation) == (False, True)


def test_partitions_are_leases():
    assert told([]) == {"default": "kai-scheduler"}
    assert told(["--partitions=,blue"]) == {"default": "kai-scheduler", "blue": "kai-scheduler-blue"}


def told(arguments):
    return {shard.name: shard.lease for shard in QueueControllerSettings.parse(arguments).shards}


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--queue-label-to-metric-label=tier", "write KEY=VALUE"),
        ("--queue-label-to-metric-label=tier=a-b", "'a-b' is not a metric label"),
        ("--metrics-namespace=a b", "use letters"),
        ("--status-interval=0s", "greater than 0"),
        ("--redis-url=localhost", "write redis://"),
        ("--tls-ca=/x", "give all three or none"),
    ],
)
def test_what_is_wrong_is_named(argument, said):
    with pytest.raises(SettingsError, match=said):
        QueueControllerSettings.parse([argument])


def a_request(build, name, *, operation="CREATE", **options):
    return AdmissionRequest(uid="1", operation=operation, name=name, object=build.queue_json(name, **options))


def test_a_sound_queue_is_allowed(build):
    review = reviewer({}, QueueRules(), nobody)
    assert review(a_request(build, "team", resources=RESOURCES)).allowed


def test_the_tree_is_looked_at_as_it_is_at_the_time(build):
    queues = {}
    review = reviewer(queues, QueueRules(), nobody)
    queues["a"] = build.queue("a", parent="b", resources=RESOURCES)
    answer = review(a_request(build, "b", parent="a", resources=RESOURCES))
    assert not answer.allowed
    assert "circle" in answer.message
    assert answer.code == 422


async def test_a_parent_that_was_just_made_is_known_where_quotas_are_compared(build):
    """As where a tree is made from one file: the watch is late."""
    there = {"root": build.queue("root", resources=RESOURCES)}
    assert (await review_below_root(build, {}, there.get)).allowed
    bare = {"root": build.queue("root")}
    assert (await review_below_root(build, bare, there.get)).allowed
    assert "is unknown; create that queue first" in (await review_below_root(build, {}, {}.get)).message


async def test_a_parent_that_cannot_be_read_is_what_the_watch_says_where_quotas_are_compared(build):
    def unreachable(name):
        raise errors.TransportError("cannot connect")

    answer = await review_below_root(build, {}, unreachable)
    assert "is unknown; create that queue first" in answer.message


async def review_below_root(build, queues, found):
    async def live(name):
        return found(name)

    answer = reviewer(queues, QueueRules(quotas=True), live)(
        a_request(build, "team", parent="root", resources=RESOURCES)
    )
    return await answer if isawaitable(answer) else answer


def test_a_queue_without_resources_is_refused_unless_it_is_on_its_way_out(build):
    review = reviewer({}, QueueRules(), nobody)
    request = a_request(build, "team", operation="UPDATE")
    assert "spec.resources is missing" in review(request).message
    request.object["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    assert review(request).allowed


@pytest.mark.parametrize("spec", [{}, {"priority": "high"}], ids=["no resources", "unreadable"])
def test_what_is_stored_and_makes_no_sense_can_be_labelled_and_can_go(build, spec):
    """Older releases, or a webhook that was switched off, let it be written."""
    old = {**build.queue_json("team"), "spec": spec}
    for metadata in ({"labels": {"a": "b"}}, {"deletionTimestamp": "2026-11-21T10:00:00Z", "finalizers": []}):
        new = {**old, "metadata": old["metadata"] | metadata}
        request = AdmissionRequest(uid="1", operation="UPDATE", name="team", object=new, old_object=old)
        assert reviewer({}, QueueRules(), nobody)(request).allowed


def a_deletion(queue):
    return AdmissionRequest(uid="1", operation="DELETE", name=queue["metadata"]["name"], old_object=queue)


def test_a_queue_with_children_may_be_deleted_but_not_without_a_word(build):
    review = reviewer(build.queues("root", "team"), QueueRules(), nobody)
    answer = review(a_deletion(build.queue_json("root")))
    assert answer.allowed
    assert "parent of team" in answer.warnings[0]
    assert review(a_deletion(build.queue_json("team"))).warnings == ()


def test_a_queue_with_work_may_be_deleted_but_not_without_a_word(build):
    review = reviewer({}, QueueRules(), nobody)
    answer = review(a_deletion(build.queue_json("team", status={"allocated": {"cpu": "2"}})))
    assert answer.allowed
    assert "holds 2 cpu" in answer.warnings[0]


def test_what_cannot_be_understood_may_be_deleted(build):
    broken = {**build.queue_json("team"), "spec": {"priority": "high"}}
    assert reviewer({}, QueueRules(refuse_deletion=True), nobody)(a_deletion(broken)).allowed


async def test_deletion_is_refused_if_the_administrator_wants_it_so(build):
    queues = build.queues("root", "team")
    answer = await refused_deletion_of_root(build, queues, queues.get)
    assert not answer.allowed
    assert "parent of team" in answer.message
    busy = build.queue_json("team", status={"requested": {"cpu": "2"}})
    assert not reviewer(queues, QueueRules(refuse_deletion=True), nobody)(a_deletion(busy)).allowed


async def test_nothing_is_refused_for_children_of_which_only_a_late_watch_knows(build):
    queues = build.queues("root", "team")
    assert (await refused_deletion_of_root(build, queues, lambda name: None)).allowed
    elsewhere = build.queue("team", parent="other", resources=RESOURCES)
    assert (await refused_deletion_of_root(build, queues, lambda name: elsewhere)).allowed


async def test_a_parent_of_thousands_costs_its_api_server_a_few_looks(build):
    queues = {
        "root": build.queue("root"),
        **{f"q{number:04}": build.queue(f"q{number:04}", parent="root") for number in range(5000)},
    }
    looked = []

    def gone_at_first(name):
        looked.append(name)
        return queues[name] if len(looked) > 3 else None

    answer = await refused_deletion_of_root(build, queues, gone_at_first)
    assert "it is the parent of q0003, q0004, q0005, q0006, q0007 and 4992 more" in answer.message
    assert len(looked) <= 10


async def test_where_children_cannot_be_read_they_count(build):
    def unreachable(name):
        raise errors.TransportError("cannot connect")

    answer = await refused_deletion_of_root(build, build.queues("root", "team"), unreachable)
    assert "parent of team" in answer.message


async def refused_deletion_of_root(build, queues, found):
    async def live(name):
        return found(name)

    review = reviewer(queues, QueueRules(refuse_deletion=True), live)
    return await review(a_deletion(build.queue_json("root")))


async def nobody(name):
    return None


def test_malformed_queues_are_refused(build):
    request = AdmissionRequest(uid="1", operation="CREATE", name="q", object={"spec": {"priority": "high"}})
    assert "queue q: Expected `int" in reviewer({}, QueueRules(), nobody)(request).message
