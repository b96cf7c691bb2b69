"""Snapshot files without names: the same is decided from them, and nobody can be found in them."""

import json
import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import note

from kai.bench.worlds import NOW
from kai.engine import Engine, SchedulerConfig
from kai.replay import archive, config, params, scene
from kai.replay.anonymous import anonymous
from kai.replay.anonymous.words import Words
from kai.replay.archive import Archive, ArchiveError
from kai.snapshot.state import Kind, StateParams
from kai.snapshot.times import rfc3339
from libs.tests.engine.builders import a_job, a_node, a_queue, a_single, usual_priorities, world_of
from libs.tests.engine.random_worlds import WORLDS, fuzz


def as_json(obj):
    return obj if isinstance(obj, dict) else msgspec.to_builtins(obj)


def a_file(world_objects, **more):
    """A snapshot file of objects with their kinds."""
    raw: dict[str, list] = {}
    for kind, obj in world_objects:
        raw.setdefault(kind.value, []).append(as_json(obj))
    by = SchedulerConfig()
    told = {
        "config": config.document(by),
        "params": params.document(StateParams(), by.params),
        "raw_objects": raw,
        "taken_at": NOW,
    }
    return Archive(**{**told, **more})


class Names:
    """Which name became which, found by the places of objects in both files."""

    def __init__(self, before: Archive, after: Archive):
        self.of = {}
        for kind, objects in before.raw_objects.items():
            for old, new in zip(objects, after.raw_objects[kind], strict=True):
                for key in ("name", "namespace", "uid"):
                    if old["metadata"].get(key):
                        self.of[old["metadata"][key]] = new["metadata"][key]
                if kind == "pods":  # what they share
                    for old_text, new_text in zip(groups(old), groups(new), strict=True):
                        self.of[old_text] = new_text

    def key(self, text):
        return "/".join(self.of[part] for part in text.split("/"))


def groups(pod):
    labels = pod["metadata"].get("labels") or {}
    return [value for key, value in sorted(labels.items()) if key == "runai-gpu-group"]


def decided(file, names=None):
    """What a cycle decides from a file; by other names if there are some."""
    found = scene.set_up(archive.read(archive.write(file)))
    result = Engine(found.config).run(found.state, found.now)
    name = names.of.__getitem__ if names else str
    key = names.key if names else str
    return {
        "binds": [(name(each.pod.name), name(each.node), len(each.gpu_groups)) for each in result.binds],
        "evicts": [(name(each.pod.name), each.action, key(each.evictor)) for each in result.evictions],
        "waits": [(name(each.pod.name), name(each.node)) for each in result.nominations],
        "outcomes": sorted((key(each.pod_group), each.outcome) for each in result.outcomes),
        "shares": sorted((name(each.queue), each.fair_share, each.allocated) for each in result.shares),
    }


@fuzz(share=0.6, worlds=WORLDS)
def test_the_same_is_decided_under_other_names(world):
    before = a_file(world.objects())
    after, notes = anonymous(before)
    note(str(world))
    assert notes == ()
    assert decided(after) == decided(before, Names(before, after))


@fuzz(share=0.6, worlds=WORLDS)
def test_whoever_makes_the_file_anonymous_again_changes_nothing_but_names(world):
    once, _ = anonymous(a_file(world.objects()))
    twice, _ = anonymous(once)
    assert decided(twice) == decided(once, Names(once, twice))


@pytest.mark.parametrize(
    ("volume", "claim", "bound"),
    [
        ({}, {}, 1),
        ({"volumeMode": "Filesystem"}, {}, 1),
        ({"volumeMode": "Block"}, {}, 0),
        ({"volumeMode": "Block"}, {"volumeMode": "Block"}, 1),
        ({}, {"selector": {"matchLabels": {"tier": "hot"}}}, 1),
        ({}, {"selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}, 0),
        ({"accessModes": []}, {}, 0),
        ({"claimRef": {"namespace": "default", "name": "disk", "uid": "of one before"}}, {}, 0),
    ],
)
def test_a_claim_still_gets_only_a_volume_that_is_what_it_asks_for(volume, claim, bound):
    modes = {"storageClassName": "fast", "accessModes": ["ReadWriteOncePod"]}
    asked = {**modes, "resources": {"requests": {"storage": "4Gi"}}, **claim}
    offered = {**modes, "capacity": {"storage": "5Gi"}, **volume}
    local = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    mounted = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    world = world_of(
        [a_queue("team"), usual_priorities(), a_node("n")],
        (Kind.STORAGE_CLASS, {"metadata": {"name": "fast"}, **local}),
        (Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v", "labels": {"tier": "hot"}}, "spec": offered}),
        (
            Kind.PERSISTENT_VOLUME_CLAIM,
            {"metadata": {"name": "disk", "namespace": "default", "uid": "u"}, "spec": asked},
        ),
        a_single("job", gpus=1, spec={"volumes": mounted}),
    )
    before = a_file(world)
    after, _ = anonymous(before)
    assert len(decided(before)["binds"]) == len(decided(after)["binds"]) == bound


@pytest.mark.parametrize(("minutes", "taken"), [(1, 0), (11, 1)])
def test_who_has_not_run_for_long_is_still_spared_though_only_its_kubelet_says_since_when(minutes, taken):
    group, pod = a_job("running", queue="vision", gpus=8, on="n", started=0)
    pod.status.start_time = rfc3339(NOW - minutes * 60)
    world = world_of(
        [a_queue("vision", gpu=4, reclaim_min_runtime="10m"), a_queue("speech", gpu=4)],
        [usual_priorities(), a_node("n", gpus=8), group, pod],
        a_job("waiting", queue="speech", gpus=1),
    )
    before = a_file(world)
    after, _ = anonymous(before)
    assert len(decided(before)["evicts"]) == len(decided(after)["evicts"]) == taken


@pytest.mark.parametrize(("owned", "bound"), [(True, 1), (False, 0)])
def test_the_claim_of_an_ephemeral_volume_is_still_its_pods_own_or_anothers(owned, bound):
    group, pod = a_single("job", gpus=1, spec={"volumes": [{"name": "disk", "ephemeral": {}}]})
    uid = pod.metadata.uid if owned else "of one before"
    controller = {"apiVersion": "v1", "kind": "Pod", "name": "job", "uid": uid, "controller": True}
    claim = {"name": "job-disk", "namespace": "default", "uid": "u", "ownerReferences": [controller]}
    world = world_of(
        [a_queue("team"), usual_priorities(), a_node("n")],
        (Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": {}}),
        (Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": claim, "spec": {"volumeName": "v"}}),
        [group, pod],
    )
    before = a_file(world)
    after, _ = anonymous(before)
    assert len(decided(before)["binds"]) == len(decided(after)["binds"]) == bound


# --- what is in it ---------------------------------------------------------------------------------
SECRETS = {
    "acme-corp", "hunter2", "registry.acme.example", "jane.doe", "payroll", "blue-team", "acme.example",
    "merger-model", "nightly-merger", "frankfurt", "berlin", "dc-seven", "acme-gpu-box-17", "quarterly",
    "10.20.30.40", "7d9c2f60-aaaa", "secretname", "tokenfile", "gpu-uuid-4711", "bob@acme.example",
}  # fmt: skip
META = {"namespace": "payroll", "uid": "7d9c2f60-aaaa", "managedFields": [{"manager": "jane.doe"}]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "acme.example/site", "operator": "In", "values": ["berlin"]}
                    ],
                    "matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["acme-gpu-box-17"]}
                    ],
                }
            ]
        }
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"acme.example/team": "blue-team"}},
                "namespaces": ["payroll"],
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    },
}
POD = {
    "metadata": {
        **META,
        "name": "merger-model-0",
        "labels": {"acme.example/team": "blue-team", "kai.scheduler/queue": "quarterly"},
        "annotations": {"pod-group-name": "nightly-merger", "acme.example/owner": "bob@acme.example"},
    },
    "spec": {
        "schedulerName": "kai-scheduler",
        "serviceAccountName": "jane.doe",
        "nodeSelector": {"acme.example/site": "berlin"},
        "affinity": AFFINITY,
        "tolerations": [{"key": "acme.example/dedicated", "operator": "Equal", "value": "blue-team"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "acme.example/site",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"acme.example/team": "blue-team"}},
            }
        ],
        "imagePullSecrets": [{"name": "secretname"}],
        "containers": [
            {
                "name": "merger-model",
                "image": "registry.acme.example/merger-model:1",
                "command": ["run", "--token", "hunter2"],
                "env": [{"name": "PASSWORD", "value": "hunter2"}],
                "ports": [{"hostPort": 8080, "hostIP": "10.20.30.40"}],
                "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "1", "acme.example/fpga": "1"}},
            }
        ],
        "volumes": [
            {"name": "tokenfile", "secret": {"secretName": "secretname"}},
            {"name": "cache", "persistentVolumeClaim": {"claimName": "merger-model"}},
        ],
        "resourceClaims": [{"name": "dc-seven", "resourceClaimName": "merger-model"}],
    },
    "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "message": "acme-corp"}]},
}
NODE = {
    "metadata": {
        "name": "acme-gpu-box-17",
        "uid": "7d9c2f60-aaaa",
        "labels": {
            "acme.example/site": "berlin",
            "kubernetes.io/hostname": "acme-gpu-box-17",
            "topology.kubernetes.io/zone": "frankfurt",
            "nvidia.com/gpu.memory": "81559",
        },
        "annotations": {"acme.example/rack": "dc-seven"},
    },
    "spec": {"taints": [{"key": "acme.example/dedicated", "value": "blue-team", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "8", "nvidia.com/gpu": "2", "acme.example/fpga": "2", "pods": "110"},
        "addresses": [{"type": "InternalIP", "address": "10.20.30.40"}],
        "conditions": [{"type": "Ready", "status": "True", "message": "acme-corp"}],
    },
}
QUEUE = {
    "metadata": {"name": "quarterly"},
    "spec": {
        "displayName": "acme-corp",
        "resources": {"gpu": {"quota": 1, "limit": 2, "overQuotaWeight": 1}},
        "access": {"namespaces": ["payroll"], "groups": ["blue-team", "system:serviceaccounts:payroll"]},
    },
    "status": {"conditions": [{"message": "acme-corp"}]},
}
GROUP = {
    "metadata": {
        **META,
        "name": "nightly-merger",
        "annotations": {"kai.scheduler/top-owner-metadata": "jane.doe"},
    },
    "spec": {"queue": "quarterly", "minMember": 1, "priorityClassName": "quarterly", "preemptionDelay": "5m"},
    "status": {"schedulingConditions": [{"nodePool": "default", "reason": "x", "message": "acme-corp"}]},
}
DRIVER = "gpu.acme.example"
SELECTOR = (
    f"device.attributes['{DRIVER}'].model == 'merger-model' && "
    f"device.capacity[\"{DRIVER}\"].memory.compareTo(quantity('40Gi')) >= 0 // jane.doe"
)
FILE = {
    "pods": [POD],
    "nodes": [NODE],
    "queues": [QUEUE],
    "podGroups": [GROUP],
    "priorityClasses": [{"metadata": {"name": "quarterly"}, "value": 50}],
    "configMaps": [{"metadata": {**META, "name": "tokenfile"}, "data": {"password": "hunter2"}}],
    "namespaces": [{"metadata": {"name": "payroll", "labels": {"acme.example/team": "blue-team"}}}],
    "persistentVolumeClaims": [
        {
            "metadata": {**META, "name": "merger-model"},
            "spec": {
                "volumeName": "dc-seven",
                "storageClassName": "quarterly",
                "accessModes": ["ReadWriteOnce"],
            },
        }
    ],
    "persistentVolumes": [
        {
            "metadata": {"name": "dc-seven"},
            "spec": {
                "capacity": {"storage": "5Gi"},
                "csi": {"driver": "disk.acme.example", "volumeHandle": "acme-corp"},
                "claimRef": {"namespace": "payroll", "name": "merger-model", "uid": "7d9c2f60-aaaa"},
                "nodeAffinity": {
                    "required": AFFINITY["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                },
            },
            "status": {"phase": "Bound"},
        }
    ],
    "topologies": [
        {
            "metadata": {"name": "quarterly"},
            "spec": {"levels": [{"nodeLabel": "acme.example/site", "alias": "berlin"}]},
        }
    ],
    "deviceClasses": [
        {"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": {"expression": SELECTOR}}]}}
    ],
    "resourceSlices": [
        {
            "metadata": {"name": "acme-gpu-box-17-slice"},
            "spec": {
                "driver": DRIVER,
                "nodeName": "acme-gpu-box-17",
                "pool": {"name": "acme-gpu-box-17", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": "gpu-0",
                        "attributes": {
                            "model": {"string": "merger-model"},
                            "uuid": {"string": "gpu-uuid-4711"},
                        },
                        "capacity": {"memory": {"value": "40Gi"}},
                    }
                ],
            },
        }
    ],
    "resourceClaims": [
        {
            "metadata": {**META, "name": "merger-model", "labels": {"kai.scheduler/queue": "quarterly"}},
            "spec": {
                "devices": {
                    "requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}],
                    "config": [{"opaque": {"driver": DRIVER, "parameters": {"token": "hunter2"}}}],
                }
            },
        }
    ],
    "bindRequests": [],
}  # fmt: skip
WHOLE = Archive(
    config={
        "actions": "allocate",
        "tiers": [
            {"plugins": [{"name": "predicates"}, {"name": "dynamicresources"}, {"name": "acme.example"}]}
        ],
        "usageDBConfig": {"connectionString": "http://registry.acme.example"},
    },
    params=params.document(StateParams(node_pool_label_key=""), SchedulerConfig().params),
    raw_objects=FILE,
    discovery={
        "serverVersion": {"major": "1", "minor": "34", "gitVersion": "v1.34-acme-corp"},
        "resources": [],
    },
    taken_at=NOW,
)


def text_of(file):
    return archive._unpacked(archive.write(file)).decode()


def test_no_name_of_anybody_is_left():
    before, after = text_of(WHOLE), text_of(anonymous(WHOLE)[0])
    assert {word for word in SECRETS if word not in before} == set()
    assert {word for word in SECRETS if word in after} == set()


def test_the_same_pod_is_bound_by_claims_selectors_taints_and_volumes():
    """Which needs nearly all of the file: it is bound nowhere if one relation is lost."""
    after, _ = anonymous(WHOLE)
    (found,) = decided(after)["binds"]
    names = Names(WHOLE, after)
    assert found == (names.of["merger-model-0"], names.of["acme-gpu-box-17"], 0)
    (pod,) = after.raw_objects["pods"]
    del pod["spec"]["tolerations"]
    assert decided(after)["binds"] == []


def test_what_was_under_way_is_so_under_other_names():
    request = {
        "metadata": {"name": "merger-model-0", "namespace": "payroll", "labels": {"selected-node": "berlin"}},
        "spec": {
            "podName": "merger-model-0",
            "selectedNode": "acme-gpu-box-17",
            "receivedGPU": {"portion": "1"},
        },
    }
    before = replace(WHOLE, raw_objects={**FILE, "bindRequests": [request]})
    after, _ = anonymous(before)
    assert decided(after)["binds"] == []
    (found,) = after.raw_objects["bindRequests"]
    names = Names(before, after)
    assert found["spec"]["selectedNode"] == names.of["acme-gpu-box-17"]
    assert not [word for word in SECRETS if word in text_of(after)]


def test_what_is_left_out_or_may_say_something_else_is_noted():
    _, notes = anonymous(WHOLE)
    assert [each.split(" ", 1)[1] for each in notes] == [
        "plugins of other packages are left out; without them something else may be decided"
    ]
    looks = {**FILE["deviceClasses"][0]}
    looks["spec"] = {"selectors": [{"cel": {"expression": "device.driver.startsWith('gpu')"}}]}
    _, notes = anonymous(replace(WHOLE, raw_objects={**FILE, "deviceClasses": [looks], "acme": []}))
    assert any("1 conditions on devices look into texts" in each for each in notes)
    assert any("1 lists of kinds" in each for each in notes)


def test_of_a_configuration_stays_what_decisions_read():
    """A scheduler of another version says more than that, and people write into it what they like."""
    plugins = [
        {"name": "proportion", "arguments": {"kValue": "2", "owner": "hunter2"}, "at": "hunter2"},
        {"name": "newer", "arguments": {"url": "http://hunter2"}},
        {"name": "numa", "arguments": {"ignoreList": "cpu,acme.example/nic"}},
    ]
    told = {"actions": "allocate", "tiers": [{"plugins": plugins, "of": "hunter2"}], "url": "http://hunter2"}
    after, _ = anonymous(replace(WHOLE, config=told))
    assert not [word for word in (*SECRETS, "hunter2", "newer", "nic") if word in text_of(after)]
    found = scene.set_up(after).config
    assert found.actions == ("allocate",)
    assert [each.name for each in found.plugins] == ["proportion", "numa"]
    assert found.plugins[0].arguments == {"kValue": "2"}
    assert found.plugins[1].arguments["ignoreList"].startswith("cpu,")


@pytest.mark.parametrize("tiers", [[5], [{"plugins": 5}], 5])
def test_a_configuration_that_cannot_be_read_is_refused(tiers):
    with pytest.raises(ArchiveError, match="tiers"):
        anonymous(replace(WHOLE, config={"tiers": tiers}))


def test_labels_that_set_nodes_apart_are_called_like_those_of_the_nodes():
    told = {f"{which}WorkerNodeLabelKey": f"secret.corp/{which}" for which in ("cpu", "gpu", "mig")}
    node = {"metadata": {"name": "n", "labels": dict.fromkeys(told.values(), "true")}}
    after, _ = anonymous(Archive(config=None, params=told, raw_objects={"nodes": [node]}))
    (renamed,) = after.raw_objects["nodes"]
    assert after.params.keys() == told.keys()
    assert renamed["metadata"]["labels"] == dict.fromkeys(after.params.values(), "true")
    assert "secret" not in str(after)


def test_a_parameter_that_is_null_is_as_absent():
    told = {"schedulerName": None, "installationNamespace": None, "partitionParams": {"x": None}}
    after, _ = anonymous(replace(WHOLE, params=told))
    assert params.read(after.params)[0] == params.read(told)[0]


def test_two_files_of_one_cluster_have_no_name_in_common():
    first, second = (anonymous(WHOLE)[0] for _ in range(2))
    names = {each["metadata"]["name"] for file in (first,) for each in file.raw_objects["pods"]}
    assert names.isdisjoint(each["metadata"]["name"] for each in second.raw_objects["pods"])


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ((), ["a", "b", "ba", "z", "Z"]),
        (
            ("kube-system", "kai-scheduler"),
            ["alpha", "kai", "kai-scheduler2", "kb", "kube", "kube-system-x", "z"],
        ),
        (
            ("kai-resource-reservation", "kai-scale-adjust"),
            ["kai-s", "kai-resource-reservation-1", "kaj", "a"],
        ),
        (("b", "ba"), ["a", "b1", "bab", "c"]),
    ],
)
def test_words_keep_their_order_also_among_those_that_stay(kept, words):
    found = Words(kept, random=random.Random(1))
    for word in words:
        found.of(word)
    found.settle()
    together = sorted({*words, *kept})
    assert sorted(together, key=found.of) == together
    assert all(found.of(word) == word for word in kept)


def test_what_is_of_gpus_still_says_so():
    found = Words(())
    for word in ("gpu", "mygpu", "gpu.example.com", "GPUs", "cpu"):
        found.of(word)
    found.settle()
    assert [found.of(word).endswith("gpu") for word in ("gpu", "mygpu", "gpu.example.com", "cpu")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert ["gpu" in found.of(word) for word in ("gpu.example.com", "GPUs", "cpu")] == [True, True, False]


def test_an_object_that_cannot_be_read_is_named():
    broken = {**FILE, "pods": [{"metadata": {"name": "p"}, "spec": {"containers": 1}}]}
    with pytest.raises(ArchiveError, match=r"pods\[0\]: .*containers"):
        anonymous(replace(WHOLE, raw_objects=broken))


def test_numbers_and_words_of_the_api_stay():
    (pod,) = anonymous(WHOLE)[0].raw_objects["pods"]
    text = json.dumps(pod)
    for kept in (
        '"500m"',
        '"DoNotSchedule"',
        '"Equal"',
        '"kubernetes.io/hostname"',
        '"nvidia.com/gpu"',
        "8080",
    ):
        assert kept in text
