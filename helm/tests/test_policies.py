"""Admission policies: there where they can be, for the accounts of this release, wherever it is installed.

What they refuse is tried on a real API server by ``e2e/test_accounts.py``.
"""

import json
import re

import pytest
import yaml

from helm.tests.conftest import CHART, Rendered
from kai.model import names
from kai_binder.plugins import dynamicresources, volumebinding

WITHOUT_CERTIFICATES = {"certificates": {"existing": {"enabled": True, "caBundle": "Q0E="}}}
KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
#: Accounts that write, so that something is to be held.
WRITERS = {"binder", "pod-grouper", "podgroup-controller", "queue-controller", "scheduler"}


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
    objects = Rendered(o for o in yaml.safe_load_all(said.stdout) if o is not None)
    for name, policy in policies(objects).items():
        users = set(re.findall(r"system:serviceaccount:([a-z-]+):", text(policy)))
        assert users <= {"elsewhere", "gpu-holders"}, name
        assert policy["metadata"]["labels"]["app.kubernetes.io/instance"] == "other"
        assert f'namespace == \\"{names.RESERVATION_NAMESPACE}' not in text(policy), name
    assert "system:serviceaccount:gpu-holders:holder" in text(policies(objects)["kai-resource-reservation"])
    assert "'holder'" in text(policies(objects)["kai-binder-reservations"])


def test_the_schedulers_name_is_the_one_that_the_component_goes_by(render):
    objects = render(binder={"args": {"scheduler-name": "mine"}})
    assert "schedulerName == 'mine'" in text(policies(objects)["kai-binder-pods"])
    assert "schedulerName == 'kai-scheduler'" in text(policies(objects)["kai-scheduler-evictions"])


def test_reservation_pods_have_our_image_or_one_that_is_named(render):
    objects = render(
        binder={"resourceReservationImage": {"name": "holder", "tag": "v2"}},
        admissionPolicies={"reservationImages": ["mirror.example.com/holder:v2"]},
    )
    allowed = text(policies(objects)["kai-binder-reservations"])
    assert "registry/local/holder:v2" in allowed
    assert "mirror.example.com/holder:v2" in allowed


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ("kai-pod-grouper-pods", (names.SUBGROUP_LABEL, names.POD_GROUP_ANNOTATION)),
        ("kai-podgroup-controller-podgroups", names.GROUP_TIMESTAMPS),
        ("kai-grants-timestamps", names.GROUP_TIMESTAMPS),
        ("kai-grants-pods", (names.GPU_GROUP_LABEL, names.RECEIVED_RESOURCE_TYPE, names.NUMA_PREDICTED)),
        ("kai-binder-bindings", (names.RECEIVED_RESOURCE_TYPE, names.NUMA_PREDICTED)),
        ("kai-binder-pods", (names.GPU_GROUP_LABEL, names.MULTI_GPU_GROUP_PREFIX, names.NODE_POOL_LABEL)),
        ("kai-binder-claims", (names.RESERVATION_CLAIM_PREFIX,)),
        ("kai-binder-pod-status", (names.POD_BOUND,)),
        (
            "kai-binder-configmaps",
            (
                names.NVIDIA_VISIBLE_DEVICES,
                names.GPU_PORTION,
                names.RUNAI_NUM_OF_GPUS,
                names.CUDA_DEVICE_MEMORY_LIMIT,
            ),
        ),
        ("kai-binder-volumes", (volumebinding.BOUND_BY_CONTROLLER,)),
        ("kai-binder-volume-claims", (volumebinding.SELECTED_NODE,)),
        ("kai-binder-resource-claims", (dynamicresources.EXTENDED_RESOURCE_CLAIM,)),
        ("kai-resource-reservation", (names.RESERVED_GPU,)),
    ],
)
def test_policies_name_what_the_code_writes(objects, policy, named):
    said = text(policies(objects)[policy])
    assert all(name in said for name in named)
