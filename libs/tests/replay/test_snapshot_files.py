"""Snapshot files: what is read from them, what is not, and what is said about it."""

import io
import json
import random
import zipfile

import msgspec
import pytest

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.bench.worlds import NOW, World
from kai.config import EngineParams
from kai.engine import Engine, SchedulerConfig
from kai.model.failures import FailedOver
from kai.replay import archive, config, params
from kai.replay.content import without_content
from kai.replay.scene import set_up
from kai.snapshot.state import StateParams
from libs.tests.engine.random_worlds import WORLDS, fuzz

#: As the original writes it: what is false, zero or empty is left out.
GO_PARAMS = {
    "schedulerName": "kai-scheduler",
    "partitionParams": {"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": "blue"},
    "maxNumberConsolidationPreemptees": 16,
    "useSchedulingSignatures": True,
    "fullHierarchyFairness": True,
    "numOfStatusRecordingWorkers": 5,
    "globalDefaultStalenessGracePeriod": 60_000_000_000,
    "schedulePeriod": 1_000_000_000,
    "stuckInReleasingThreshold": 120_000_000_000,
    "queueLabelKey": "kai.scheduler/queue",
}


def a_file(*, raw=None, **document):
    found = {"config": None, "schedulerParams": None, "rawObjects": raw or {}, **document}
    return json.dumps(found).encode()


def zipped(text):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("snapshot.json", text)
    return buffer.getvalue()


def a_small_cluster():
    objects = {
        "nodes": [a_node("n1", gpus=2)],
        "queues": [a_queue("top"), a_queue("team", parent="top", gpu=2)],
        "podGroups": [a_group("fits", queue="team"), a_group("large", queue="team")],
        "pods": [a_pod("fits-0", group="fits", gpus=1), a_pod("large-0", group="large", gpus=3)],
    }
    return msgspec.to_builtins(objects)


def scene_of(data):
    return set_up(archive.read(data))


def test_a_zip_that_unpacks_to_more_than_any_snapshot_has_is_refused_unread(monkeypatch):
    monkeypatch.setattr(archive, "SMALL_BYTES", 1 << 20)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(archive.FILE, b" " * (8 << 20))
    with pytest.raises(archive.ArchiveError, match="has more than 1 MiB"):
        archive.read(packed.getvalue())


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_is_damaged_is_told_however_it_is_packed(method):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as file:
        file.writestr("snapshot.json", b'{"rawObjects": {}}' * 50)
    damaged = bytearray(packed.getvalue())
    damaged[60:70] = b"\xff" * 10
    with pytest.raises(archive.ArchiveError, match="can be read from the zip"):
        archive.read(bytes(damaged))


def test_zip_and_bare_json_are_the_same():
    text = a_file(raw=a_small_cluster())
    assert archive.read(zipped(text)) == archive.read(text)


def test_what_is_written_is_read_back():
    found = archive.Archive(
        config={"actions": "allocate"}, params=GO_PARAMS, raw_objects={"pods": []},
        discovery={"serverVersion": None, "resources": []}, taken_at=NOW,
    )  # fmt: skip
    assert archive.read(archive.write(found)) == found


def test_an_object_that_cannot_be_written_is_named():
    pods = [{"metadata": {"namespace": "ns", "name": name}} for name in ("even", "odd", "other")]
    pods[1][("no", "text")] = 1
    with pytest.raises(FailedOver, match="Pod ns/odd: TypeError"):
        archive.write(archive.Archive(config=None, params=None, raw_objects={"nodes": None, "pods": pods}))


def test_parameters_that_the_original_leaves_out_are_false_or_zero():
    state, engine, notes = params.read(GO_PARAMS)
    assert notes == ()
    assert (state.node_pool_label_key, state.node_pool) == ("kai.scheduler/node-pool", "blue")
    assert not engine.allow_consolidating_reclaim
    assert not state.restrict_node_scheduling
    assert engine.default_staleness_grace_seconds == 60
    assert params.read({"schedulerName": "x"})[1].max_consolidation_preemptees == 0


def test_parameters_and_configuration_survive_a_round_trip():
    keys = {f"{which}_worker_label_key": f"example.com/{which}" for which in ("cpu", "gpu", "mig")}
    state = StateParams(scheduler_name="s", node_pool="p", full_hierarchy_fairness=False, **keys)
    engine = EngineParams(default_staleness_grace_seconds=-1.0, detailed_fit_errors=True)
    assert params.read(json.loads(json.dumps(params.document(state, engine)))) == (state, engine, ())
    told = "actions: allocate\nqueueDepthPerAction: {reclaim: 3}\n"
    told += "scenarioSearchBudgets: {maxJobSearchDuration: 90s}"
    scheduler = SchedulerConfig.parse(told, params=engine)
    assert config.read(json.loads(json.dumps(config.document(scheduler))), engine) == (scheduler, ())


def test_what_another_version_says_is_ignored_with_a_note():
    told = a_file(
        raw={"pods": None, "widgets": []},
        config={"actions": "allocate, teleport", "colour": "red"},
        schedulerParams={**GO_PARAMS, "warpFactor": 9},
    )
    found = scene_of(told)
    assert found.config.actions == ("allocate",)
    assert [note.split(" is ")[0] for note in found.notes[:-1]] == [
        "schedulerParams.warpFactor", "config.colour", "action 'teleport'", "rawObjects.widgets",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(b"{", "nor its JSON", id="cut off"),
        pytest.param(b"[]", "no rawObjects", id="another document"),
        pytest.param(b"PK rubbish", "can be read from the zip", id="broken zip"),
        pytest.param(a_file(raw={"pods": {}}), "rawObjects.pods is {}; it must be a list", id="no list"),
        pytest.param(a_file(raw={"pods": [{}]}), r"pods\[0\] has no metadata.name", id="no name"),
        pytest.param(
            a_file(raw={"pods": [{"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": 3}}]}),
            r"pods n/p: .*\$.spec.nodeName", id="wrong field",
        ),
        pytest.param(
            a_file(schedulerParams={"schedulePeriod": 1, "stuckInReleasingThreshold": "2m"}),
            "schedulerParams.stuckInReleasingThreshold is '2m'; it must be an integer", id="duration as text",
        ),
        pytest.param(
            a_file(config={"scenarioSearchBudgets": {"maxJobSearchDuration": "soon"}}),
            "scenarioSearchBudgets.maxJobSearchDuration", id="no duration",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(document, message):
    with pytest.raises(archive.ArchiveError, match=message):
        scene_of(document)


@pytest.mark.parametrize(
    ("kind", "changed", "named"),
    [
        ("pods", {"metadata": {"annotations": {"gpu-memory": str(2**63 - 1)}}}, "gpu-memory"),
        ("nodes", {"status": {"allocatable": {"cpu": "many"}}}, "many"),
    ],
)
def test_what_the_scheduler_could_not_take_in_is_left_out_here_too_and_told(kind, changed, named):
    raw = a_small_cluster()
    for part, fields in changed.items():
        raw[kind][0].setdefault(part, {}).update(fields)
    found = scene_of(a_file(raw=raw))
    [fault] = found.state.faults.values()
    assert fault.key.endswith(raw[kind][0]["metadata"]["name"])
    assert found.notes[-1] == f"{fault.kind} {fault.key} was left out: {fault.message}"
    assert named in fault.message


def test_a_file_that_does_not_say_when_is_as_old_as_its_newest_object():
    raw = a_small_cluster()
    raw["pods"][0]["metadata"]["creationTimestamp"] = "2026-03-01T12:00:00Z"
    raw["pods"][1]["metadata"]["deletionTimestamp"] = "2027-03-01T12:00:00Z"
    assert scene_of(a_file(raw=raw)).now == 1772366400.0
    assert scene_of(a_file(raw=raw, takenAt="2026-03-01T12:00:05Z")).now == 1772366405.0


def test_a_bind_request_that_has_not_failed_holds_its_place():
    raw = a_small_cluster()
    request = {
        "metadata": {"name": "fits-0", "namespace": "default"},
        "spec": {"podName": "fits-0", "selectedNode": "n1"},
    }
    for phase, binds in (("Pending", 0), ("", 0), ("Failed", 1)):
        found = scene_of(a_file(raw={**raw, "bindRequests": [{**request, "status": {"phase": phase}}]}))
        assert len(Engine(found.config).run(found.state, found.now).binds) == binds, phase


def test_nothing_that_may_be_secret_is_kept():
    reference = {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}
    container = {
        "name": "main",
        "image": "registry/hunter2",
        "command": ["run", "--password=hunter2"],
        "args": ["hunter2"],
        "env": [{"name": "PASSWORD", "value": "hunter2"}, reference],
        "resources": {"requests": {"cpu": "1"}},
    }
    pod = {
        "metadata": {"name": "p", "managedFields": [{"manager": "hunter2"}]},
        "spec": {"nodeName": "n1", "containers": [container], "initContainers": [container]},
        "status": {"phase": "Running"},
    }
    kept = {"name": "main", "env": [reference], "resources": {"requests": {"cpu": "1"}}}
    assert without_content("pods", pod) == {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "containers": [kept], "initContainers": [kept]},
        "status": {"phase": "Running"},
    }
    settings = {"metadata": {"name": "s"}, "data": {"p": "hunter2"}, "binaryData": {"p": "aHVudGVyMg=="}}
    assert without_content("configMaps", settings) == {"metadata": {"name": "s"}}


def file_of(world: World, rng: random.Random) -> bytes:
    raw: dict[str, list[object]] = {}
    objects = world.objects()
    rng.shuffle(objects)
    for kind, obj in objects:
        raw.setdefault(str(kind), []).append(without_content(kind, msgspec.to_builtins(obj)))
    return a_file(raw=raw, takenAt="2030-03-17T17:46:40Z")


@fuzz(share=0.6, worlds=WORLDS)
def test_a_file_gives_the_answer_of_the_cluster_whatever_the_order_of_its_lists(world: World) -> None:
    first, again, shuffled = (scene_of(file_of(world, random.Random(number))) for number in (1, 1, 2))
    live = Engine().run(world.state(), first.now)
    results = [Engine(found.config).run(found.state, found.now) for found in (first, again, shuffled)]
    for field in ("binds", "evictions", "nominations", "outcomes", "shares"):
        assert all(getattr(result, field) == getattr(live, field) for result in results), field
