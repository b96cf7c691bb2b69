"""What the benchmark of admission sends is answered as it says, and latencies are counted as they must be."""

import asyncio
import json
import random

import pytest

from e2e.bench import admission
from e2e.bench.admission import KINDS, Kind, Load, Measured, a_review, percentile
from kai.advice.facts import Facts
from kai.runtime.webhook import WebhookServer
from kai.tls import CertificateFiles
from kai.validation.registration import WARN
from kai_admission.advisor import advisor
from kai_admission.handlers import handlers
from kai_admission.settings import AdmissionSettings


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_every_review_is_one_that_admission_understands(kind):
    async def nothing_known(*_):
        return Facts()

    settings = AdmissionSettings(gpu_sharing_enabled=True)
    answers = {**handlers(settings), WARN: advisor(Facts, nothing_known, nothing_known)}
    server = WebhookServer(answers, listen="", certificates=CertificateFiles.in_directory("nowhere"))
    response = await server.answer(kind.path, a_review(kind, random.Random(1)))
    assert response.status == 200
    assert json.loads(response.body)["response"]["allowed"] is kind.allowed


def test_shares_are_of_a_thousand():
    assert sum(kind.share for kind in KINDS) == 1000


@pytest.mark.parametrize(("percent", "value"), [(1, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)])
def test_a_percentile_is_the_least_that_so_many_do_not_exceed(percent, value):
    assert percentile([float(number) for number in range(100, 0, -1)], percent) == value


class SlowAtFirst:
    """A session whose first answer holds up all others, as a process of one thread does."""

    def __init__(self):
        self._busy = asyncio.Lock()
        self._first = True

    def post(self, url, **_):
        return self

    async def __aenter__(self):
        async with self._busy:
            await asyncio.sleep(1.0 if self._first else 0.0)
            self._first = False
        self.status = 200
        return self

    async def __aexit__(self, *_):
        pass

    async def read(self):
        return b'{"response": {"allowed": true}}'


@pytest.mark.looptime
async def test_what_waits_behind_a_slow_answer_is_charged_to_it(monkeypatch):
    """At 100 a second, of which the first takes a second: those after it waited, too."""
    monkeypatch.setattr(admission, "KINDS", (Kind("pod", 1, "/", admission._whole),))
    load = Load(None, rate=100, seed=1)
    load.measured = Measured()
    load._service = type("Service", (), {"address": "here"})
    await load._send_all(SlowAtFirst(), 2.0)
    found = load.measured.all
    assert len(found) == 200
    assert 80 < sum(latency > 100 for latency in found) < 110
    assert percentile(found, 100) >= 990
