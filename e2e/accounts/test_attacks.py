"""Whoever has a token of ours, and a tenant who may do all in his namespace, try what is not theirs."""

import asyncio
import re

from e2e.accounts.acting import OURS, accounts, acting_as, describe, refusal
from e2e.accounts.attacks import ATTACKS, as_anybody, as_tenant, on_leases
from e2e.accounts.world import TENANT
from e2e.manifests import a_deployment, as_yaml
from kai.kube.resources import EVENTS


async def test_whoever_has_the_token_of_a_process_gets_nothing_that_it_does_not_need(
    cluster, world, tmp_path
):
    got = []
    for account in await accounts(cluster):
        attacks = ATTACKS[account]
        async with acting_as(cluster, tmp_path, account) as client:
            tried = [*as_anybody(world), *on_leases(world, account), *attacks(world)]
            answers = await asyncio.gather(
                *(refusal(client, request, reader=cluster.client) for request, _ in tried)
            )
        for (request, words), answer in zip(tried, answers, strict=True):
            if not re.search(words, answer):
                got.append(f"{account}: {describe(request)}: {answer}, instead of {words!r}")
    assert not got, "\n".join(got)
    assert ATTACKS.keys() == OURS.keys()


async def test_a_tenant_cannot_write_what_was_granted_nor_what_became_of_it(cluster, world, tmp_path):
    got = []
    async with acting_as(cluster, tmp_path, TENANT, namespace=world.namespace) as client:
        for request, words in as_tenant(world):
            answer = await refusal(client, request, reader=cluster.client)
            if words not in answer:
                got.append(f"{describe(request)}: {answer}, instead of {words!r}")
    assert not got, "\n".join(got)


async def test_a_tenant_whose_job_asks_for_what_only_the_binder_grants_gets_no_pods(
    cluster, queue, namespace
):
    own = await queue()
    await cluster.apply(as_yaml(a_deployment("sly", namespace, own, labels={"runai-gpu-group": "x"})))

    async def told():
        events = await cluster.client.list(EVENTS, namespace=namespace)
        return [event["note"] for event in events if event["reason"] == "FailedCreate"]

    notes = await cluster.eventually(told, bool, what="the ReplicaSet is told")
    assert "only the binder may write them" in notes[0]
