"""Who may use a queue: one table for the webhook, the scheduler and explanations."""

import msgspec
import pytest

from kai.model import access
from kai.model.access import User
from kai.model.objects import Queue, QueueAccess

TEAM_B = User(namespace="team-b", labels={"team": "b", "stage": "dev"}, account="trainer")
TEAM_A = User(namespace="team-a", labels={"team": "a"}, account="trainer")
SELECTS_B = {"matchLabels": {"team": "b"}}


def an_access(told):
    return None if told is None else msgspec.convert(told, QueueAccess)


def a_queue(name, parent="", told=None):
    body = {"metadata": {"name": name}, "spec": {"parentQueue": parent}}
    if told is not None:
        body["spec"]["access"] = told
    return msgspec.convert(body, Queue)


def tree(*queues):
    return {queue.metadata.name: queue for queue in queues}


@pytest.mark.parametrize(
    ("told", "team_a", "team_b"),
    [
        pytest.param(None, True, True, id="nothing said: everybody"),
        pytest.param({}, False, False, id="an empty one: nobody"),
        pytest.param({"namespaces": []}, False, False, id="an empty list: nobody"),
        pytest.param({"namespaces": ["team-b"]}, False, True, id="a namespace by name"),
        pytest.param({"namespaces": ["team-*", "TEAM-A"]}, False, False, id="no pattern, no other case"),
        pytest.param({"namespaceSelector": {}}, True, True, id="an empty selector: all"),
        pytest.param({"namespaceSelector": SELECTS_B}, False, True, id="labels"),
        pytest.param(
            {"namespaceSelector": SELECTS_B | {"matchExpressions": [{"key": "stage", "operator": "Exists"}]}},
            False,
            True,
            id="labels and expressions, all of them",
        ),
        pytest.param(
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]
                }
            },
            True,
            False,
            id="all but some",
        ),
        pytest.param(
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "team", "operator": "Near", "values": ["b"]}]
                }
            },
            False,
            False,
            id="an operator that nobody knows admits nobody",
        ),
        pytest.param({"serviceAccounts": ["team-b/trainer"]}, False, True, id="a service account"),
        pytest.param({"serviceAccounts": ["team-b/other"]}, False, False, id="another account of theirs"),
        pytest.param({"serviceAccounts": ["trainer", "/trainer"]}, False, False, id="one of no namespace"),
        pytest.param({"groups": ["system:serviceaccounts:team-b"]}, False, True, id="their accounts' group"),
        pytest.param({"groups": ["system:serviceaccounts"]}, True, True, id="the group of all accounts"),
        pytest.param({"groups": ["system:serviceaccounts:team"]}, False, False, id="no part of a name"),
        pytest.param(
            {"namespaces": ["team-a"], "namespaceSelector": SELECTS_B}, True, True, id="any of the parts"
        ),
    ],
)
def test_who_is_admitted(told, team_a, team_b):
    assert (access.admits(an_access(told), TEAM_A), access.admits(an_access(told), TEAM_B)) == (
        team_a,
        team_b,
    )


def test_while_the_account_is_not_known_any_of_the_namespace_may_come():
    told = an_access({"serviceAccounts": ["team-b/trainer"]})
    assert access.admits(told, User(namespace="team-b"))
    assert not access.admits(told, User(namespace="team"))


def test_what_a_parent_says_holds_for_its_children():
    queues = tree(
        a_queue("org", told={"namespaces": ["team-b"]}),
        a_queue("open", "org"),
        a_queue("wide", "org", {"namespaces": ["team-a", "team-b"]}),
        a_queue("narrow", "org", {"namespaces": ["team-a"]}),
    )
    assert [access.barrier(name, queues, TEAM_A) for name in ("open", "wide", "narrow")] == ["org"] * 3
    assert [access.barrier(name, queues, TEAM_B) for name in ("open", "wide", "narrow")] == ["", "", "narrow"]


def test_what_does_not_exist_or_goes_in_a_circle_keeps_nobody_out():
    assert access.barrier("none", {}, TEAM_A) == ""
    assert access.barrier("x", tree(a_queue("x", "y"), a_queue("y", "x")), TEAM_A) == ""


def test_a_refusal_says_which_queue_who_may_use_it_and_whom_to_ask():
    told = an_access({"namespaces": ["b", "c", "d", "e"], "namespaceSelector": SELECTS_B})
    text = access.refusal("leaf", "org", told, TEAM_A)
    assert text == (
        'queue "org", above queue "leaf", is not open to namespace "team-a", service account "trainer": '
        "it admits namespaces b, c, d, and 1 more; namespaces with labels team=b; "
        'name a queue of yours, or ask who administers queue "org" to add you to its spec.access'
    )


@pytest.mark.parametrize(
    ("name", "namespace", "refused"),
    [
        ("system-node-critical", "team-a", True),
        ("system-cluster-critical", "team-a", True),
        ("system-node-critical", "kube-system", False),
        ("inference", "team-a", False),
        ("my-system-class", "team-a", False),
        ("", "team-a", False),
    ],
)
def test_priorities_of_the_system_are_for_its_namespaces(name, namespace, refused):
    assert access.usurped(name, namespace, {"kube-system"}) is refused
