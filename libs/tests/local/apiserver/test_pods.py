"""Pods: defaults, rules, binding, eviction and the way they go."""

import asyncio

import pytest

from libs.tests.local.apiserver.builders import a_pod

PODS = "/api/v1/namespaces/default/pods"


def a_binding(node="n1", **metadata):
    return {"metadata": metadata, "target": {"kind": "Node", "name": node}}


async def a_class(api, name, value, **more):
    await api.post(
        "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value, **more}
    )


async def test_a_pod_gets_the_defaults_of_the_real_server(api):
    pod = await api.post(PODS, a_pod())
    spec = pod["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (spec["terminationGracePeriodSeconds"], spec["serviceAccountName"], spec["priority"]) == (
        30,
        "default",
        0,
    )
    assert {item["key"] for item in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert (pod["status"]["phase"], pod["status"]["qosClass"]) == ("Pending", "BestEffort")


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
)
async def test_quality_of_service_follows_cpu_and_memory(api, resources, quality):
    pod = await api.post(PODS, a_pod(container={"resources": resources}))
    assert pod["status"]["qosClass"] == quality


async def test_priority_comes_from_the_named_class_or_the_default_one(api):
    await a_class(api, "high", 1000, preemptionPolicy="Never")
    assert (await api.post(PODS, a_pod("a")))["spec"]["priority"] == 0
    high = (await api.post(PODS, a_pod("b", priorityClassName="high")))["spec"]
    assert (high["priority"], high["preemptionPolicy"]) == (1000, "Never")
    await a_class(api, "usual", 50, globalDefault=True)
    usual = (await api.post(PODS, a_pod("c")))["spec"]
    assert (usual["priority"], usual["priorityClassName"]) == (50, "usual")


async def test_a_runtime_class_adds_its_overhead(api):
    overhead = {"podFixed": {"cpu": "250m"}}
    runtime = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": overhead}
    await api.post("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    assert (await api.post(PODS, a_pod(runtimeClassName="kata")))["spec"]["overhead"] == {"cpu": "250m"}


REFUSED = {
    "no containers": ({"containers": []}, 422, "spec.containers: Required value"),
    "two of one name": (
        {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]},
        422,
        'Duplicate value: "c"',
    ),
    "a bad quantity": (
        {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "much"}}}]},
        400,
        "quantities must match",
    ),
    "a request above its limit": (
        {
            "containers": [
                {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}
            ]
        },
        422,
        "must be less than or equal to cpu limit of 1",
    ),
    "a part of a device": (
        {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "0.5"}}}]},
        422,
        "must be an integer",
    ),
    "a resource of no group": (
        {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"gpu": "1"}}}]},
        422,
        "must be a standard resource type",
    ),
    "a mount of no volume": (
        {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
        422,
        'Not found: "v"',
    ),
    "a toleration of all values with a value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
        422,
        "spec.tolerations[0].operator: Invalid value",
    ),
    "a toleration of no key": (
        {"tolerations": [{"operator": "Equal", "value": "x"}]},
        422,
        "operator must be Exists when `key` is empty",
    ),
    "two volumes of one name": (
        {"volumes": [{"name": "v"}, {"name": "v"}]},
        422,
        'spec.volumes[1].name: Duplicate value: "v"',
    ),
    "an unknown pull policy": (
        {"containers": [{"name": "c", "image": "i", "imagePullPolicy": "Sometimes"}]},
        422,
        "spec.containers[0].imagePullPolicy: Unsupported value",
    ),
    "an unknown DNS policy": ({"dnsPolicy": "Guess"}, 422, "spec.dnsPolicy: Unsupported value"),
    "a gate with a name that is none": (
        {"schedulingGates": [{"name": "a b"}]},
        422,
        "spec.schedulingGates[0]: Invalid value",
    ),
    "a gate on a pod that has a node": (
        {"schedulingGates": [{"name": "a"}], "nodeName": "n1"},
        422,
        "cannot be set until all schedulingGates have been cleared",
    ),
    "a negative request": (
        {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]},
        422,
        "spec.containers[0].resources.requests[cpu]",
    ),
    "a class that is not there": (
        {"priorityClassName": "none"},
        403,
        "no PriorityClass with name none was found",
    ),
    "a service account that is not there": (
        {"serviceAccountName": "nobody"},
        403,
        'serviceaccount "nobody" not found',
    ),
    "a runtime class that is not there": ({"runtimeClassName": "none"}, 403, 'RuntimeClass "none" not found'),
}


@pytest.mark.parametrize(("spec", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
async def test_the_usual_mistakes_are_refused(api, spec, code, text):
    body = a_pod()
    body["spec"].update(spec)
    status, answer = await api.call("POST", PODS, body)
    assert status == code
    assert text in answer["message"]


async def test_more_devices_than_any_node_has_are_taken_at_their_word(api):
    body = a_pod()
    devices = {"nvidia.com/gpu": "1" + "0" * 40}
    body["spec"]["containers"][0]["resources"] = {"limits": devices, "requests": devices}
    status, answer = await api.call("POST", PODS, body)
    assert status == 201, answer


async def test_the_spec_of_a_pod_is_fixed_but_for_images_and_more_tolerations(api):
    await api.post(PODS, a_pod())
    status, answer = await api.call(
        "PATCH", f"{PODS}/p", {"spec": {"schedulerName": "x"}}, kind="application/merge-patch+json"
    )
    assert status == 422
    assert "pod updates may not change fields other than" in answer["message"]
    tolerations = (await api.get(f"{PODS}/p"))["spec"]["tolerations"]
    await api.patch(
        f"{PODS}/p", {"spec": {"tolerations": [*tolerations, {"key": "x", "operator": "Exists"}]}}
    )
    image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
    patched = await api.patch(f"{PODS}/p", image, kind="application/strategic-merge-patch+json")
    assert patched["spec"]["containers"][0]["image"] == "other"


async def test_tolerations_taken_off_a_pod_are_those_that_it_gets_anyway(api):
    made = await api.post(PODS, a_pod())
    change = {"spec": {"tolerations": None}}
    patched = await api.patch(f"{PODS}/p", change, kind="application/merge-patch+json")
    assert patched == made


async def test_a_pod_has_at_least_a_second_to_end(api):
    pod = await api.post(PODS, a_pod(terminationGracePeriodSeconds=-5))
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1


async def test_binding_puts_the_pod_on_its_node_with_the_metadata_of_the_binding(api):
    made = await api.post(PODS, a_pod(metadata={"annotations": {"old": "1"}}))
    answer = await api.post(
        f"{PODS}/p/binding",
        a_binding(annotations={"new": "2"}, labels={"l": "3"}, uid=made["metadata"]["uid"]),
    )
    assert answer["status"] == "Success"
    pod = await api.get(f"{PODS}/p")
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {"old": "1", "new": "2"}
    assert pod["metadata"]["labels"] == {"l": "3"}
    condition = next(item for item in pod["status"]["conditions"] if item["type"] == "PodScheduled")
    assert condition["status"] == "True"
    assert condition["lastTransitionTime"]


async def test_binding_replaces_the_condition_that_said_unschedulable(api):
    await api.post(PODS, a_pod())
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    await api.patch(f"{PODS}/p/status", {"status": {"conditions": [condition]}})
    await api.post(f"{PODS}/p/binding", a_binding())
    conditions = (await api.get(f"{PODS}/p"))["status"]["conditions"]
    assert [(item["type"], item["status"], "reason" in item) for item in conditions] == [
        ("PodScheduled", "True", False)
    ]


@pytest.mark.parametrize(
    ("before", "binding", "code", "text"),
    [
        ("bound", a_binding("n2"), 409, 'already assigned to node "n1"'),
        ("there", a_binding(uid="other"), 409, "Precondition failed: UID"),
        ("gated", a_binding(), 409, "non-empty .spec.schedulingGates"),
        ("going", a_binding(), 409, "is being deleted"),
        ("absent", a_binding(), 404, "not found"),
        ("there", {"metadata": {}}, 422, "target.name: Required value"),
        ("there", [], 400, "cannot be handled as a Binding"),
        ("there", {"metadata": "x", "target": {"name": "n"}}, 400, "struct field metadata of type object"),
        (
            "there",
            {"metadata": {"annotations": {"x": 5}}, "target": {"name": "n"}},
            400,
            "struct field metadata.annotations.x of type string",
        ),
        ("there", {"metadata": {}, "target": {"name": 5}}, 400, "struct field target.name of type string"),
    ],
)
async def test_a_binding_that_cannot_be_is_refused(api, before, binding, code, text):
    if before != "absent":
        gates = {"schedulingGates": [{"name": "example.com/g"}]} if before == "gated" else {}
        await api.post(PODS, a_pod(metadata={"finalizers": ["example.com/f"]}, **gates))
    if before == "bound":
        await api.post(f"{PODS}/p/binding", a_binding())
    if before == "going":
        await api.delete(f"{PODS}/p")
    status, answer = await api.call("POST", f"{PODS}/p/binding", binding)
    assert status == code
    assert text in answer["message"]


async def test_of_many_bindings_at_once_one_wins(api):
    await api.post(PODS, a_pod())
    bindings = [api.call("POST", f"{PODS}/p/binding", a_binding(f"n{number}")) for number in range(10)]
    statuses = [status for status, _ in await asyncio.gather(*bindings)]
    assert sorted(statuses) == [201] + [409] * 9


async def test_the_bindings_collection_binds_too(api):
    await api.post(PODS, a_pod())
    await api.post("/api/v1/namespaces/default/bindings", a_binding(name="p"))
    assert (await api.get(f"{PODS}/p"))["spec"]["nodeName"] == "n1"


async def test_a_pod_without_a_node_goes_at_once(api):
    await api.post(PODS, a_pod())
    await api.delete(f"{PODS}/p")
    assert (await api.call("GET", f"{PODS}/p"))[0] == 404


async def test_a_pod_on_a_node_gets_its_grace_period_and_goes_when_the_kubelet_says(api):
    await api.post(PODS, a_pod(terminationGracePeriodSeconds=7))
    await api.post(f"{PODS}/p/binding", a_binding())
    going = await api.delete(f"{PODS}/p")
    assert going["metadata"]["deletionGracePeriodSeconds"] == 7
    again = await api.delete(f"{PODS}/p")
    assert again["metadata"]["deletionTimestamp"] == going["metadata"]["deletionTimestamp"]
    shorter = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 2})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 2
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert (await api.call("GET", f"{PODS}/p"))[0] == 404


async def test_a_pod_changes_generation_once_on_its_way_out_and_not_when_bound(api):
    await api.post(PODS, a_pod())
    await api.post(f"{PODS}/p/binding", a_binding())
    assert (await api.get(f"{PODS}/p"))["metadata"]["generation"] == 1
    deletions = [await api.delete(f"{PODS}/p", options) for options in ({}, {"gracePeriodSeconds": 0})]
    assert [pod["metadata"]["generation"] for pod in deletions] == [2, 2]
    assert deletions[1]["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_the_last_that_is_seen_of_a_pod_says_that_it_was_deleted(api):
    await api.post(PODS, a_pod())
    last = await api.delete(f"{PODS}/p")
    assert last["metadata"]["deletionTimestamp"]
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_a_gated_pod_says_why_it_is_not_scheduled(api):
    pod = await api.post(PODS, a_pod(schedulingGates=[{"name": "example.com/wait"}]))
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


async def test_gates_are_taken_away_and_never_added(api):
    await api.post(PODS, a_pod(schedulingGates=[{"name": "a"}, {"name": "b"}]))

    async def gated(*names):
        change = {"spec": {"schedulingGates": [{"name": name} for name in names]}}
        return (await api.call("PATCH", f"{PODS}/p", change, kind="application/merge-patch+json"))[0]

    assert [await gated("a", "c"), await gated("b"), await gated()] == [422, 200, 200]


async def test_a_finished_pod_goes_at_once(api):
    await api.post(PODS, a_pod())
    await api.post(f"{PODS}/p/binding", a_binding())
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{PODS}/p")
    assert (await api.call("GET", f"{PODS}/p"))[0] == 404


@pytest.mark.parametrize(("allowed", "code"), [(None, 201), (1, 201), (0, 429)])
async def test_an_eviction_asks_the_disruption_budget(api, allowed, code):
    await api.post(PODS, a_pod(metadata={"labels": {"app": "a"}}))
    await api.post(f"{PODS}/p/binding", a_binding())
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    if allowed is not None:
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        budget = {
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
        }
        await api.post(budgets, budget)
        await api.patch(
            f"{budgets}/b/status", {"status": {"disruptionsAllowed": allowed, "observedGeneration": 1}}
        )
    status, answer = await api.call("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    assert status == code
    if code == 429:
        assert answer["details"]["causes"][0]["reason"] == "DisruptionBudget"
    else:
        assert (await api.get(f"{PODS}/p"))["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("budget", "evicted"),
    [
        ({"minAvailable": 1}, 2),
        ({"minAvailable": "50%"}, 1),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "100%"}, 3),
        ({"minAvailable": 3}, 0),
    ],
)
async def test_a_budget_that_nobody_looks_after_is_worked_out_when_asked(api, budget, evicted):
    spec = {"selector": {"matchLabels": {"app": "a"}}, **budget}
    await api.post(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": spec}
    )
    for name in ("a", "b", "c"):
        await api.post(PODS, a_pod(name, metadata={"labels": {"app": "a"}}))
        await api.post(f"{PODS}/{name}/binding", a_binding())
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await api.patch(f"{PODS}/{name}/status", {"status": ready})
    statuses = [(await api.call("POST", f"{PODS}/{name}/eviction", {}))[0] for name in ("a", "b", "c")]
    assert statuses == [201] * evicted + [429] * (3 - evicted)


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def test_a_pod_that_has_ended_counts_for_no_budget(api):
    spec = {"selector": {"matchLabels": {"app": "a"}}, "maxUnavailable": 1}
    await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    for name, status in {
        "a": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        "left": {"phase": "Failed"},
    }.items():
        await api.post(PODS, a_pod(name, metadata={"labels": {"app": "a"}}))
        await api.post(f"{PODS}/{name}/binding", a_binding())
        await api.patch(f"{PODS}/{name}/status", {"status": status})
    assert (await api.call("POST", f"{PODS}/a/eviction", {}))[0] == 201


async def a_guarded_pod(api, *, ready, status=None, **spec):
    await api.post(PODS, a_pod(metadata={"labels": {"app": "a"}}))
    await api.post(f"{PODS}/p/binding", a_binding())
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running", "conditions": conditions}})
    spec = {"selector": {"matchLabels": {"app": "a"}}, **spec}
    await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    told = {"observedGeneration": 1, **(status or {})}
    await api.patch(f"{BUDGETS}/b/status", {"status": told})


@pytest.mark.parametrize(
    ("policy", "healthy", "code"),
    [("AlwaysAllow", 0, 201), ("IfHealthyBudget", 1, 201), ("IfHealthyBudget", 0, 429)],
)
async def test_a_pod_that_is_not_ready_may_be_evicted_where_its_budget_says_so(api, policy, healthy, code):
    status = {"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": 1}
    await a_guarded_pod(api, ready=False, status=status, minAvailable=1, unhealthyPodEvictionPolicy=policy)
    assert (await api.call("POST", f"{PODS}/p/eviction", {}))[0] == code


async def test_a_pod_that_is_going_and_one_that_is_evicted_only_to_see_charge_no_budget(api):
    await a_guarded_pod(api, ready=True, status={"disruptionsAllowed": 2}, minAvailable=1)

    async def left():
        return (await api.get(f"{BUDGETS}/b"))["status"]["disruptionsAllowed"]

    await api.post(f"{PODS}/p/eviction", {"deleteOptions": {"dryRun": ["All"]}})
    assert await left() == 2
    for _ in range(2):
        await api.post(f"{PODS}/p/eviction", {})
        assert await left() == 1


@pytest.mark.parametrize("body", [[], {"deleteOptions": {"dryRun": "All"}}, {"deleteOptions": []}])
async def test_an_eviction_that_cannot_be_read_evicts_nobody(api, body):
    await a_guarded_pod(api, ready=True, status={"disruptionsAllowed": 1}, minAvailable=0)
    status, refused = await api.call("POST", f"{PODS}/p/eviction", body)
    assert (status, refused["reason"]) == (400, "BadRequest")
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p"))["metadata"]


async def test_an_evicted_pod_says_that_it_is_disrupted(api):
    await a_guarded_pod(api, ready=True, status={"disruptionsAllowed": 1}, minAvailable=0)
    stale = {"deleteOptions": {"preconditions": {"resourceVersion": "1"}}}
    assert (await api.call("POST", f"{PODS}/p/eviction", stale))[0] == 409
    before = await api.get(f"{PODS}/p")
    assert [condition["type"] for condition in before["status"]["conditions"]] == ["Ready"]
    fresh = {"resourceVersion": before["metadata"]["resourceVersion"], "uid": before["metadata"]["uid"]}
    await api.patch(f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 1}})
    await api.post(f"{PODS}/p/eviction", {"deleteOptions": {"preconditions": fresh}})
    evicted = await api.get(f"{PODS}/p")
    assert evicted["metadata"]["deletionTimestamp"]
    assert {condition["type"]: condition.get("reason") for condition in evicted["status"]["conditions"]} == {
        "Ready": None,
        "DisruptionTarget": "EvictionByEvictionAPI",
    }


CRON_JOBS = {
    "too few fields": ({"schedule": "bad"}, 'spec.schedule: Invalid value: "bad": expected exactly 5 fields'),
    "no field": ({"schedule": "a b c d !"}, "failed to parse"),
    "no schedule": ({"schedule": ""}, "spec.schedule: Required value"),
    "an unknown time zone": ({"schedule": "@daily", "timeZone": "Mars/Olympus"}, "unknown time zone"),
    "a restart policy": (
        {"schedule": "*/5 0-6 1,15 jan MON"},
        "spec.jobTemplate.spec.template.spec.restartPolicy",
    ),
}


@pytest.mark.parametrize(("spec", "text"), CRON_JOBS.values(), ids=CRON_JOBS.keys())
async def test_a_cron_job_that_could_never_run_is_refused(api, spec, text):
    policy = "Always" if "restartPolicy" in text else "Never"
    template = {"spec": {**a_pod()["spec"], "restartPolicy": policy}}
    body = {"metadata": {"name": "c"}, "spec": {**spec, "jobTemplate": {"spec": {"template": template}}}}
    status, answer = await api.call("POST", "/apis/batch/v1/namespaces/default/cronjobs", body)
    assert status == 422
    assert text in answer["message"]


async def test_the_pods_of_a_stateful_set_may_mount_its_claims(api):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": a_pod()["spec"]}
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template}
    sets = "/apis/apps/v1/namespaces/default/statefulsets"
    status, answer = await api.call("POST", sets, {"metadata": {"name": "s"}, "spec": spec})
    assert status == 422
    assert 'volumeMounts[0].name: Not found: "data"' in answer["message"]
    await api.post(
        sets,
        {
            "metadata": {"name": "s"},
            "spec": {**spec, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
        },
    )


async def test_logs_are_refused_with_a_reason(api):
    await api.post(PODS, a_pod())
    status, answer = await api.call("GET", f"{PODS}/p/log")
    assert status == 501
    assert "runs no containers" in answer["message"]


# --- ephemeral containers ----------------------------------------------------------------------------
DEBUGGED = f"{PODS}/p/ephemeralcontainers"
STRATEGIC = "application/strategic-merge-patch+json"


def debugging(*names, **more):
    added = [{"name": name, "image": "tools", **more} for name in names]
    return {"spec": {"ephemeralContainers": added}}


async def test_containers_are_added_to_a_pod_by_a_subresource_and_not_by_the_pod_itself(api):
    await api.post(PODS, a_pod())
    status, said = await api.call("PATCH", f"{PODS}/p", debugging("d"), kind=STRATEGIC)
    assert (status, said["reason"]) == (422, "Invalid")
    changed = debugging("d") | {"metadata": {"labels": {"not": "mine"}}}
    changed["spec"]["nodeName"] = "elsewhere"
    await api.patch(DEBUGGED, changed, kind=STRATEGIC)
    pod = await api.get(f"{PODS}/p")
    assert [one["name"] for one in pod["spec"]["ephemeralContainers"]] == ["d"]
    assert "nodeName" not in pod["spec"]
    assert await api.get(DEBUGGED) == pod


async def test_a_container_that_was_added_stays_as_it_is(api):
    await api.post(PODS, a_pod())
    pod = await api.patch(DEBUGGED, debugging("one"), kind=STRATEGIC)
    await api.patch(DEBUGGED, debugging("two"), kind=STRATEGIC)
    status, said = await api.call("PATCH", DEBUGGED, debugging("one", command=["x"]), kind=STRATEGIC)
    assert (status, "may not be changed or removed" in said["message"]) == (422, True)
    status, said = await api.call("PUT", DEBUGGED, {**pod, "metadata": {"name": "p"}})
    assert (status, '"two" may not be changed' in said["message"]) == (422, True)


@pytest.mark.parametrize(
    ("container", "said"),
    [
        ({"name": "c"}, "Duplicate value"),
        ({"name": "d", "resources": {"limits": {"nvidia.com/gpu": "1"}}}, "cannot be set for an Ephemeral"),
    ],
)
async def test_added_containers_have_names_and_no_resources_of_their_own(api, container, said):
    await api.post(PODS, a_pod())
    body = {"spec": {"ephemeralContainers": [{"image": "i", **container}]}}
    status, answer = await api.call("PATCH", DEBUGGED, body, kind=STRATEGIC)
    assert (status, said in answer["message"]) == (422, True)
