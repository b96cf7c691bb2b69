"""What is remembered of sessions, over leaders and shards."""

from kai.model.decisions import Outcome
from kai.wire.sessions import SessionUpdate
from kai_podgroup_controller.outcomes import News, OutcomeBook


def an_update(*outcomes, full=False, forgotten=(), node_pool=""):
    return SessionUpdate(
        version=1,
        epoch=1,
        opened_at=0,
        full=full,
        outcomes=outcomes,
        forgotten=forgotten,
        node_pool=node_pool,
    )


def test_only_what_changed_concerns_anyone(build):
    book = OutcomeBook()
    assert book.take("s", an_update(build.outcome())) == {"team/train"}
    assert book.take("s", an_update(build.outcome())) == set()
    assert book.take("s", an_update(build.outcome(), full=True)) == set()
    assert book.take("s", an_update(build.outcome(message="other"))) == {"team/train"}


def test_a_full_update_forgets_what_it_does_not_have(build):
    book = OutcomeBook()
    book.take("s", an_update(build.outcome(), build.outcome(pod_group="team/b")))
    book.take("other shard", an_update(build.outcome(pod_group="team/c")))
    assert book.take("s", an_update(build.outcome(), full=True)) == {"team/b"}
    assert book.get(build.watched_group("b")) is None
    assert book.get(build.watched_group("c")) is not None


def test_a_group_made_anew_is_news_though_it_stands_as_the_one_before(build):
    book = OutcomeBook()
    book.take("s", an_update(build.outcome()))
    book.take_news(build.watched_group())
    assert book.take("s", an_update(build.outcome(), forgotten=("team/train",))) == {"team/train"}
    assert book.take_news(build.watched_group()) is not None


def test_a_group_that_moved_belongs_to_the_shard_that_spoke_last(build):
    book = OutcomeBook()
    book.take("old", an_update(build.outcome()))
    book.take("new", an_update(build.outcome(Outcome.PLACED)))
    book.take("old", an_update(forgotten=("team/train",)))
    assert book.get(build.watched_group()).outcome is Outcome.PLACED
    assert book.take("new", an_update(forgotten=("team/train",))) == {"team/train"}
    assert book.get(build.watched_group()) is None


def test_a_group_that_moved_keeps_what_its_new_shard_finds_though_the_old_one_found_the_same(build):
    book = OutcomeBook()
    book.take("old", an_update(build.outcome(Outcome.NOT_READY)))
    assert book.take("new", an_update(build.outcome(Outcome.NOT_READY))) == set()
    book.take("old", an_update(forgotten=("team/train",)))
    assert book.get(build.watched_group()) == build.outcome(Outcome.NOT_READY)
    assert book.take("old", an_update(full=True)) == set()
    assert book.take("new", an_update(full=True)) == {"team/train"}


def test_news_is_told_once_with_whether_it_is_new_that_pods_are_missing(build):
    book = OutcomeBook()
    assert book.take_news(build.watched_group()) is None
    book.take("s", an_update(build.outcome(staleness="1 active")))
    assert book.take_news(build.watched_group()) == News(found_earlier=False, staleness=True)
    assert book.take_news(build.watched_group()) is None
    book.take("s", an_update(build.outcome(staleness="1 active", message="other"), full=True))
    assert book.take_news(build.watched_group()) == News(found_earlier=False, staleness=False)
    book.take("s", an_update(build.outcome(staleness="2 active", message="other")))
    assert book.take_news(build.watched_group()) == News(found_earlier=False, staleness=True)


def test_what_is_all_that_is_known_of_a_group_may_have_been_found_earlier(build):
    book = OutcomeBook()
    book.take("s", an_update(build.outcome(), full=True))
    assert book.take_news(build.watched_group()) == News(found_earlier=True, staleness=False)


def test_of_a_group_with_pods_on_nodes_of_another_pool_the_word_of_its_own_counts(build):
    """As where a node gets another label: whoever has it now knows of the group, and not why others wait."""
    book = OutcomeBook()
    own, other = build.outcome(), build.outcome(Outcome.SETTLED, message="")
    book.take("lab", an_update(own, node_pool="lab"))
    assert book.take_news(build.watched_group(labels={"kai.scheduler/node-pool": "lab"})) is not None
    book.take("default", an_update(other))
    assert book.get(build.watched_group(labels={"kai.scheduler/node-pool": "lab"})) == own
    assert book.says_no(build.watched_group(labels={"kai.scheduler/node-pool": "lab"}))
    assert book.take_news(build.watched_group(labels={"kai.scheduler/node-pool": "lab"})) is None
    assert book.take("default", an_update(forgotten=("team/train",))) == {"team/train"}
    assert book.get(build.watched_group(labels={"kai.scheduler/node-pool": "lab"})) == own


def test_what_a_late_word_of_the_shard_that_a_group_left_replaced_is_not_forgotten_with_it(build):
    book = OutcomeBook()
    book.take("new", an_update(build.outcome(message="here"), node_pool="new"))
    book.take("old", an_update(build.outcome(message="late"), node_pool="old"))
    book.take("old", an_update(forgotten=("team/train",), node_pool="old"))
    assert book.get(build.watched_group(labels={"kai.scheduler/node-pool": "new"})).message == "here"


def test_who_took_pods_of_a_group_of_another_pool_has_a_say_in_when_that_was(build):
    book = OutcomeBook()
    book.take("lab", an_update(build.outcome(annotations={"start": "1"}), node_pool="lab"))
    taken = build.outcome(Outcome.SETTLED, annotations={"start": "0", "eviction": "2"})
    book.take("default", an_update(taken))
    assert book.annotations(build.watched_group(labels={"kai.scheduler/node-pool": "lab"})) == {
        "start": "1",
        "eviction": "2",
    }


def test_what_was_said_of_a_group_counts_for_none_that_was_made_anew_under_its_name(build):
    book = OutcomeBook()
    book.take("s", an_update(build.outcome(uid="uid-train", annotations={"start": "1"})))
    anew = build.watched_group(uid="another")
    assert book.get(anew) is None
    assert book.take_news(anew) is None
    assert not book.says_no(anew)
    assert book.annotations(anew) == {}
    assert book.says_no(build.watched_group())
    assert book.take("s", an_update(build.outcome(uid="another"))) == {"team/train"}
    assert book.says_no(anew)
