"""What is remembered of sessions, over leaders and shards."""

from kai.model.decisions import Outcome
from kai.wire.sessions import SessionUpdate
from kai_podgroup_controller.outcomes import News, OutcomeBook


def an_update(*outcomes, full=False, forgotten=()):
    return SessionUpdate(version=1, epoch=1, opened_at=0, full=full, outcomes=outcomes, forgotten=forgotten)


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
    assert book.get("team/b") is None
    assert book.get("team/c") is not None


def test_a_group_made_anew_is_news_though_it_stands_as_the_one_before(build):
    book = OutcomeBook()
    book.take("s", an_update(build.outcome()))
    book.take_news("team/train")
    assert book.take("s", an_update(build.outcome(), forgotten=("team/train",))) == {"team/train"}
    assert book.take_news("team/train") is not None


def test_a_group_that_moved_belongs_to_the_shard_that_spoke_last(build):
    book = OutcomeBook()
    book.take("old", an_update(build.outcome()))
    book.take("new", an_update(build.outcome(Outcome.PLACED)))
    assert book.take("old", an_update(forgotten=("team/train",))) == set()
    assert book.get("team/train").outcome is Outcome.PLACED
    assert book.take("new", an_update(forgotten=("team/train",))) == {"team/train"}
    assert book.get("team/train") is None


def test_a_group_that_moved_keeps_what_its_new_shard_finds_though_the_old_one_found_the_same(build):
    book = OutcomeBook()
    book.take("old", an_update(build.outcome(Outcome.NOT_READY)))
    assert book.take("new", an_update(build.outcome(Outcome.NOT_READY))) == set()
    assert book.take("old", an_update(forgotten=("team/train",))) == set()
    assert book.get("team/train") == build.outcome(Outcome.NOT_READY)
    assert book.take("old", an_update(full=True)) == set()
    assert book.take("new", an_update(full=True)) == {"team/train"}


def test_news_is_told_once_with_whether_it_is_new_that_pods_are_missing(build):
    book = OutcomeBook()
    assert book.take_news("team/train") is None
    book.take("s", an_update(build.outcome(staleness="1 active")))
    assert book.take_news("team/train") == News(found_earlier=False, staleness=True)
    assert book.take_news("team/train") is None
    book.take("s", an_update(build.outcome(staleness="1 active", message="other"), full=True))
    assert book.take_news("team/train") == News(found_earlier=True, staleness=False)
    book.take("s", an_update(build.outcome(staleness="2 active", message="other")))
    assert book.take_news("team/train") == News(found_earlier=False, staleness=True)
