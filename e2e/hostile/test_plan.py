"""Attacks: the same by seed, of every form, within what the tenant may write."""

import json
import random

import pytest

from e2e.hostile import site
from e2e.hostile.attacks import FORMS, Tenant, claims, combined, groups
from e2e.hostile.attacks.combined import several_over_one_pod
from e2e.hostile.plan import MOST_ALIVE, hostile, rehearsal, team
from e2e.soak.actions import Change, Put, Remove, subject
from kai.model import names

MANY = 3000
KINDS = {kind.kind for kind in site.KINDS}


def test_the_same_seed_gives_the_same_attacks_and_another_one_others():
    assert hostile(seed=3, seconds=60, objects=300) == hostile(seed=3, seconds=60, objects=300)
    assert hostile(seed=3, seconds=60, objects=300) != hostile(seed=4, seconds=60, objects=300)


def test_as_many_objects_are_put_as_were_asked_for_in_order_and_in_time():
    actions = hostile(seed=1, seconds=600, objects=MANY, begin=30)
    assert [action.at for action in actions] == sorted(action.at for action in actions)
    puts = [action for action in actions if isinstance(action.deed, Put)]
    assert MANY <= sum(len(action.deed.manifests) for action in puts) < MANY + 100
    assert 30 <= puts[0].at <= puts[-1].at < 630


def test_every_form_is_drawn():
    drawn = {action.what.partition(":")[0] for action in hostile(seed=1, seconds=600, objects=MANY)}
    assert drawn == {form.__name__.replace("_", " ") for form in FORMS}


def test_each_form_is_rehearsed():
    rehearsed = {action.what.partition(":")[0] for action in rehearsal(seed=1, seconds=30)}
    assert rehearsed == {form.__name__.replace("_", " ") for form in FORMS}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_an_attack_stays_in_the_tenants_namespace_and_within_his_rights(form, seed):
    tenant = Tenant(random.Random(seed), site.TENANT_NAMESPACES)
    attack = form(tenant, "h-1", "hostile-0")
    assert attack.manifests
    for manifest in (*attack.manifests, *(change.manifest for change in attack.later)):
        assert manifest["kind"] in KINDS
        assert manifest["metadata"]["namespace"] == "hostile-0"
        assert manifest["metadata"]["name"].startswith("h-1")
        json.dumps(manifest)


@pytest.mark.parametrize("seed", range(20))
def test_combined_attacks_are_all_over_one_pod_in_one_group(seed):
    tenant, name = Tenant(random.Random(seed), site.TENANT_NAMESPACES), "h-1"
    attack = several_over_one_pod(tenant, name, "hostile-0")
    kinds = [manifest["kind"] for manifest in attack.manifests]
    assert kinds.count("Pod") == 1
    assert kinds.count("PodGroup") <= 1
    assert {m["metadata"]["name"] for m in attack.manifests if m["kind"] in ("Pod", "PodGroup")} == {name}
    assert all(change.manifest in attack.manifests for change in attack.later)


def test_what_two_attacks_say_of_a_pod_is_said_of_the_one(monkeypatch):
    monkeypatch.setattr(combined, "_PARTS", (groups.subgroups_in_a_circle, claims.claims_without_a_way_out))
    *others, pod = several_over_one_pod(Tenant(random.Random(1), ("t",)), "h-1", "t").manifests
    assert {"PodGroup", "ResourceClaim"} <= {body["kind"] for body in others}
    assert pod["metadata"]["annotations"][names.POD_GROUP_ANNOTATION] == "h-1"
    assert pod["metadata"]["labels"][names.SUBGROUP_LABEL] == "s0"
    assert pod["spec"]["resourceClaims"] == [{"name": "devices", "resourceClaimName": "h-1"}]
    [container] = pod["spec"]["containers"]
    assert container["resources"]["claims"] == [{"name": "devices"}]


def test_not_more_objects_are_there_at_a_time_than_the_cluster_can_hold():
    alive, most = set(), 0
    for action in hostile(seed=2, seconds=600, objects=MANY):
        if isinstance(action.deed, Put):
            alive |= {subject(manifest) for manifest in action.deed.manifests}
        elif isinstance(action.deed, Remove):
            alive -= {subject(manifest) for manifest in action.deed.manifests}
        else:
            assert isinstance(action.deed, Change)
        most = max(most, len(alive))
    assert most <= MOST_ALIVE + 200


def test_the_other_team_wants_an_ordinary_pod_each_second():
    pods = [action.deed.manifests[0] for action in team(seconds=30)]
    assert len({pod["metadata"]["name"] for pod in pods}) == 30
    assert {pod["metadata"]["namespace"] for pod in pods} == {site.TEAM_NAMESPACE}
