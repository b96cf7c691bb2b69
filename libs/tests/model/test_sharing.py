import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.model import sharing
from kai.model.objects import Container, ObjectMeta, OwnerReference, Pod, PodSpec
from kai.model.sharing import ContainerPosition

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def a_pod(name="demo", *, generate_name="", owner="", annotations=None, init=(), containers=("main",)):
    owners = [OwnerReference(kind="ReplicaSet", name=owner)] if owner else None
    return Pod(
        metadata=ObjectMeta(
            name=name, generate_name=generate_name, owner_references=owners, annotations=annotations
        ),
        spec=PodSpec(
            containers=[Container(name=n) for n in containers],
            init_containers=[Container(name=n) for n in init],
        ),
    )


@pytest.mark.parametrize(
    ("pod", "prefix"),
    [
        (a_pod("demo"), "demo-abc1234-shared-gpu"),
        (a_pod("demo", owner="demo-7d9f"), "demo-7d9f-abc1234-shared-gpu"),
        (a_pod("", generate_name="web-"), "web-abc1234-shared-gpu"),
        (a_pod("", generate_name="", owner=""), "pod-abc1234-shared-gpu"),
        (a_pod("a.b.c"), "a.b.c-abc1234-shared-gpu"),
        (a_pod("x" * 80), "x" * 33 + "-abc1234-shared-gpu"),
        (a_pod("x" * 32 + ".-yyy"), "x" * 32 + "-abc1234-shared-gpu"),
        (a_pod("demo", owner="Upper"), "upper-abc1234-shared-gpu"),
    ],
    ids=["pod", "owner", "generated", "nameless", "dotted", "long", "cut at a dot", "upper case"],
)
def test_config_maps_are_named_after_owner_or_pod(pod, prefix):
    assert sharing.config_map_prefix(pod, ContainerPosition(0), "abc1234") == prefix


def test_containers_have_config_maps_of_their_own():
    assert sharing.capabilities_config_map("p-shared-gpu", ContainerPosition(0)) == "p-shared-gpu-0"
    assert (
        sharing.capabilities_config_map("p-shared-gpu", ContainerPosition(1, init=True)) == "p-shared-gpu-i1"
    )
    assert sharing.environment_config_map("p-shared-gpu", ContainerPosition(0)) == "p-shared-gpu-0-evar"


@pytest.mark.parametrize(
    ("config_map", "volume"),
    [("p-shared-gpu-0", "p-shared-gpu-0-vol"), ("a.b_C-0", "a-b-c-0-vol"), ("..x", "x-vol")],
)
def test_volumes_are_named_after_config_maps(config_map, volume):
    assert sharing.volume_name(config_map) == volume


@given(
    name=st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda text: len(text) <= 253),
    index=st.integers(0, 120),
    init=st.booleans(),
)
def test_every_name_is_one_that_kubernetes_takes(name, index, init):
    position = ContainerPosition(index, init=init)
    prefix = sharing.config_map_prefix(a_pod(name), position, "0a1b2c3")
    for config_map in (
        sharing.capabilities_config_map(prefix, position),
        sharing.environment_config_map(prefix, position),
    ):
        assert SUBDOMAIN.fullmatch(config_map)
        assert len(config_map) <= 63
    volume = sharing.volume_name(sharing.capabilities_config_map(prefix, position))
    assert LABEL.fullmatch(volume)
    assert len(volume) <= 63


def test_the_first_regular_container_gets_the_part_unless_another_is_named():
    assert sharing.fraction_container(a_pod(init=["main"], containers=["a", "b"])) == ContainerPosition(0)
    named = a_pod(containers=["a", "b"], annotations={"gpu-fraction-container-name": "b"})
    assert sharing.fraction_container(named) == ContainerPosition(1)


def test_init_containers_are_searched_first():
    pod = a_pod(init=["x", "b"], containers=["b"], annotations={"gpu-fraction-container-name": "b"})
    assert sharing.fraction_container(pod) == ContainerPosition(1, init=True)


def test_a_container_that_does_not_exist_is_an_error_that_lists_those_that_do():
    pod = a_pod(init=["setup"], annotations={"gpu-fraction-container-name": "gone"})
    with pytest.raises(sharing.NoSuchContainer, match=r'"gone".*setup, main'):
        sharing.fraction_container(pod)


def test_any_value_of_either_annotation_asks_for_a_part():
    assert sharing.asks_for_fraction(a_pod(annotations={"gpu-fraction": ""}))
    assert sharing.asks_for_fraction(a_pod(annotations={"gpu-memory": "x"}))
    assert not sharing.asks_for_fraction(a_pod())
