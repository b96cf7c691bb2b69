"""Pods are replaced when the account whose tokens they hold was made anew."""

import copy

import pytest

from kai_operator.accounts import ACCOUNT, with_accounts
from kai_operator.kinds import ref_of

EARLY, LATE = "2026-11-24T09:59:59Z", "2026-11-24T10:00:00Z"


@pytest.fixture
def world(build):
    """A Deployment that is wanted, and what is there of it and its account."""

    class World:
        def __init__(self):
            self.wanted = build.deployment()
            self.wanted["spec"]["template"]["spec"]["serviceAccountName"] = "binder"
            self.found = {}

        def there(self, manifest, made, *, uid="u1"):
            live = copy.deepcopy(manifest)
            live["metadata"] |= {"creationTimestamp": made, "uid": uid}
            self.found[ref_of(live)] = live
            return live

        def account(self, made, **more):
            return self.there(build.account("binder"), made, **more)

        def said(self):
            [made] = with_accounts([self.wanted], self.found.get)
            annotations = made["spec"]["template"]["metadata"].get("annotations", {})
            assert made["metadata"] == self.wanted["metadata"]
            return annotations.get(ACCOUNT)

    return World()


@pytest.mark.parametrize(("account", "deployment"), [(EARLY, LATE), (LATE, LATE)])
def test_an_account_that_was_there_first_changes_nothing(world, account, deployment):
    world.account(account)
    world.there(world.wanted, deployment)
    assert world.said() is None


def test_a_younger_account_is_said_on_the_pods(world):
    world.account(LATE, uid="u2")
    world.there(world.wanted, EARLY)
    assert world.said() == "u2"


def test_while_the_account_is_missing_all_stays_as_it_is(world):
    live = world.there(world.wanted, EARLY)
    assert world.said() is None
    live["spec"]["template"]["metadata"]["annotations"] = {ACCOUNT: "u2"}
    assert world.said() == "u2"


def test_what_is_not_there_yet_will_have_tokens_of_the_account_that_there_is(world):
    world.account(LATE)
    assert world.said() is None


def test_pods_without_a_token_are_not_replaced(world):
    world.wanted["spec"]["template"]["spec"]["automountServiceAccountToken"] = False
    world.account(LATE)
    world.there(world.wanted, EARLY)
    assert world.said() is None
