"""Whatever a user writes into an object: it is grouped or refused in words, never a crash."""

import asyncio
import contextlib
import copy
import random
import threading

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from deadlines import patience
from kai.grouping.errors import GroupingError, InvalidWorkload
from kai.grouping.grouper import group_pod
from kai.grouping.objects.pods import decode_pod
from kai.grouping.offline.cluster import FileCluster
from kai.grouping.offline.manifest import InvalidManifest, read_manifest
from kai.grouping.offline.preview import Preview, preview
from kai.grouping.options import GroupingOptions
from kai.model import names
from kai.runtime import SettingsError
from kai.wire.v1 import grouping_pb2
from kai.workloads import grove, making, parts
from kai_pod_grouper import preview_server
from kai_pod_grouper.preview_server import GroupingServicer
from kai_pod_grouper.settings import PodGrouperSettings

from .test_manifests import CASES

WRONG = [None, True, 0, -1, 2**40, 1.5, "", "x", "-", [], ["x"], [{}], {}, {"x": "y"}, [None]]
OPTIONS = GroupingOptions()


@given(case=st.sampled_from([case.values[0] for case in CASES]), seed=st.integers(0, 2**32))
@settings(max_examples=150)
async def test_a_manifest_with_a_wrong_value_anywhere_never_crashes(case, seed):
    bodies = copy.deepcopy(case["objects"])
    chosen = random.Random(seed)
    for _ in range(chosen.randint(1, 3)):
        _spoil(chosen.choice(bodies), chosen)

    try:
        found = await preview(yaml.safe_dump_all(bodies), OPTIONS)
    except InvalidWorkload:
        return

    for body in found.pod_groups:
        assert ("minMember" in body["spec"]) != ("minSubGroup" in body["spec"])
        assert "null" not in yaml.safe_dump(body["spec"])


def with_numbers_without_end(value, *, with_pods):
    """With each number as large as that; without pods their specs say nothing, so that none is to be made."""
    if isinstance(value, dict):
        if "containers" in value and not with_pods:
            return {}
        return {key: with_numbers_without_end(each, with_pods=with_pods) for key, each in value.items()}
    if isinstance(value, list):
        return [with_numbers_without_end(each, with_pods=with_pods) for each in value]
    return 2**40 if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.fixture
def few_are_made(monkeypatch):
    """So that nobody waits until there are too many of them."""
    for module in (parts, making, grove):
        monkeypatch.setattr(module, "MOST_MADE", 100)


@pytest.mark.parametrize("with_pods", [True, False])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("few_are_made")
async def test_numbers_without_end_are_refused_or_of_no_account(case, with_pods):
    """Of each owner alone, so that his pods are looked for."""
    for body in case["objects"]:
        if body.get("kind") != "Pod":
            spoilt = with_numbers_without_end(body, with_pods=with_pods)
            with contextlib.suppress(InvalidWorkload):
                await preview(yaml.safe_dump(spoilt), OPTIONS)


async def test_a_manifest_that_contains_itself_is_refused():
    with pytest.raises(InvalidManifest, match="inside its own anchor"):
        await preview("kind: Pod\nmetadata: &a {name: p, labels: *a}\n", OPTIONS)


def a_bomb(levels=9, width=9):
    """Aliases of aliases: a few hundred characters that stand for ``width ** levels`` values."""
    lines = ["kind: Pod", "l0: &l0 [x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


async def test_a_manifest_whose_aliases_write_out_to_a_bomb_is_refused_unexpanded():
    with pytest.raises(InvalidManifest, match="values with its YAML aliases written out"):
        await preview(a_bomb(), OPTIONS)


@pytest.mark.parametrize(
    ("key", "served"), [("on", "true"), ("no", "false"), ("1", "1"), ("1.5", "1.5"), ("a", "a"), ("'1'", "1")]
)
def test_a_key_that_yaml_takes_for_no_text_is_what_a_server_gets_of_it(key, served):
    found = read_manifest(f"kind: Pod\nmetadata: {{name: p, labels: {{&anchor {key}: x, b: *anchor}}}}\n")
    assert found.objects[0]["metadata"]["labels"].keys() == {served, "b"}


@pytest.mark.parametrize("key", ["null", "~", "!!binary aGk="])
def test_a_key_that_no_server_takes_is_refused_with_its_line(key):
    with pytest.raises(InvalidManifest, match=r"line 2: .*key"):
        read_manifest(f"kind: Pod\nmetadata: {{name: p, labels: {{{key}: x}}}}\n")


@pytest.mark.parametrize("written", ["2026-11-01", "2026-13-45", "=", "22:22"])
def test_what_a_server_gets_as_a_text_is_one(written):
    found = read_manifest(f"kind: Pod\nmetadata: {{name: p, annotations: {{a: {written}}}}}\n")
    assert found.objects[0]["metadata"]["annotations"] == {"a": written}


def test_a_key_that_is_there_twice_is_refused_with_its_line():
    with pytest.raises(InvalidManifest, match="line 3: 'spec' is there twice; say it once"):
        read_manifest("kind: Pod\nspec: {}\nspec: {}\n")


async def test_keys_that_are_no_texts_crash_no_preview():
    """Of workloads whose pods are made, too, whose names come of keys."""
    for case in (case.values[0] for case in CASES):
        text = yaml.safe_dump_all(_with_numbers_for_keys(body) for body in case["objects"])
        with contextlib.suppress(InvalidWorkload):
            await preview(text, OPTIONS)


def _with_numbers_for_keys(body):
    """All that is not said of objects of every kind."""

    def numbered(value):
        if isinstance(value, dict):
            return {number: numbered(each) for number, each in enumerate(value.values())}
        return [numbered(each) for each in value] if isinstance(value, list) else value

    spec, meta = body.get("spec"), dict(body.get("metadata") or {})
    parts = {key: numbered(value) for key, value in spec.items()} if isinstance(spec, dict) else spec
    return {**body, "metadata": {**meta, "labels": numbered(meta.get("labels"))}, "spec": parts}


async def test_ordinary_aliases_are_read():
    found = read_manifest("kind: Pod\nmetadata: {name: p, labels: &l {a: b}, annotations: *l}\n")
    assert found.objects[0]["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize("key", names.GROUP_TIMESTAMPS)
async def test_an_owner_does_not_say_what_became_of_its_group(key):
    """A start that was just now, again and again, would protect it from eviction for ever."""
    pod = f"""
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {{kai.scheduler/queue: q}}
  annotations: {{{key}: "2030-01-01T00:00:00Z", its-own: x}}
spec: {{schedulerName: kai-scheduler, containers: [{{name: main, image: x}}]}}
"""
    [group] = (await preview(pod, OPTIONS)).pod_groups
    assert group["metadata"]["annotations"]["its-own"] == "x"
    assert key not in group["metadata"]["annotations"]


@pytest.mark.parametrize("listen", [":9090", "0.0.0.0:9090", "10.0.0.1:9090", "[::]:9090"])
def test_previews_for_other_machines_need_tls(listen):
    with pytest.raises(SettingsError, match="with TLS only"):
        PodGrouperSettings.parse([f"--grpc-listen={listen}", "--previews"])
    assert PodGrouperSettings.parse(
        [f"--grpc-listen={listen}", "--previews", "--tls-ca=a", "--tls-cert=b", "--tls-key=c"]
    ).tls


class Aborted(Exception):
    """What a caller over gRPC is told."""


class Call:
    """Of a caller over gRPC."""

    async def abort(self, code, details):
        raise Aborted(f"{code.name}: {details}")


def ask(manifest):
    return GroupingServicer(OPTIONS).Preview(grouping_pb2.PreviewRequest(manifest=manifest), Call())


async def test_a_preview_of_a_manifest_that_is_too_long_is_refused_unread(monkeypatch):
    read = []

    async def noted(manifest, options):
        read.append(manifest)
        return Preview(pod_groups=(), pods=(), warnings=(), notes=(), pod_bodies=())

    monkeypatch.setattr(preview_server, "preview", noted)
    longest = "#" * preview_server.MANIFEST_AT_MOST_CHARACTERS
    await ask(longest)
    with pytest.raises(Aborted, match="INVALID_ARGUMENT: a manifest has at most 1,048,576 characters"):
        await ask(f"{longest}#")
    assert read == [longest]


async def test_pods_are_grouped_while_a_preview_is_read(monkeypatch):
    """The loop that groups goes on: only it can end this reading."""
    begun, ended = threading.Event(), threading.Event()

    async def slow(manifest, options):
        begun.set()
        if not ended.wait(patience()):
            raise GroupingError("nobody else got anything done")
        return Preview(pod_groups=(), pods=(), warnings=("read",), notes=(), pod_bodies=())

    monkeypatch.setattr(preview_server, "preview", slow)
    asked = asyncio.create_task(ask("kind: Pod"))
    assert await asyncio.to_thread(begun.wait, patience())
    ended.set()
    assert list((await asked).warnings) == ["read"]


def test_no_previews_are_served_unless_somebody_asks_for_them():
    assert PodGrouperSettings.parse([]).grpc_listen == ""
    assert not PodGrouperSettings.parse(["--grpc-listen=:9093"]).previews


def _spoil(body, chosen):
    """Replace one value, keeping to what makes it an object at all."""
    node = body
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        keys = [key for key in keys if key not in ("apiVersion", "kind")]
        if not keys:
            return
        key = chosen.choice(keys)
        if not isinstance(node[key], dict | list) or chosen.random() < 0.15:
            node[key] = copy.deepcopy(chosen.choice(WRONG))
            return
        node = node[key]


@pytest.mark.parametrize("case", CASES)
async def test_grouping_is_a_pure_function_of_what_exists(case):
    """Asked twice, the rules say the same; no cached part is changed by whoever was given it."""
    cluster = FileCluster(
        read_manifest(yaml.safe_dump_all(case["objects"])).objects, defaults=case.get("defaults", "")
    )
    options = GroupingOptions(**case.get("options", {}))
    for body in cluster.pod_bodies.values():
        first, second = [await _outcome(body, cluster, options) for _ in range(2)]
        assert first == second


async def _outcome(body, cluster, options):
    try:
        return await group_pod(decode_pod(body), cluster, options)
    except GroupingError as error:
        return str(error)
