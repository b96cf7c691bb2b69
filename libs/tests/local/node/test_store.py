"""The images of real nodes, as they are listed."""

from pathlib import Path

import pytest

from kai_local.errors import ClusterError
from kai_local.node import store
from kai_local.node.store import Image, Store
from kai_local.processes.records import ProcessRecord

CTR = Path("/bin/ctr")
LISTED = """\
REF                         TYPE                                       DIGEST       SIZE     PLATFORMS
docker.io/vllm/vllm:latest  application/vnd.oci.image.manifest.v1+json sha256:bde9  70.1 MiB linux/amd64 -
sha256:508fb10409           application/vnd.oci.image.manifest.v1+json sha256:9435  1.4 MiB  linux/amd64 -
"""


def test_images_are_told_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(store, "run", lambda *command: asked.append(command) or LISTED)
    assert Store("kubelet-0", 7, CTR).images() == [
        Image("kubelet-0", "docker.io/vllm/vllm:latest", "70.1 MiB")
    ]
    assert asked[0][:2] == ("nsenter", "--target=7")


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"no file .*image\.tar"):
        Store("kubelet-0", 7, CTR).load(tmp_path / "image.tar")


def test_a_cluster_without_real_nodes_has_no_images() -> None:
    with pytest.raises(ClusterError, match="no real nodes"):
        store.of([ProcessRecord("etcd", "ready", 1)], ctr=CTR)


def test_the_store_of_a_node_is_where_its_room_is() -> None:
    processes = [ProcessRecord("room-1", "ready", 7), ProcessRecord("kubelet-1", "ready", 8)]
    assert store.of(processes, ctr=CTR) == [Store("kubelet-1", 7, CTR)]
