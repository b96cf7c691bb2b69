"""What is kept of all queues is what would be worked out anew, and only what changed is looked at again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.model.objects import PodGroupResources, Queue
from kai_queue_controller.accounts import Accounts
from kai_queue_controller.tree import Workloads, totals

NAMES = ["a", "b", "c", "d"]
GROUPS = st.tuples(
    st.just("group"),
    st.sampled_from(["g1", "g2", "g3"]),
    st.sampled_from(["", *NAMES]),
    st.sampled_from(["1", "100m", "2.5"]),
)
QUEUES = st.tuples(
    st.just("queue"), st.sampled_from(NAMES), st.sampled_from(["", "gone", *NAMES]), st.booleans()
)


def requested(amount):
    return msgspec.convert({"requested": {"cpu": amount}}, PodGroupResources)


def a_queue(name, parent):
    return msgspec.convert({"metadata": {"name": name}, "spec": {"parentQueue": parent}}, Queue)


@given(st.lists(st.one_of(GROUPS, QUEUES)))
def test_what_is_kept_is_what_would_be_worked_out_anew(operations):
    """Whatever came in which order, circles and parents that do not exist among it."""
    queues, groups = {}, {}
    accounts = Accounts(queues)
    for kind, name, place, more in operations:
        if kind == "group" and place:
            accounts.put(name, place, requested(more))
            groups[name] = (place, more)
        elif kind == "group":
            accounts.drop(name)
            groups.pop(name, None)
        else:
            if more:
                queues[name] = a_queue(name, place)
            else:
                queues.pop(name, None)
            accounts.replant()
        accounts.totals()
    fresh = Workloads()
    for name, (place, amount) in groups.items():
        fresh.put(name, place, requested(amount))
    assert accounts.totals() == totals(queues, fresh)


@pytest.fixture
def accounts(build):
    found = Accounts({**build.queues("root", "team", "project"), "other": build.queue("other")})
    found.take_unsettled()
    return found


def test_a_group_concerns_its_queue_and_those_above_it(accounts):
    assert accounts.put("g", "project", requested("1"))
    assert accounts.take_unsettled().keys() == {"project", "team", "root"}
    assert accounts.take_unsettled() == {}


def test_a_group_that_is_told_again_concerns_nobody(accounts):
    accounts.put("g", "project", requested("1"))
    accounts.take_unsettled()
    assert not accounts.put("g", "project", requested("1000m"))
    assert accounts.take_unsettled() == {}


def test_a_group_that_moves_concerns_both_queues(accounts):
    accounts.put("g", "team", requested("1"))
    accounts.take_unsettled()
    accounts.put("g", "other", requested("1"))
    assert accounts.take_unsettled().keys() == {"team", "root", "other"}


def test_a_tree_that_changes_concerns_all(accounts):
    accounts.replant()
    assert accounts.take_unsettled().keys() == {"root", "team", "project", "other"}


def test_who_failed_is_looked_at_again_unless_it_is_gone(accounts):
    accounts.look_at(["team", "gone"])
    assert accounts.take_unsettled().keys() == {"team"}
