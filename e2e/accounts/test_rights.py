"""The table of rights that is checked in, against what the API server says of each account."""

import asyncio
from dataclasses import replace

import pytest

from e2e.accounts.acting import LEASES_OF, OURS, accounts, acting_as
from e2e.accounts.world import RESERVATION
from helm.tests import rights
from helm.tests.rights import Right
from kai.kube.resources import Resource
from kai.model import names

RULES = Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False)
ACCESS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
#: Asked of every resource; who may not create, change or delete may not do the rest either, but read.
VERBS = ("get", "list", "create", "patch", "update", "delete")


@pytest.fixture
def table():
    """The rights that are checked in; by account, those that hold in a namespace."""
    held = rights.checked_in()

    def rights_of(account, where):
        return held.get((account, rights.EVERYWHERE), set()) | held.get((account, where), set())

    return rights_of


async def rules_in(client, namespace):
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": RULES.kind,
        "spec": {"namespace": namespace},
    }
    status = (await client.create(RULES, body))["status"]
    assert not status.get("incomplete")
    return rights.of_rules(status["resourceRules"])


async def test_the_api_server_lists_for_each_account_what_the_table_says(cluster, namespace, table, tmp_path):
    """In our namespaces, a tenant's, and that of the system; what everybody may does not count."""
    async with acting_as(cluster, tmp_path, "default", namespace=namespace) as client:
        anybody = await rules_in(client, namespace)
    for account in await accounts(cluster):
        async with acting_as(cluster, tmp_path, account) as client:
            for where in (
                names.NAMESPACE,
                RESERVATION,
                names.SCALE_ADJUST_NAMESPACE,
                namespace,
                "kube-system",
            ):
                found = await rules_in(client, where) - anybody
                assert found == table(account, where), f"{account} in {where}"


async def test_every_resource_that_is_served_is_refused_but_what_the_table_says(cluster, namespace, table):
    """Subresources too, and each Lease by its name. Everybody may ask what he may do himself."""
    served = await resources_of(cluster.client)
    assert {("", "pods/exec"), ("", "secrets"), ("coordination.k8s.io", "leases")} <= served
    ours = await accounts(cluster)
    questions = [
        (account, where, Right(verb, group, resource))
        for account in ours
        for group, resource in served
        for verb in VERBS
        for where in (namespace, names.NAMESPACE, RESERVATION, names.SCALE_ADJUST_NAMESPACE)
        if verb in ("list", "patch") or where == namespace
    ]
    questions += [
        (account, names.NAMESPACE, Right(verb, "coordination.k8s.io", "leases", lease))
        for account in ours
        for lease in LEASES_OF.values()
        for verb in ("update", "patch", "delete")
    ]
    at_once = asyncio.Semaphore(32)

    async def ask(account, where, right):
        async with at_once:
            return await allowed(cluster.client, account, where, right)

    answers = await asyncio.gather(*(ask(*question) for question in questions))
    wrong = [
        f"{account} {'may' if answer else 'may not'} {right.verb} {right.noun} in {where}"
        for (account, where, right), answer in zip(questions, answers, strict=True)
        if answer != bool({right, replace(right, name="")} & table(account, where))
    ]
    assert not wrong, "\n".join(wrong)
    assert any(answers)


async def resources_of(client):
    """All (group, resource) of the newest version of each group, subresources included."""
    groups = [("", "/api/v1")] + [
        (group["name"], f"/apis/{group['preferredVersion']['groupVersion']}")
        for group in (await client.raw("/apis"))["groups"]
    ]
    found = await asyncio.gather(*(client.raw(path) for _, path in groups))
    return {
        (group, resource["name"])
        for (group, _), listed in zip(groups, found, strict=True)
        for resource in listed["resources"]
        if not resource["name"].startswith("selfsubject")
    }


async def allowed(client, account, where, right):
    resource, _, subresource = right.resource.partition("/")
    namespace = OURS[account]
    spec = {
        "user": f"system:serviceaccount:{namespace}:{account}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
        "resourceAttributes": {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": where,
            "name": right.name,
        },
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": ACCESS.kind, "spec": spec}
    return (await client.create(ACCESS, body))["status"]["allowed"]
