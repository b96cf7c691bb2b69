"""Which resources are GPUs, and the memory that GPUs have."""

from decimal import Decimal

import pytest

from kai.model.rules.gpus import (
    gpu_memory_mib,
    gpus_of_quota,
    is_gpu,
    is_mig,
    mig_gpus,
    shared_memory_mib,
    whole_gpus,
)


@pytest.mark.parametrize(
    ("resource", "gpu", "mig", "quota"),
    [
        ("nvidia.com/gpu", True, False, 0),
        ("amd.com/gpu", True, False, 0),
        ("example.com/vgpu", True, False, 0),
        ("requests.nvidia.com/gpu", False, False, 0),
        ("nvidia.com/gpu.shared", False, False, 0),
        ("nvidia.com/mig-1g.10gb", False, True, 1),
        ("nvidia.com/mig-3g.40gb", False, True, 3),
        ("nvidia.com/mig-1g.10gb.me", False, True, 1),
        ("nvidia.com/mig-mixed", False, True, 0),
        ("nvidia.com/mig-9999g.10gb", False, True, 0),
        ("cpu", False, False, 0),
    ],
)
def test_resources_are_whole_gpus_parts_of_them_or_neither(resource, gpu, mig, quota):
    assert (is_gpu(resource), is_mig(resource), mig_gpus(resource)) == (gpu, mig, quota)


NVIDIA, AMD = "nvidia.com/gpu.memory", "beta.amd.com/gpu.vram."


@pytest.mark.parametrize(
    ("labels", "shared", "any_maker"),
    [
        ({NVIDIA: "16000"}, 16000, 16000),
        ({NVIDIA: "81559"}, 81559, 81559),
        ({NVIDIA: str(2**20 - 1)}, 2**20 - 1, 2**20 - 1),
        ({NVIDIA: str(16 * 2**30)}, 16384, 16384),
        ({NVIDIA: "big"}, None, None),
        ({NVIDIA: "1_000"}, None, None),
        ({NVIDIA: "0"}, None, None),
        ({NVIDIA: "-5"}, None, None),
        ({NVIDIA: ""}, None, None),
        ({}, None, None),
        ({f"{AMD}64G": "1"}, None, 64000),
        ({f"{AMD}64Gi": "1"}, None, 68719),
        ({f"{AMD}x": "1"}, None, None),
        ({NVIDIA: "16000", f"{AMD}64G": "1"}, 16000, None),
        ({NVIDIA: "0", f"{AMD}64G": "1"}, None, 64000),
    ],
)
def test_memory_of_a_gpu_stands_in_the_labels_of_its_node(labels, shared, any_maker):
    assert shared_memory_mib(labels) == shared
    assert gpu_memory_mib(labels) == any_maker


@pytest.mark.parametrize(
    ("amounts", "whole", "quota"),
    [
        ({}, "0", "0"),
        ({"cpu": "8", "pods": "110"}, "0", "0"),
        ({"nvidia.com/gpu": "2"}, "2", "2"),
        ({"nvidia.com/gpu": "2", "amd.com/gpu": "1"}, "3", "3"),
        ({"nvidia.com/gpu": "0.25"}, "0.25", "0.25"),
        ({"nvidia.com/mig-1g.10gb": "7"}, "0", "7"),
        ({"nvidia.com/mig-3g.40gb": "2", "nvidia.com/gpu": "1"}, "1", "7"),
        ({"nvidia.com/mig-mixed": "5"}, "0", "0"),
        ({"requests.nvidia.com/gpu": "5"}, "0", "0"),
    ],
)
def test_amounts_are_so_many_whole_gpus_and_cost_so_many_of_quota(amounts, whole, quota):
    found = {resource: Decimal(amount) for resource, amount in amounts.items()}
    assert (whole_gpus(found), gpus_of_quota(found)) == (Decimal(whole), Decimal(quota))
