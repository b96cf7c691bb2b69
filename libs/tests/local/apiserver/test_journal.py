"""A server that was killed goes on where it was."""

import signal
import ssl

import aiohttp
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deadlines import within
from kai_local.apiserver.calls.requests import Target, User, WriteOptions
from kai_local.apiserver.serving.server import ApiServer
from kai_local.apiserver.store.journal import Journal, JournalError
from kai_local.apiserver.store.storage import Store
from libs.tests.local.apiserver.test_process import begin

PODS, MAPS = ("", "pods"), ("", "configmaps")


def a_store(path, **options) -> tuple[Store, Journal]:
    store = Store(first=0)
    journal = Journal(path, store, **options)
    journal.restore()
    return store, journal


def content(store: Store):
    return {
        key: [(record.key, record.version, record.creator, record.obj) for record in collection.records()]
        for key, collection in store.collections().items()
        if collection.count
    }


def put(store, key, name, **more):
    return store.collection(key).put(
        {"metadata": {"name": name, "namespace": "a", "uid": name}, **more}, "me"
    )


writes = st.lists(
    st.tuples(st.sampled_from([PODS, MAPS]), st.sampled_from("abcd"), st.booleans(), st.text(max_size=20)),
    max_size=60,
)


@given(
    writes=writes, compact_from=st.sampled_from([1, 500, 10_000_000]), restarts=st.sets(st.integers(0, 59))
)
def test_whatever_is_written_is_there_again(tmp_path_factory, writes, compact_from, restarts):
    path = tmp_path_factory.mktemp("journal") / "journal"
    store, journal = a_store(path, compact_from=compact_from)
    for number, (key, name, removes, text) in enumerate(writes):
        record = store.collection(key).get("a", name)
        if removes and record is not None:
            store.collection(key).remove(record)
        else:
            put(store, key, name, text=text, number=number / 3)
        if number in restarts:
            before, version = content(store), store.version
            journal.close()
            store, journal = a_store(path, compact_from=compact_from)
            assert (content(store), store.version) == (before, version)
    journal.close()
    again, journal = a_store(path)
    journal.close()
    assert (content(again), again.version) == (content(store), store.version)


def test_what_is_dead_does_not_stay_on_disk(tmp_path):
    store, journal = a_store(tmp_path / "journal", compact_from=10_000)
    for number in range(1_000):
        put(store, PODS, "one", text="x" * 100, number=number)
    assert (tmp_path / "journal").stat().st_size < 12_000
    assert list(tmp_path.iterdir()) == [tmp_path / "journal"]
    journal.close()


def test_a_line_that_was_cut_off_was_answered_to_nobody(tmp_path):
    path = tmp_path / "journal"
    store, journal = a_store(path)
    put(store, PODS, "one")
    before = content(store)
    put(store, PODS, "two")
    journal.close()
    path.write_bytes(path.read_bytes()[:-7])
    again, journal = a_store(path)
    assert content(again) == before
    put(again, PODS, "three")
    journal.close()
    again, journal = a_store(path)
    journal.close()
    assert [name for (_, name), *_ in content(again)[PODS]] == ["one", "three"]


@pytest.mark.parametrize("line", [b"nonsense\n", b'["","pods",7,null,["a","nobody"]]\n', b'["","pods"]\n'])
def test_damage_is_told_with_its_line_and_what_to_do(tmp_path, line):
    path = tmp_path / "journal"
    store, journal = a_store(path)
    put(store, PODS, "one")
    journal.close()
    path.write_bytes(path.read_bytes() + line + b"0\n")
    with pytest.raises(JournalError, match=r"journal, line 3 is damaged .*; remove the file"):
        Journal(path, Store()).restore()


async def test_a_journal_that_cannot_be_written_ends_the_server(tmp_path, monkeypatch):
    store, journal = a_store(tmp_path / "journal")

    class Full:
        def write(self, line):
            raise OSError(28, "No space left on device")

    journal.close()
    monkeypatch.setattr(journal, "_file", Full())
    with pytest.raises(SystemExit) as ended:
        put(store, PODS, "one")
    assert ended.value.code == 1


def test_who_watches_is_told_of_every_write_though_there_is_no_room_to_write_the_journal_anew(tmp_path):
    path = tmp_path / "journal"
    store, journal = a_store(path, compact_from=1_000)
    seen = []
    store.collection(PODS).listeners.append(lambda change: seen.append(change.version))
    path.with_suffix(".new").symlink_to("/dev/full")
    made = [put(store, PODS, "one", number=number).version for number in range(100)]
    assert seen == made
    journal.close()
    again, journal = a_store(path)
    journal.close()
    assert (content(again), again.version) == (content(store), store.version)


@pytest.mark.integration
async def test_a_killed_server_is_the_same_one_when_it_is_started_again(tmp_path):
    process = await begin("--dir", str(tmp_path))
    url = (await process.stdout.readline()).decode().split()[-1]
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    context.load_cert_chain(tmp_path / "admin.crt", tmp_path / "admin.key")
    kubeconfig = (tmp_path / "kubeconfig").read_text()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:

        async def call(method, path, body=None, **headers):
            async with session.request(method, url + path, json=body, headers=headers) as answer:
                return answer.status, await answer.json()

        await call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        pods = "/apis/example.com/v1/namespaces/team/widgets"
        await call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
        _, made = await call("POST", pods, {"metadata": {"name": "one"}, "spec": {"size": 3}})
        account = "/api/v1/namespaces/team/serviceaccounts/default"
        _, token = await call("POST", f"{account}/token", {"spec": {}})
        _, before = await call("GET", pods)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        process = await begin("--dir", str(tmp_path), "--listen", url.removeprefix("https://"))
        try:
            await process.stdout.readline()
            assert (tmp_path / "kubeconfig").read_text() == kubeconfig
            assert await call("GET", pods) == (200, before)
            bearer = {"Authorization": f"Bearer {token['status']['token']}"}
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            _, who = await call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, **bearer)
            assert who["status"]["userInfo"]["username"] == "system:serviceaccount:team:default"
            # A watch goes on from before, and versions go on rising.
            since = before["metadata"]["resourceVersion"]
            watch = f"{url}{pods}?watch=1&resourceVersion={since}"
            async with within("the change comes"), session.get(watch) as events:
                _, changed = await call("PUT", f"{pods}/one", made | {"spec": {"size": 4}})
                event = msgspec.json.decode(await events.content.readline())
            assert event == {"type": "MODIFIED", "object": changed}
            assert int(changed["metadata"]["resourceVersion"]) > int(since)
        finally:
            process.terminate()
            await process.wait()


async def test_a_service_gets_an_address_that_no_other_has_though_the_server_was_started_anew(tmp_path):
    for name in ("a", "b"):
        async with ApiServer(folder=tmp_path) as server:
            services = server.catalogue.get("", "services")
            target = Target(services, services.versions["v1"], "default")
            service = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
            await server.registry.create(target, service, WriteOptions(User("me")))
            made = server.store.collection(("", "services")).records("default")
            addresses = [record.obj["spec"]["clusterIP"] for record in made]
    assert len(addresses) == len(set(addresses)) == 2


async def test_credentials_that_are_damaged_are_told(tmp_path):
    (tmp_path / "credentials.json").write_text("{}")
    with pytest.raises(ValueError, match=r"credentials.json is damaged .*; remove its folder"):
        ApiServer(folder=tmp_path)


WIDGETS = yaml.safe_load("""
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
""")
