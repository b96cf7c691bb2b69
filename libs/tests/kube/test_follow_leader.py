"""Following the holder of a Lease over HTTP."""

from deadlines import within
from kai.kube.lease import follow_leader
from kai.kube.leases import Leader

PATH = "/apis/coordination.k8s.io/v1/namespaces/kai-scheduler/leases"


def a_lease(version, holder, *, epoch="", endpoint="", duration=15):
    annotations = {}
    if epoch:
        annotations = {"kai.scheduler/epoch": epoch, "kai.scheduler/endpoint": endpoint}
    metadata = {
        "name": "kai",
        "namespace": "kai-scheduler",
        "uid": "u",
        "resourceVersion": str(version),
        "annotations": annotations,
    }
    return {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration}}


def changed(lease):
    return {"type": "MODIFIED", "object": lease}


END = {
    "type": "BOOKMARK",
    "object": {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}},
}


async def collect(client, count):
    found = []
    async with within(f"{count} leaders are told"):
        async for leader in follow_leader(client, "kai", "kai-scheduler"):
            found.append(leader)
            if len(found) == count:
                break
    return found


async def test_leaders_are_told_once_their_epoch_is_known(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.stream(
            changed(a_lease(1, "a", epoch="1", endpoint="x:1")),
            END,
            hold=True,
        ),
    )
    assert await collect(client, 1) == [Leader("a", "x:1", 1)]
    assert server.received("GET", PATH)[0].query["fieldSelector"] == "metadata.name=kai"


async def test_a_change_of_leader_is_nobody_and_then_the_new_one(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.stream(changed(a_lease(1, "a", epoch="1", endpoint="x:1")), END),
        answers.stream(changed(a_lease(12, "b"))),
        answers.stream(changed(a_lease(13, "b", epoch="12", endpoint="y:1")), hold=True),
    )
    assert await collect(client, 3) == [Leader("a", "x:1", 1), None, Leader("b", "y:1", 12)]


async def test_no_lease_is_nobody(client, server, answers):
    server.script("GET", PATH, answers.stream(END, hold=True))
    assert await collect(client, 1) == [None]


async def test_a_leader_that_stops_renewing_becomes_nobody(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.stream(changed(a_lease(1, "a", epoch="1", endpoint="x:1", duration=1)), END, hold=True),
    )
    assert await collect(client, 2) == [Leader("a", "x:1", 1), None]
