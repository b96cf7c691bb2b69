"""Who made a pod group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.model import names
from kai.model.objects import ObjectMeta, OwnerReference, PodGroup, PodGroupSpec
from kai.model.rules.top_owner import TopOwner, top_owner

REPLICA = OwnerReference(api_version="v1", kind="Pod", name="web-1", uid="u")
JOB = OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="j")
CONTROLLER = OwnerReference(api_version="batch/v1", kind="CronJob", name="nightly", uid="c", controller=True)
NOTE = "name: web\nuid: 1\ngroup: apps\nversion: v1\nkind: Deployment\n"


def made_by(*owners, note=""):
    annotations = {names.TOP_OWNER_METADATA: note} if note else None
    meta = ObjectMeta(name="g", namespace="n", owner_references=list(owners), annotations=annotations)
    return PodGroup(metadata=meta, spec=PodGroupSpec())


@pytest.mark.parametrize(
    ("group", "owner"),
    [
        (None, None),
        (made_by(), None),
        (made_by(JOB), TopOwner("Job", "train")),
        (made_by(JOB, CONTROLLER), TopOwner("CronJob", "nightly")),
        (made_by(REPLICA), TopOwner("Pod", "web-1")),
        (made_by(REPLICA, note=NOTE), TopOwner("Deployment", "web")),
        (made_by(REPLICA, note=NOTE.replace("web", '"1"')), TopOwner("Deployment", "1")),
        (made_by(REPLICA, note="kind: Deployment\n"), TopOwner("Pod", "web-1")),
        (made_by(REPLICA, note=NOTE + "x: y" * 1000), TopOwner("Pod", "web-1")),
        (made_by(JOB, note=NOTE), TopOwner("Job", "train")),
    ],
)
def test_it_is_the_controller_and_of_a_deployments_pod_the_deployment(group, owner):
    assert top_owner(group) == owner


@given(st.text(st.sampled_from('kindame: "\n\\{[1x'), max_size=60))
def test_whatever_was_noted_an_owner_has_a_name(note):
    owner = top_owner(made_by(REPLICA, note=note))
    assert owner is not None
    assert owner.kind
    assert owner.name
