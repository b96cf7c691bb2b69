"""Only who leads knows the cluster; whoever is asked instead hands the question on."""

from contextlib import asynccontextmanager

import pytest

from deadlines import within
from kai.kube.resources import LEASES, NAMESPACES
from kai.model import names
from kai.runtime import certificates
from kai.tls import CertificateFiles
from kai.wire.channel import TlsFiles
from kai.wire.permissions import Role, identity
from kai_insight.http.passing import PASSED_ON, Passing
from kai_insight.live.live import Live
from libs.tests.engine.builders import a_job
from libs.tests.history.builders import a_run
from services.tests.insight.town import asking, rules
from services.tests.insight.watched import Watched

pytestmark = pytest.mark.integration
LEASE = names.INSIGHT_LEASE


@pytest.fixture
async def watched():
    found = Watched()
    await found.cycle(a_job("waits", gpus=16))
    yield found
    await found.checker.close()


class Replicas:
    """One that leads and one that does not, behind one Lease."""

    def __init__(self, town, database, watched):
        self.town, self.database, self.watched = town, database, watched

    @asynccontextmanager
    async def both(self, *, holder="leader", endpoint=None, shows=None, trusts=None):
        """Whoever does not lead, to be asked, and who does.

        The leader ``shows`` a certificate; the other one ``trusts`` who signed it.
        """
        admin = self.town.admin
        await admin.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
        await self.town.allow("insight", rules("coordination.k8s.io", "leases", verb="get"))
        async with (
            self.town.insight() as client,
            asking(self.database, client, live=self.watched.live, certificates=shows) as leader,
        ):
            host, port = leader.address
            told = {
                names.EPOCH_ANNOTATION: "1",
                names.ENDPOINT_ANNOTATION: endpoint or f"{host}:9091",
            }
            if holder:
                await admin.create(
                    LEASES,
                    {"metadata": {"name": LEASE, "annotations": told}, "spec": {"holderIdentity": holder}},
                    namespace=names.NAMESPACE,
                )
            passing = Passing(
                client, lease=LEASE, namespace=names.NAMESPACE, listen=f"{host}:{port}", tls=trusts
            )
            other = asking(self.database, client, live=Live(leading=False), passing=passing)
            async with other as asked:
                yield asked, leader


@pytest.fixture
def replicas(town, database, watched):
    return Replicas(town, database, watched)


async def test_a_question_is_answered_by_who_leads(replicas, boss):
    async with replicas.both() as (asked, leader):
        for path in ("live", "live/cluster", "live/waiting", "live/slots"):
            status, headers, document = await asked.call(f"/api/v1/{path}", boss)
            assert (status, headers["Content-Type"]) == (200, "application/json")
            assert document == (await leader.call(f"/api/v1/{path}", boss))[2]


async def test_a_long_answer_comes_whole(replicas, watched, boss):
    await watched.cycle(*(a_job(f"waits-{number:04}", gpus=16) for number in range(1000)))
    plain = {"Accept-Encoding": "identity"}
    async with replicas.both() as (asked, leader):
        _, _, whole = await leader.fetched("/api/v1/live/waiting", boss, headers=plain, limit=1000)
        assert len(whole) > 200_000
        status, _, handed_on = await asked.fetched("/api/v1/live/waiting", boss, headers=plain, limit=1000)
        assert (status, handed_on) == (200, whole)


async def test_an_answer_that_is_too_long_is_none(replicas, boss, monkeypatch):
    monkeypatch.setattr("kai_insight.http.passing._MOST_BYTES", 100)
    async with replicas.both() as (asked, _):
        status, code, message = await asked.refused("live/cluster", boss)
        assert (status, code, "ask for less" in message) == (503, "noState", True)


async def test_changes_come_from_who_leads(replicas, watched, boss):
    async with replicas.both() as (asked, _):
        _, _, frame = await asked.call("/api/v1/live/cluster", boss)
        stream = asked.stream("/api/v1/live/changes", boss, version=frame["version"])
        async with stream as (status, headers, events):
            assert (status, headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
            await watched.cycle()
            async with within("a change comes"):
                assert (await anext(events))[0] == "change"


async def test_a_refusal_of_who_leads_is_handed_back(replicas, root):
    async with replicas.both() as (asked, _):
        status, code, message = await asked.refused("live/cluster", root)
        assert (status, code, "list nodes" in message) == (403, "forbidden", True)


async def test_nothing_is_handed_on_for_who_is_not_known(replicas):
    async with replicas.both() as (asked, leader):
        assert (await asked.refused("live"))[0] == 401
        labels = {"path": "/api/v1/live", "code": "401"}
        assert leader.registry.get_sample_value("kai_http_requests_total", labels) is None


async def test_what_was_handed_on_is_not_handed_on_again(replicas, boss):
    async with replicas.both() as (asked, _):
        status, _, document = await asked.call("/api/v1/live", boss, headers={PASSED_ON: "1"})
        assert (status, document["error"]["code"]) == (503, "noState")


async def test_where_nobody_leads_one_is_told_so(replicas, boss):
    async with replicas.both(holder="") as (asked, _):
        assert (await asked.refused("live", boss))[:2] == (503, "noState")


async def test_where_who_leads_does_not_answer_one_is_told_so(replicas, boss):
    async with replicas.both(endpoint="127.0.0.2:9091") as (asked, _):
        status, code, message = await asked.refused("live", boss)
        assert (status, code) == (503, "noState")
        assert "does not answer" in message


def certified(folder, name):
    """Files of a server of this name, and of the authority that signed it."""
    certificates.ensure(folder, [name])
    ca, cert, key = (folder / each for each in ("ca.crt", "tls.crt", "tls.key"))
    return CertificateFiles(cert, key), TlsFiles(ca=ca, cert=cert, key=key, namespace=names.NAMESPACE)


async def test_who_leads_is_believed_by_the_certificate_of_our_authority(replicas, boss, tmp_path):
    shows, trusts = certified(tmp_path / "ours", identity(Role.INSIGHT, names.NAMESPACE))
    async with replicas.both(shows=shows, trusts=trusts) as (asked, _):
        assert (await asked.call("/api/v1/live/slots", boss))[0] == 200


async def test_nothing_is_handed_to_who_has_another_name_or_another_authority(replicas, boss, tmp_path):
    shows, trusts = certified(tmp_path / "named", "somebody.else.svc")
    async with replicas.both(shows=shows, trusts=trusts) as (asked, _):
        assert (await asked.refused("live/slots", boss))[:2] == (503, "noState")


async def test_nothing_is_handed_to_who_is_signed_by_somebody_else(replicas, boss, tmp_path):
    ours = identity(Role.INSIGHT, names.NAMESPACE)
    shows, _ = certified(tmp_path / "theirs", ours)
    _, trusts = certified(tmp_path / "ours", ours)
    async with replicas.both(shows=shows, trusts=trusts) as (asked, _):
        assert (await asked.refused("live/slots", boss))[:2] == (503, "noState")


async def test_the_history_needs_nobody_else(replicas, store, boss):
    store.add([a_run("r")])
    async with replicas.both(holder="") as (asked, _):
        assert (await asked.call("/api/v1/runs", boss))[0] == 200
