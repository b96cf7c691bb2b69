"""Whatever a user writes into an object: it is grouped or refused in words, never a crash."""

import copy
import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_pod_grouper.errors import GroupingError
from kai_pod_grouper.grouper import group_pod
from kai_pod_grouper.objects.pods import decode_pod
from kai_pod_grouper.offline.cluster import FileCluster
from kai_pod_grouper.offline.manifest import InvalidManifest, read_manifest
from kai_pod_grouper.offline.preview import preview
from kai_pod_grouper.options import GroupingOptions

from .test_manifests import CASES

WRONG = [None, True, 0, -1, 2**40, 1.5, "", "x", "-", [], ["x"], [{}], {}, {"x": "y"}, [None]]
OPTIONS = GroupingOptions()


@given(case=st.sampled_from([case.values[0] for case in CASES]), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
async def test_a_manifest_with_a_wrong_value_anywhere_never_crashes(case, seed):
    bodies = copy.deepcopy(case["objects"])
    chosen = random.Random(seed)
    for _ in range(chosen.randint(1, 3)):
        _spoil(chosen.choice(bodies), chosen)

    try:
        found = await preview(yaml.safe_dump_all(bodies), OPTIONS)
    except InvalidManifest:
        return

    for body in found.pod_groups:
        assert ("minMember" in body["spec"]) != ("minSubGroup" in body["spec"])
        assert "null" not in yaml.safe_dump(body["spec"])


async def test_a_manifest_that_contains_itself_is_refused():
    with pytest.raises(InvalidManifest, match="inside its own anchor"):
        await preview("kind: Pod\nmetadata: &a {name: p, labels: *a}\n", OPTIONS)


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
