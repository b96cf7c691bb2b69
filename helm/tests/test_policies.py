"""Admission policies: there where they can be, for the accounts of this release, wherever it is installed.

What they refuse is tried on an API server by ``e2e/accounts``; here their expressions are
evaluated on what the code writes, and on what it does not.
"""

import contextlib
import json
import re

import msgspec
import pytest

from helm.tests.conftest import CHART, Rendered, documents
from kai.model import names
from kai.model.objects import Pod
from kai.model.rules.volumes import SELECTED_NODE
from kai_binder.plugins import dynamicresources, volumebinding
from kai_binder.settings import BinderSettings
from kai_local.apiserver.schemas import cel
from kai_node_scale_adjuster.objects import waiting_pod
from kai_node_scale_adjuster.scaling_pods import ScalingTemplate

WITHOUT_CERTIFICATES = {"certificates": {"existing": {"enabled": True, "caBundle": "Q0E="}}}
#: Who may repair is asked of the API server's roles; nobody here.
REPAIR = re.compile(r"authorizer\..*?\.allowed\(\)")
KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
#: Accounts that write, so that something is to be held.
WRITERS = {
    *("binder", "kai-operator", "pod-grouper", "podgroup-controller", "queue-controller", "scheduler"),
    "numa-placement-exporter",
}
AUTOSCALING = {"clusterAutoscaling": True}

#: Policies of resource claims and of their status, and what the binder adds to those that it allocates.
CLAIMS = "kai-accounts-resourceclaims-create-update-delete"
USED_CLAIMS = "kai-accounts-resourceclaims-status-update"
PROTECTED = [dynamicresources.FINALIZER]


@pytest.fixture(scope="module")
def render(helm):
    def rendered(*arguments, namespace="kai-scheduler", **values):
        return helm.render(*arguments, values={**WITHOUT_CERTIFICATES, **values}, namespace=namespace)

    return rendered


@pytest.fixture(scope="module")
def objects(render):
    return render()


def policies(objects):
    return objects.of(KINDS[0])


def text(policy):
    return json.dumps(policy["spec"])


def rules_for(spec, account):
    """The rules about an account; all of them where the policy holds no other."""
    named = [rule for rule in spec["validations"] if f':{account}"]' in rule["expression"]]
    return named or spec["validations"]


def concerned(objects, resource, operation, namespace):
    """The policies for which an API server reads such an object, whoever writes it."""
    return {
        name
        for name, policy in policies(objects).items()
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        if resource in rule["resources"]
        and operation in rule["operations"]
        and selects(policy["spec"], namespace)
    }


def selects(spec, namespace):
    """Whether a policy is about a namespace, of which an API server knows the name as a label."""
    selector = spec["matchConstraints"].get("namespaceSelector", {"matchLabels": {}})
    return selector["matchLabels"].get("kubernetes.io/metadata.name", namespace) == namespace


def test_each_policy_is_bound_denies_and_fails_closed(objects):
    bindings = objects.of(KINDS[1])
    assert bindings.keys() == policies(objects).keys()
    for name, policy in policies(objects).items():
        assert bindings[name]["spec"] == {"policyName": name, "validationActions": ["Deny"]}
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert policy["spec"]["validations"], name
        assert all(rule["message"] for rule in policy["spec"]["validations"])


def test_nobody_pays_for_what_holds_our_accounts(objects):
    """A policy about an account looks first whether it is that one."""
    for name, policy in policies(objects).items():
        if name.startswith("kai-grants-"):
            continue
        first = policy["spec"]["matchConditions"][0]["expression"]
        assert first.startswith("request.userInfo.username in ["), name


@pytest.mark.parametrize(
    ("resource", "operation", "namespace", "named"),
    [
        ("pods/status", "UPDATE", "team", {"kai-accounts-pods-status-update", "kai-grants-pods"}),
        ("pods", "UPDATE", "team", {"kai-accounts-pods-update", "kai-grants-pods"}),
        ("pods", "CREATE", "team", {"kai-accounts-pods-create", "kai-grants-pods"}),
        ("leases", "UPDATE", "kube-node-lease", set()),
    ],
)
def test_what_every_kubelet_writes_is_read_for_few_policies(objects, resource, operation, namespace, named):
    """An API server converts the object and its former state anew for each of them."""
    assert concerned(objects, resource, operation, namespace) == named


def test_every_account_that_writes_is_held(objects):
    held = set(
        re.findall(
            r"system:serviceaccount:kai-scheduler:([a-z-]+)", "".join(map(text, policies(objects).values()))
        )
    )
    assert held == WRITERS


def test_policies_can_be_switched_off(render):
    objects = render(admissionPolicies={"enabled": False})
    assert not policies(objects)
    assert not objects.of(KINDS[1])


def test_a_kubernetes_without_the_kind_gets_none(helm):
    old = helm.render("--kube-version", "1.29.5", values=WITHOUT_CERTIFICATES)
    assert not policies(old)
    served = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
    assert policies(
        helm.render("--kube-version", "1.29.5", "--api-versions", served, values=WITHOUT_CERTIFICATES)
    )


def test_accounts_are_those_of_the_release_wherever_it_is(helm):
    said = helm.run(
        *("template", "other", str(CHART), "--namespace", "elsewhere", "--kube-version", "1.34.0"),
        *("--set", "global.resourceReservation.namespace=gpu-holders"),
        *("--set", "global.resourceReservation.serviceAccount=holder"),
    )
    objects = Rendered(documents(said.stdout))
    for name, policy in policies(objects).items():
        users = set(re.findall(r"system:serviceaccount:([a-z-]+):", text(policy)))
        assert users <= {"elsewhere", "gpu-holders"}, name
        assert policy["metadata"]["labels"]["app.kubernetes.io/instance"] == "other"
        assert f'namespace == \\"{names.RESERVATION_NAMESPACE}' not in text(policy), name
    assert "system:serviceaccount:gpu-holders:holder" in text(policies(objects)["kai-accounts-pods-update"])
    assert "'holder'" in text(policies(objects)["kai-accounts-pods-create"])


def test_the_schedulers_name_is_that_of_all_components(render):
    objects = render(**{"global": {"schedulerName": "mine"}})
    for policy in ("kai-accounts-pods-update", "kai-accounts-pods-delete"):
        assert "schedulerName == 'mine'" in text(policies(objects)[policy])
        assert "schedulerName == 'kai-scheduler'" not in text(policies(objects)[policy])


@pytest.mark.parametrize(
    ("policy", "account", "named"),
    [
        ("kai-accounts-pods-update", "pod-grouper", (names.SUBGROUP_LABEL, names.POD_GROUP_ANNOTATION)),
        ("kai-accounts-podgroups-update", "podgroup-controller", names.GROUP_TIMESTAMPS),
        ("kai-grants-timestamps", "", names.GROUP_TIMESTAMPS),
        (
            "kai-grants-pods",
            "",
            (names.GPU_GROUP_LABEL, names.RECEIVED_RESOURCE_TYPE, names.NUMA_PREDICTED, names.NUMA_OBSERVED),
        ),
        ("kai-accounts-pods-binding-create", "binder", (names.RECEIVED_RESOURCE_TYPE, names.NUMA_PREDICTED)),
        (
            "kai-accounts-pods-update",
            "binder",
            (names.GPU_GROUP_LABEL, names.MULTI_GPU_GROUP_PREFIX, names.NODE_POOL_LABEL),
        ),
        ("kai-accounts-pods-update", "binder", (names.RESERVATION_CLAIM_PREFIX,)),
        ("kai-accounts-pods-status-update", "binder", (names.POD_BOUND,)),
        (
            "kai-accounts-configmaps-create-update-delete",
            "binder",
            (
                names.NVIDIA_VISIBLE_DEVICES,
                names.GPU_PORTION,
                names.RUNAI_NUM_OF_GPUS,
                names.CUDA_DEVICE_MEMORY_LIMIT,
            ),
        ),
        ("kai-accounts-persistentvolumes-update", "binder", (volumebinding.BOUND_BY_CONTROLLER,)),
        ("kai-accounts-persistentvolumeclaims-update", "binder", (SELECTED_NODE,)),
        (
            CLAIMS,
            "binder",
            (dynamicresources.EXTENDED_RESOURCE_CLAIM,),
        ),
        ("kai-accounts-pods-update", "kai-accounts-pods-update", (names.RESERVED_GPU,)),
        ("kai-accounts-pods-update", "numa-placement-exporter", (names.NUMA_OBSERVED,)),
    ],
)
def test_policies_name_what_the_code_writes(objects, policy, account, named):
    spec = policies(objects)[policy]["spec"]
    said = json.dumps(rules_for(spec, account) if account else spec)
    assert all(name in said for name in named)


# --- what they say -----------------------------------------------------------------------------
OURS = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "x"}]}
CLAIM = {f"{names.RESERVATION_CLAIM_PREFIX}uid": "9 team/p"}
FRACTION = {"labels": {names.GPU_GROUP_LABEL: "g"}}
SEEN = {names.NUMA_OBSERVED: "[]"}


def a_pod(*, spec=None, status=None, **metadata):
    found = {"metadata": {"name": "p", **metadata}, "spec": {**OURS, **(spec or {})}}
    return found | ({"status": status} if status else {})


def a_device_claim(spec=None, **metadata):
    return {"metadata": {"name": "c", **metadata}, "spec": spec or {"devices": {}}}


def a_used_claim(*users, device="gpu-0"):
    status = {"reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users]}
    if users and device:
        status["allocation"] = {"devices": {"results": [{"device": device}]}}
    return a_device_claim() | {"status": status if users else {}}


def refusals(policy, account, *, new=None, old=None, namespace="team", home="kai-scheduler", **request):
    """The messages against a write, as an API server would find them; None if the policy is not concerned."""
    if not selects(policy, namespace):
        return None
    values = {
        "object": new,
        "oldObject": old,
        "request": {
            "userInfo": {"username": f"system:serviceaccount:{home}:{account}"},
            "namespace": namespace,
            "resource": {"resource": ""},
            **request,
        },
    }
    if not all(cel.evaluate(each["expression"], **values) for each in policy.get("matchConditions", ())):
        return None
    variables = {}
    for each in policy.get("variables", ()):
        with contextlib.suppress(
            cel.CelError
        ):  # one that is not asked for in this case need not have a value
            variables[each["name"]] = cel.evaluate(each["expression"], variables=variables, **values)
    return [
        rule["message"]
        for rule in policy["validations"]
        if not cel.evaluate(REPAIR.sub("false", rule["expression"]), variables=variables, **values)
    ]


@pytest.mark.parametrize("ours", ["kai-scheduler", "kai", "kai-queue", "other"])
def test_leases_of_schedulers_are_none_of_other_processes_however_schedulers_are_called(render, ours):
    found = policies(render(**{"global": {"schedulerName": ours}}))

    def may(policy, account, name):
        lease = {"metadata": {"name": name}}
        said = refusals(found[policy]["spec"], account, new=lease, old=lease, namespace=names.NAMESPACE)
        assert all("only the Leases of schedulers" in message for message in said)
        return not said

    for lease in names.LEASES.values():
        assert not may("kai-accounts-leases-create-update", "scheduler", lease)
        assert not may("kai-accounts-leases-delete", "kai-operator", lease)
    assert may("kai-accounts-leases-create-update", "scheduler", ours)
    assert may("kai-accounts-leases-create-update", "scheduler", f"{ours}-red")
    assert may("kai-accounts-leases-delete", "kai-operator", f"{ours}-red")


@pytest.mark.parametrize("policy", ["kai-grants-pods", "kai-grants-timestamps"])
def test_of_what_anybody_may_write_no_lists_are_made(objects, policy):
    """An API server takes long to make a list of all keys, and anybody may send thousands of them."""
    spec = policies(objects)[policy]["spec"]
    many = {f"k{number}": "v" for number in range(1000)}
    new, old = a_pod(labels=many, annotations=many), a_pod(annotations={f"old-{key}": "v" for key in many})
    assert refusals(spec, "tenant", new=new, old=old) is None
    assert ".filter(" not in text(policies(objects)[policy])


@pytest.mark.parametrize(
    ("policy", "account", "new", "old", "namespace"),
    [
        (
            "kai-accounts-pods-update",
            "pod-grouper",
            a_pod(annotations={names.POD_GROUP_ANNOTATION: "g"}, labels={names.SUBGROUP_LABEL: "s"}),
            a_pod(),
            "team",
        ),
        ("kai-accounts-pods-update", "binder", a_pod(**FRACTION, resourceVersion="2"), a_pod(), "team"),
        ("kai-accounts-pods-update", "binder", a_pod(), a_pod(**FRACTION), "team"),
        (
            "kai-accounts-pods-update",
            "binder",
            a_pod(annotations=CLAIM),
            a_pod(annotations={}),
            names.RESERVATION_NAMESPACE,
        ),
        ("kai-accounts-pods-delete", "binder", None, a_pod(**FRACTION), "team"),
        ("kai-accounts-pods-delete", "scheduler", None, a_pod(), "team"),
        (
            "kai-accounts-pods-status-update",
            "podgroup-controller",
            a_pod(status={"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}),
            a_pod(status={"phase": "Pending"}),
            "team",
        ),
        (USED_CLAIMS, "scheduler", a_used_claim("b"), a_used_claim("a", "b"), "team"),
        (USED_CLAIMS, "scheduler", a_used_claim(), a_used_claim("a"), "team"),
        (
            CLAIMS,
            "binder",
            dynamicresources._extended_manifest(msgspec.convert(a_pod(uid="u"), Pod), {}),
            None,
            "team",
        ),
        (
            CLAIMS,
            "binder",
            a_device_claim(finalizers=["a/b", *PROTECTED], resourceVersion="2"),
            a_device_claim(finalizers=["a/b"]),
            "team",
        ),
        (
            CLAIMS,
            "binder",
            a_device_claim(finalizers=PROTECTED),
            a_device_claim(),
            "team",
        ),
    ],
)
def test_what_a_process_writes_is_let_through(objects, policy, account, new, old, namespace):
    assert refusals(policies(objects)[policy]["spec"], account, new=new, old=old, namespace=namespace) == []


@pytest.mark.parametrize(
    ("policy", "account", "new", "old", "said"),
    [
        (
            "kai-accounts-pods-update",
            "pod-grouper",
            a_pod(spec={"containers": []}),
            a_pod(),
            "may not change fields",
        ),
        (
            "kai-accounts-pods-update",
            "pod-grouper",
            a_pod(labels={"a": "b"}),
            a_pod(),
            "may not change labels",
        ),
        (
            "kai-accounts-pods-update",
            "pod-grouper",
            a_pod(finalizers=["a/b"]),
            a_pod(),
            "may not change metadata",
        ),
        (
            "kai-accounts-pods-update",
            "binder",
            a_pod(annotations={"gpu-fraction": "1"}),
            a_pod(),
            "change annotations",
        ),
        ("kai-accounts-pods-delete", "binder", None, a_pod(), "only pods that share a GPU"),
        (
            "kai-accounts-pods-delete",
            "scheduler",
            None,
            a_pod(spec={"schedulerName": "x"}),
            "whose schedulerName",
        ),
        (
            "kai-accounts-pods-status-update",
            "podgroup-controller",
            a_pod(status={"phase": "Failed"}),
            a_pod(status={"phase": "Pending"}),
            "may not change status",
        ),
        *(
            (
                CLAIMS,
                "binder",
                new,
                old,
                "claims for the extended",
            )
            for new, old in (
                (a_device_claim(finalizers=["a/b"]), a_device_claim()),
                (a_device_claim(), a_device_claim(finalizers=PROTECTED)),
                (
                    a_device_claim(finalizers=PROTECTED, labels={"a": "b"}),
                    a_device_claim(),
                ),
                (a_device_claim(finalizers=PROTECTED), None),
                (None, a_device_claim(finalizers=PROTECTED)),
            )
        ),
        (
            CLAIMS,
            "binder",
            a_device_claim({"devices": {"requests": []}}, finalizers=PROTECTED),
            a_device_claim(),
            "may not change what a claim asks for",
        ),
        *(
            (USED_CLAIMS, "scheduler", new, a_used_claim("a", "b"), said)
            for new, said in (
                (a_used_claim("c"), "may only take users off"),
                (a_used_claim("b", device="gpu-7"), "take devices only from a claim without users"),
                (a_used_claim("b", device=""), "take devices only from a claim without users"),
            )
        ),
        ("kai-grants-pods", "somebody", a_pod(**FRACTION), a_pod(), "only the binder may write them"),
        ("kai-grants-pods", "somebody", a_pod(**FRACTION), None, "only the binder may write them"),
        ("kai-grants-pods", "somebody", a_pod(annotations=SEEN), a_pod(), "and an exporter the last one"),
        ("kai-grants-pods", "somebody", a_pod(), a_pod(annotations=SEEN), "and an exporter the last one"),
        ("kai-grants-pods", "somebody", a_pod(annotations=SEEN), None, "and an exporter the last one"),
    ],
)
def test_what_it_does_not_write_is_refused_in_words(objects, policy, account, new, old, said):
    [message] = refusals(policies(objects)[policy]["spec"], account, new=new, old=old)
    assert said in message


def test_nobody_else_is_held_by_what_holds_an_account(objects):
    changed = {"new": a_pod(labels={"a": "b"}), "old": a_pod()}
    for name, policy in policies(objects).items():
        if not name.startswith("kai-grants-"):
            assert refusals(policy["spec"], "somebody", home="team", **changed) is None, name
    assert refusals(policies(objects)["kai-grants-pods"]["spec"], "somebody", home="team", **changed) is None


def test_the_reservation_pod_that_the_binder_makes_is_let_through_with_all_that_values_say(render):
    objects = render()
    policy = policies(objects)["kai-accounts-pods-create"]["spec"]
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in objects.flags("binder") if "=" in flag)
    settings = BinderSettings.parse([f"--{key}={value}" for key, value in flags.items() if "reserv" in key])
    pod = settings.template.manifest(node="n", group="g", annotations=CLAIM)

    def said(pod):
        return refusals(policy, "binder", new=pod, namespace=pod["metadata"]["namespace"])

    assert said(pod) == []
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert "may not be privileged" in said(pod)[0]


def test_a_reservation_pod_may_sleep_where_devices_are_only_played(objects):
    policy = policies(objects)["kai-accounts-pods-create"]["spec"]
    settings = BinderSettings.parse(["--fake-gpu-nodes=true"])
    pod = settings.template.manifest(node="n", group="g", annotations=CLAIM)
    namespace = names.RESERVATION_NAMESPACE
    assert refusals(policy, "binder", new=pod, namespace=namespace) == []
    pod["spec"]["containers"][0]["args"] = ["sh", "-c", "evil"]
    [message] = refusals(policy, "binder", new=pod, namespace=namespace)
    assert "runs what its image is for" in message


# --- pods that stand for others ----------------------------------------------------------------
@pytest.fixture(scope="module")
def scaled(render):
    return policies(render(**{"global": AUTOSCALING}))


def a_scaling_pod(*, container=None, labels=None, **spec):
    """As the adjuster makes it, but for what is said."""
    waiting = waiting_pod(msgspec.convert(a_pod(uid="u", annotations={names.GPU_FRACTION: "0.5"}), Pod))
    found = ScalingTemplate(image="registry/local/kai-scheduler:0.1.0").manifest(waiting, "team-p")
    found["metadata"]["labels"] |= labels or {}
    found["spec"] |= spec
    found["spec"]["containers"][0] |= container or {}
    return found


def test_an_account_for_scaling_is_held_where_it_is_there(objects, scaled):
    assert not [name for name, policy in policies(objects).items() if ":node-scale-adjuster" in text(policy)]
    accounts = "system:serviceaccount:kai-scheduler:node-scale-adjuster"
    held = {name for name, policy in scaled.items() if accounts in text(policy)}
    assert held == {
        "kai-accounts-events-create-update",
        "kai-accounts-leases-create",
        "kai-accounts-pods-create",
        "kai-accounts-pods-status-update",
    }


def test_the_scaling_pod_that_the_adjuster_makes_is_let_through(scaled):
    policy = scaled["kai-accounts-pods-create"]["spec"]
    assert refusals(policy, "node-scale-adjuster", new=a_scaling_pod()) == []
    mark = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    policy = scaled["kai-accounts-pods-status-update"]["spec"]
    before, after = a_pod(status={"phase": "Pending"}), a_pod(status=mark)
    assert refusals(policy, "node-scale-adjuster", new=after, old=before) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": {"app": "other"}}, "only pods with the label"),
        ({"container": {"image": "evil"}}, "may only have the images"),
        ({"container": {"args": ["sh"]}}, "runs what its image is for"),
        ({"container": {"command": ["sh"]}}, "runs what its image is for"),
        ({"container": {"env": [{"name": "a", "value": "b"}]}}, "reads nothing"),
        ({"container": {"securityContext": {"privileged": True}}}, "may not be privileged"),
        ({"hostNetwork": True}, "network, processes or memory"),
        ({"nodeName": "n1"}, "a scaling pod has no node"),
        ({"schedulerName": "default-scheduler"}, "is for no scheduler to place"),
        ({"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}, "reads nothing"),
        ({"initContainers": [{"name": "x"}]}, "has one container"),
    ],
)
def test_a_scaling_pod_that_is_more_than_that_is_refused_in_words(scaled, changes, said):
    policy = scaled["kai-accounts-pods-create"]["spec"]
    [message] = refusals(policy, "node-scale-adjuster", new=a_scaling_pod(**changes))
    assert said in message


# --- images of both -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def of_images(render):
    """Policies where images have other names than usual, and more are named."""
    return policies(
        render(
            binder={"resourceReservationImage": {"name": "holder", "tag": "v2"}},
            nodescaleadjuster={"scalingPodImage": {"name": "holder", "tag": "v2"}},
            admissionPolicies={"reservationImages": ["mirror:5000/holder:v2", "other/holder@sha256:0123"]},
            **{"global": AUTOSCALING},
        )
    )


def refused_images(policies, account, image):
    """What is said of a pod of this image that an account makes."""
    if account == "binder":
        settings = BinderSettings.parse([f"--resource-reservation-pod-image={image}"])
        pod = settings.template.manifest(node="n", group="g", annotations=CLAIM)
    else:
        pod = a_scaling_pod(container={"image": image})
    namespace = pod["metadata"]["namespace"]
    return refusals(policies["kai-accounts-pods-create"]["spec"], account, new=pod, namespace=namespace)


@pytest.mark.parametrize("account", ["binder", "node-scale-adjuster"])
@pytest.mark.parametrize("named", ["registry/local/holder", "mirror:5000/holder", "other/holder"])
@pytest.mark.parametrize("version", ["", ":v2", ":0.9.0-rc.1", "@sha256:0f1e", ":v1@sha256:0f1e"])
def test_pods_of_ours_have_an_image_of_a_known_repository_and_of_any_release(
    of_images, account, named, version
):
    """While a release is replaced, processes of the former one make pods of their own version."""
    assert refused_images(of_images, account, named + version) == []


@pytest.mark.parametrize("account", ["binder", "node-scale-adjuster"])
@pytest.mark.parametrize(
    "image",
    [
        "evil",
        "holder:v2",
        "registry/local/other:v2",
        "registry/local/holder-of-another:v2",
        "registry/local/holder/another:v2",
        "registry/local/holder:v2/another",
        "registry/local/holder:5000/another:v2",
        "evil/registry/local/holder:v2",
        "registry/local/holder:v2\nevil",
        "mirror:5000:v2",
        "mirrorx5000/holder:v2",
    ],
)
def test_a_pod_of_ours_with_an_image_of_any_other_repository_is_refused(of_images, account, image):
    [message] = refused_images(of_images, account, image)
    assert "images registry/local/holder, mirror:5000/holder, other/holder" in message


# --- who makes all the others ------------------------------------------------------------------
@pytest.fixture(scope="module")
def whole(helm):
    """Everything that an installation may have."""
    more = {"insight": {"enabled": True}, "numaPlacementExporter": {"enabled": True}}
    return helm.render(values={"global": AUTOSCALING, **more})


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        ("Deployment", "kai-accounts-deployments-daemonsets-create-update"),
        ("DaemonSet", "kai-accounts-deployments-daemonsets-create-update"),
        ("Secret", "kai-accounts-secrets-create-update"),
    ],
)
def test_the_operator_may_make_all_that_an_installation_consists_of(whole, kind, policy):
    made = {name: each for name, each in whole.of(kind).items() if name != "kai-operator"}
    assert made
    for name, each in made.items():
        spec = policies(whole)[policy]["spec"]
        assert refusals(spec, "kai-operator", new=each, kind={"kind": kind}) == [], name


@pytest.mark.parametrize("account", ["kai-crd-upgrader", "kai-config-deployer", "kai-operator", "of-others"])
def test_no_program_that_the_operator_makes_acts_by_an_account_of_a_hook_or_its_own(whole, account):
    program = whole.one("Deployment", "binder")
    template = {"spec": {**program["spec"]["template"]["spec"], "serviceAccountName": account}}
    changed = {**program, "spec": {**program["spec"], "template": template}}
    [said] = refusals(
        policies(whole)["kai-accounts-deployments-daemonsets-create-update"]["spec"],
        "kai-operator",
        new=changed,
    )
    assert "accounts of an installation" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metadata": {"name": "of-others"}}, "only the Secrets of an installation"),
        ({"type": "kubernetes.io/service-account-token"}, "no token of an account"),
        ({"type": "bootstrap.kubernetes.io/token"}, "no token of an account"),
    ],
)
def test_the_operator_makes_no_secret_by_which_it_gets_at_others(whole, changes, said):
    secret = {**whole.one("Secret", "binder-grpc-tls-secret"), **changes}
    [message] = refusals(
        policies(whole)["kai-accounts-secrets-create-update"]["spec"], "kai-operator", new=secret
    )
    assert said in message


# --- who tells where pods are ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("node", "annotations", "said"),
    [
        ("n1", SEEN, []),
        ("n2", SEEN, ["of its own node"]),
        ("", SEEN, ["of its own node"]),
        ("n1", {names.NUMA_PREDICTED: "[]"}, ["may not change annotations"]),
    ],
)
def test_an_exporter_tells_one_thing_of_the_pods_of_its_own_node(objects, node, annotations, said):
    policy = policies(objects)["kai-accounts-pods-update"]["spec"]
    spec = {"nodeName": "n1"}
    extra = {"authentication.kubernetes.io/node-name": [node]} if node else {}
    user = {"username": "system:serviceaccount:kai-scheduler:numa-placement-exporter", "extra": extra}
    found = refusals(
        policy,
        "numa-placement-exporter",
        new=a_pod(spec=spec, annotations=annotations),
        old=a_pod(spec=spec),
        userInfo=user,
    )
    assert len(found) == len(said)
    assert all(words in message for words, message in zip(said, found, strict=True))


def test_only_where_there_is_an_exporter_it_may_tell_what_others_may_not(render):
    for enabled in (None, False):
        spec = policies(render(numaPlacementExporter={"enabled": enabled}))["kai-grants-pods"]["spec"]
        found = refusals(spec, "numa-placement-exporter", new=a_pod(annotations=SEEN), old=a_pod())
        assert (found is None) is (enabled is None)


def test_where_there_never_is_an_exporter_it_may_do_nothing(render):
    objects = render(numaPlacementExporter={"enabled": False})
    assert not [
        name for name, policy in policies(objects).items() if ":numa-placement-exporter" in text(policy)
    ]
    assert "kai-numa-placement-exporter" not in objects.of("ClusterRole")
