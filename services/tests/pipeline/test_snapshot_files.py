"""From a running scheduler to a snapshot file, and from the file to the same decisions."""

import asyncio
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from kai.engine import Engine
from kai.kube.resources import CONFIG_MAPS
from kai.model.decisions import Outcome
from kai.replay import archive, scene
from kai.session.server import free_port
from kai_cli.__main__ import app
from kai_scheduler.debug_server import RAW_OBJECTS

pytestmark = pytest.mark.integration


def kai(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
async def taken(cluster, tmp_path):
    """A file of a cluster where one pod runs, one is being bound, and one is too large."""
    await cluster.node("n1", gpus=4)
    secret = {"metadata": {"name": "secret", "namespace": "default"}, "data": {"password": "hunter2"}}
    await cluster.client.create(CONFIG_MAPS, secret, namespace="default")
    configuration = tmp_path / "conf.yaml"
    configuration.write_text("actions: allocate, preempt\nqueueDepthPerAction: {preempt: 7}\n")
    port, file = free_port(), tmp_path / "snapshot.zip"
    told = {"plugin_server_port": port, "stuck_in_releasing_threshold": "3m", "detailed_fit_errors": True}
    async with cluster.scheduler(**told, scheduler_conf=str(configuration)) as scheduler:
        async with cluster.binder():
            await cluster.pod("running", gpus=1)
            await cluster.bound("running")
        await cluster.pod("binding", gpus=0, fraction=0.5)
        await cluster.pod("large", gpus=9)

        async def asked():
            # In a thread: the command has an event loop of its own.
            result = await asyncio.to_thread(
                kai, "snapshot", "--address", f"127.0.0.1:{port}", "--output", str(file)
            )
            assert result.exit_code == 0, result.output
            found = archive.read(file.read_bytes())
            under_way = [request["metadata"]["name"] for request in found.raw_objects["bindRequests"]]
            return found if under_way == ["binding"] else None

        found = await cluster.until(asked)
        assert scheduler is not None
    return file, found


async def test_a_file_is_complete(taken):
    _, found = taken
    assert set(found.raw_objects) == {*RAW_OBJECTS, "bindRequests"}
    assert {pod["metadata"]["name"] for pod in found.raw_objects["pods"]} == {"running", "binding", "large"}
    assert found.config["actions"] == "allocate, preempt"
    assert found.config["queueDepthPerAction"] == {"preempt": 7}
    assert found.config["scenarioSearchBudgets"]["maxJobSearchDuration"] == "4m0s"
    assert found.params["stuckInReleasingThreshold"] == 180_000_000_000
    assert found.params["globalDefaultStalenessGracePeriod"] == 60_000_000_000
    assert found.params["detailedFitErrors"] is True
    assert found.discovery["serverVersion"]["major"]
    assert {"v1", "scheduling.run.ai/v2"} <= {each["groupVersion"] for each in found.discovery["resources"]}


async def test_contents_of_config_maps_stay_where_they_are(taken):
    file, found = taken
    assert "secret" in {each["metadata"]["name"] for each in found.raw_objects["configMaps"]}
    assert "hunter2" not in json.dumps(found.raw_objects)
    assert file.stat().st_mode & 0o077 == 0


async def test_a_file_without_names_decides_the_same(taken, monkeypatch, tmp_path):
    file, found = taken
    data = file.read_bytes()

    async def given(url):
        return data

    monkeypatch.setattr("kai_cli.snapshot._get", given)
    other = tmp_path / "anonymous.zip"
    result = await asyncio.to_thread(
        kai, "snapshot", "--address", "scheduler:1", "--anonymous", "--output", str(other)
    )
    assert result.exit_code == 0, result.output
    assert other.stat().st_mode & 0o077 == 0
    plain = archive.read(other.read_bytes())
    text = json.dumps(plain.raw_objects)
    names = {pod["metadata"]["name"] for pod in found.raw_objects["pods"]}
    assert not [name for name in (*names, "n1", "test", "hunter2") if f'"{name}"' in text]
    outcomes = []
    for each in (found, plain):
        scene_ = scene.set_up(each)
        made = Engine(scene_.config).run(scene_.state, scene_.now)
        outcomes.append(sorted((each.outcome, bool(each.message)) for each in made.outcomes))
    assert outcomes[0] == outcomes[1]


async def test_what_is_read_back_decides_as_the_scheduler_did(taken):
    file, found = taken
    set_up = scene.set_up(found)
    assert set_up.notes == ()
    assert set_up.config.params.detailed_fit_errors
    result = Engine(set_up.config).run(set_up.state, set_up.now)
    outcomes = {each.pod_group: each.outcome for each in result.outcomes}
    assert result.binds == ()  # one runs; of the other the decision is under way, and not made again
    assert outcomes["default/pg-large"] is Outcome.UNSCHEDULABLE
    anew = scene.set_up(replace(found, raw_objects={**found.raw_objects, "bindRequests": []}))
    (bind,) = Engine(anew.config).run(anew.state, anew.now).binds
    (request,) = found.raw_objects["bindRequests"]
    assert (bind.pod.name, bind.node) == ("binding", request["spec"]["selectedNode"])
    printed = kai("replay", str(file), "-o", "json")
    assert {each["podGroup"] for each in json.loads(printed.output)["podGroups"]} >= {"default/pg-large"}
