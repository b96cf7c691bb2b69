"""The table of all that each account may do is checked in, so that each change of it is seen.

That an API server finds the same is held by ``e2e/accounts``.
"""

import pytest

from helm.tests import rights
from helm.tests.rights import EVERYWHERE, Right
from kai import operands
from kai.model import names
from kai_hooks.handover import WEBHOOKS

WITHOUT_CERTIFICATES = {"certificates": {"existing": {"enabled": True, "caBundle": "Q0E="}}}
READS = {"get", "list", "watch"}
OPERATOR = "kai-operator"


@pytest.fixture(scope="module")
def manifests(helm):
    values = {**WITHOUT_CERTIFICATES, "global": {"clusterAutoscaling": True}, "insight": {"enabled": True}}
    return helm.render("--is-upgrade", values=values)


def of_a_hook(manifest):
    return "helm.sh/hook" in (manifest["metadata"].get("annotations") or {})


@pytest.fixture(scope="module")
def held(manifests):
    """By those who stay; accounts of hooks are there only while helm works."""
    return rights.of_manifests([each for each in manifests if not of_a_hook(each)])


def test_hooks_write_only_what_they_are_for_and_read_no_content_of_secrets_but_ours(manifests):
    found = rights.of_manifests([each for each in manifests if of_a_hook(each)])
    assert found.keys() == {
        ("kai-config-deployer", EVERYWHERE),
        ("kai-crd-upgrader", EVERYWHERE),
        ("kai-crd-upgrader", names.NAMESPACE),
        ("kai-post-delete-scaling-cleanup", names.SCALE_ADJUST_NAMESPACE),
        ("post-delete-cleanup", EVERYWHERE),
        ("post-delete-cleanup", names.NAMESPACE),
    }
    definitions = "customresourcedefinitions"
    for right in found["kai-crd-upgrader", EVERYWHERE] | found["kai-crd-upgrader", names.NAMESPACE]:
        assert right.name or (right.verb, right.resource) == ("create", definitions), right
        assert right.verb in ("get", "patch", "create"), right
    assert {
        (right.verb, right.resource, right.name) for right in found["kai-config-deployer", EVERYWHERE]
    } == {
        ("patch", "configs", "kai-config"),
        ("patch", "schedulingshards", "default"),
    }
    assert {right.verb for right in found["post-delete-cleanup", names.NAMESPACE]} == {"list", "delete"}
    of_scaling = found["kai-post-delete-scaling-cleanup", names.SCALE_ADJUST_NAMESPACE]
    assert {right.verb for right in of_scaling} == {"list", "delete"}
    everywhere = found["post-delete-cleanup", EVERYWHERE]
    assert {(right.verb, right.resource) for right in everywhere if not right.name} == {
        ("list", "configs"),
        ("list", "schedulingshards"),
        ("patch", "configs/status"),
        ("patch", "schedulingshards/status"),
    }
    assert {(right.resource, right.name) for right in everywhere if right.name} == {
        (resource.plural, name) for resource, of_webhooks in WEBHOOKS.items() for name in of_webhooks
    }
    assert {right.verb for right in everywhere if right.name} == {"get", "delete"}


def test_the_page_lists_what_each_account_may_do_row_by_row(held):
    """Where it does not, the assertion shows the table as it should be."""
    expected = rights.as_table(held)
    assert rights.rows() == expected, "\n" + "\n".join(expected)


def test_the_table_is_read_as_it_is_written(held):
    assert rights.checked_in() == held


def test_the_operator_reads_the_secrets_that_it_makes_and_no_others(held):
    of_secrets = {right for right in held[OPERATOR, names.NAMESPACE] if right.resource == "secrets"}
    assert {right.verb for right in of_secrets if not right.name} == {"create"}
    assert {right.name for right in of_secrets if right.name} == {*operands.all_secrets()}


def test_nothing_is_given_out_in_namespaces_that_are_not_ours(held):
    """But for a look at where the API server is."""
    ours = {names.NAMESPACE, names.RESERVATION_NAMESPACE, names.SCALE_ADJUST_NAMESPACE}
    assert {where for _, where in held} == ours | {EVERYWHERE, "default"}
    assert held[OPERATOR, "default"] == {
        Right(verb, "discovery.k8s.io", "endpointslices") for verb in ("list", "watch")
    }


def test_who_makes_all_the_others_writes_in_our_namespaces_and_elsewhere_only_what_has_our_names(held):
    """Whoever may make Deployments may have anything run there, with any account of that namespace."""
    for right in held[OPERATOR, EVERYWHERE]:
        named = bool(right.name) or (
            right.verb == "create"  # which names, policies say where there are any
            and right.resource.endswith(("webhookconfigurations", "priorityclasses"))
        )
        told = right.resource in ("configs/status", "schedulingshards/status", "events")
        held_back = right.resource.endswith("/finalizers")
        assert right.verb in READS or named or told or held_back, right
        assert right.resource not in {"secrets", "pods", "configmaps"}, right


def test_no_account_can_come_by_more_than_it_has(held):
    """Neither by secrets and tokens of others, nor by running things, nor by changing roles and webhooks."""
    for (account, where), found in held.items():
        for right in found if account != OPERATOR else ():
            if right == Right("create", "authentication.k8s.io", "tokenreviews"):
                continue  # tells whose a token is that one has
            assert right.group not in (
                "rbac.authorization.k8s.io",
                "admissionregistration.k8s.io",
                "apiextensions.k8s.io",
                "certificates.k8s.io",
                "authentication.k8s.io",
            ), f"{account} {where}: {right}"
            assert not {"*", "impersonate", "escalate", "bind", "deletecollection"} & {
                right.verb,
                right.resource,
                right.group,
            }
            assert right.resource not in {"secrets", "serviceaccounts", "serviceaccounts/token"}
            assert right.resource not in {"pods/exec", "pods/attach", "pods/portforward", "pods/proxy"}
            assert right.resource not in {"nodes/proxy", "pods/ephemeralcontainers", "pods/resize"}
            if right.resource in {"nodes", "namespaces", "nodes/status"}:
                assert right.verb in READS


def test_pods_are_made_in_two_namespaces_only_and_by_one_account_in_each(held):
    makers = {key for key, found in held.items() if Right("create", "", "pods") in found}
    assert makers == {
        ("binder", names.RESERVATION_NAMESPACE),
        ("node-scale-adjuster", names.SCALE_ADJUST_NAMESPACE),
    }
