"""Malformed and hostile reviews: no crash, no bypass, no answer that costs more than a tenth of a second.

``make fuzz CASES=2000 SEED=7`` asks fifty times as many as cases; case by case they are always the same.
"""

import base64
import json
import os
import random
import re
import ssl
import time

import aiohttp
import jsonpatch
import msgspec
import pytest

from kai.advice.facts import Capacity, Facts
from kai.kube.errors import TransportError
from kai.model.objects import Queue
from kai.model.plurals import plural
from kai.runtime import certificates
from kai.runtime.webhook import WebhookServer
from kai.tls import CertificateFiles
from kai.validation.queues import QueueRules
from kai.validation.registration import (
    VALIDATE_POD,
    VALIDATE_POD_GROUP,
    VALIDATE_QUEUE,
    VALIDATE_TOPOLOGY,
    WARN,
    PodScope,
    of_warnings,
)
from kai_admission.advisor import advisor
from kai_admission.handlers import handlers
from kai_admission.settings import AdmissionSettings
from kai_local.apiserver.schemas import cel
from kai_podgroup_controller.webhook import review as review_pod_group
from kai_queue_controller.webhook import reviewer as queue_reviewer

from . import oracle
from .reviews import KINDS, case, odd_http
from .values import SCHEMAS, Maker

SEED = int(os.environ.get("KAI_FUZZ_SEED", "0"))
REVIEWS = int(os.environ.get("KAI_FUZZ_REVIEWS", "600"))
#: Seconds of processor time for one answer. No handler here waits for anything, so it comes no later where
#: nothing else runs. One during which garbage was collected is asked for again, and the quickest counts.
LATEST = 0.1
_ATTEMPTS = 8

PARENTS = {"org": "", "team-a": "org", "team-b": "org"}
ACCESS = {"team-b": {"access": {"namespaceSelector": {"matchLabels": {"team": "b"}}}}}
QUEUES = {
    name: msgspec.convert(
        {
            "metadata": {"name": name},
            "spec": {"parentQueue": parent, "resources": {"gpu": {"quota": 8}}} | ACCESS.get(name, {}),
        },
        Queue,
    )
    for name, parent in PARENTS.items()
}
FACTS = Facts(
    queues=QUEUES,
    namespaces={"default": {}, "ns": {"team": "b"}, "team-a": {"team": "a"}},
    priority_classes={"train", "build"},
    capacity=Capacity(nodes=2, largest={"cpu": 64, "nvidia.com/gpu": 8}, total={"cpu": 128, "pods": 220}),
    device_classes={"gpu.nvidia.com": ("nvidia.com/gpu",)},
)
#: What those who also warn refuse for.
MAY_NOT = re.compile("is not open to|is of the system")
KIND_OF = {
    VALIDATE_POD: "Pod",
    VALIDATE_POD_GROUP: "PodGroup",
    VALIDATE_QUEUE: "Queue",
    VALIDATE_TOPOLOGY: "Topology",
}


async def out_of_reach(name):
    raise TransportError("no API server here")


async def missing(reference):
    return True


async def renewed(namespace, queue):
    return FACTS


def all_handlers():
    """Of all three services, as they would be set up where parts of GPUs may be asked for."""
    settings = AdmissionSettings.parse(
        ["--gpu-sharing-enabled", "--block-nvidia-visible-devices", "--hami-core-enabled"]
    )
    return {
        **handlers(settings),
        WARN: advisor(lambda: FACTS, missing, renewed),
        VALIDATE_QUEUE: queue_reviewer(QUEUES, QueueRules(refuse_deletion=True), out_of_reach),
        VALIDATE_POD_GROUP: review_pod_group,
    }


@pytest.fixture
def server(tmp_path):
    return WebhookServer(
        all_handlers(), listen="127.0.0.1:0", certificates=CertificateFiles.in_directory(str(tmp_path))
    )


async def timed(server, one):
    began = time.process_time()
    answer = await server.answer(one.path, one.body)
    return answer, time.process_time() - began


async def quickest(server, one):
    """The answer, and the least that it took, where the first one took too long."""
    answer, seconds = await timed(server, one)
    for _ in range(_ATTEMPTS):
        if seconds <= LATEST:
            break
        seconds = min(seconds, (await timed(server, one))[1])
    return answer, seconds


def check(one, answer):
    """What is wrong with an answer; empty if nothing is."""
    if answer.status == 400:
        return "refused as no review at all" if well_formed(one) else ""
    if answer.status != 200:
        return f"status {answer.status}"
    response = json.loads(answer.body)["response"]
    if not isinstance(response["allowed"], bool):
        return "neither allowed nor refused"
    if not response["allowed"] and not response["status"]["message"]:
        return "refused without a reason"
    if one.path == WARN and not response["allowed"] and not MAY_NOT.search(response["status"]["message"]):
        return "advice refused"
    if "patch" in response and one.review is not None:
        patched = jsonpatch.apply_patch(one.object, json.loads(base64.b64decode(response["patch"])))
        assert patched != one.object
    kind = KIND_OF.get(one.path)
    if response["allowed"] and kind and not one.sub_resource:
        rule = oracle.broken(kind, one.object, one.old_object, operation=one.operation, known_queues=PARENTS)
        if rule:
            return f"allowed although {rule}"
    return ""


def well_formed(one):
    """Whether the body is a review in the types that the API has."""
    request = one.review.get("request") if isinstance(one.review, dict) else None
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        return False
    fields = ("operation", "name", "namespace")
    texts = all(isinstance(request.get(field, ""), str) for field in fields) and "operation" in request
    objects = all(
        request.get(field) is None or isinstance(request[field], dict) for field in ("object", "oldObject")
    )
    kind, user = request.get("kind", {}), request.get("userInfo", {})
    kinds = isinstance(kind, dict) and all(isinstance(value, str) for value in kind.values())
    users = (
        isinstance(user, dict)
        and isinstance(user.get("username", ""), str)
        and isinstance(user.get("groups", []), list | None)
        and all(isinstance(group, str) for group in user.get("groups") or ())
    )
    sub_resource = request.get("subResource", "")
    versions = all(isinstance(one.review.get(field, ""), str) for field in ("apiVersion", "kind"))
    dry_run = request.get("dryRun") is None or isinstance(request["dryRun"], bool)
    return texts and objects and kinds and users and isinstance(sub_resource, str) and versions and dry_run


async def test_hostile_reviews_neither_crash_nor_pass_nor_delay(server):
    wrong, slowest = [], (0.0, 0)
    for number in range(REVIEWS):
        one = case(SEED, number)
        answer, seconds = await quickest(server, one)
        slowest = max(slowest, (seconds, number))
        found = check(one, answer)
        if seconds > LATEST:
            found = f"{found} took {seconds:.3f} s"
        if found:
            wrong.append(f"seed {SEED} case {number} {one.path}: {found}: {one.body[:600]!r}")
    print(f"{REVIEWS} reviews of seed {SEED}; the slowest, {slowest[1]}, took {slowest[0] * 1000:.1f} ms")  # noqa: T201
    assert not wrong, f"{len(wrong)} of {REVIEWS}:\n" + "\n".join(wrong[:20])


def test_levels_of_a_topology_stay_whatever_is_written():
    """The definition itself says so; the webhook is not needed for it."""
    judged = 0
    for number in range(REVIEWS // 10):
        maker = Maker(random.Random(f"{SEED}:levels:{number}"))
        old, new = maker.object("Topology"), maker.object("Topology")
        if [labels(each) for each in (old, new)].count(None) or labels(old) == labels(new):
            continue
        causes = []
        cel.check_rules(SCHEMAS["Topology"], new, old, None, causes, update=True)
        assert any("immutable" in cause.message for cause in causes), (old, new)
        judged += 1
    assert judged > REVIEWS / 100


def labels(topology):
    levels = (topology.get("spec") or {}).get("levels")
    return [level["nodeLabel"] for level in levels] if levels else None


def test_advice_is_asked_about_every_kind_that_its_webhook_serves():
    webhooks = of_warnings(lambda service, path: {}, PodScope())["webhooks"]
    served = {name for webhook in webhooks for rule in webhook["rules"] for name in rule["resources"]}
    assert {plural(kind) for kind in KINDS[WARN]} == served


async def test_a_case_is_always_the_same():
    assert [case(5, n).body for n in range(20)] == [case(5, n).body for n in range(20)]
    assert case(5, 1).body != case(6, 1).body


async def test_headers_that_do_not_fit_their_body_get_an_answer(tmp_path):
    import asyncio

    served = certificates.ensure(tmp_path, ["localhost", "127.0.0.1"])
    server = WebhookServer(
        all_handlers(), listen="127.0.0.1:0", certificates=CertificateFiles.in_directory(str(tmp_path))
    )
    running = asyncio.create_task(server.run())
    await server.started.wait()
    tls, chance = ssl.create_default_context(cadata=served.trusted.decode()), random.Random(SEED)
    async with aiohttp.ClientSession() as session:
        for path in all_handlers():
            for _ in range(10):
                headers, body = odd_http(chance)
                url = f"https://127.0.0.1:{server.address[1]}{path}"
                async with session.post(url, data=body, headers=headers, ssl=tls) as answer:
                    assert answer.status in (200, 400, 413, 415), (path, headers, body, await answer.text())
    running.cancel()
