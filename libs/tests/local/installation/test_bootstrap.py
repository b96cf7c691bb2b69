"""Where an installation finds what it puts into a cluster."""

import pytest

from kai.kube.resources import QUEUES
from kai_local.errors import ClusterError
from kai_local.installation.bootstrap import crd_directory, definitions


def test_the_definitions_are_found_beside_the_sources(monkeypatch):
    monkeypatch.delenv("KAI_CRD_DIR", raising=False)
    assert (crd_directory() / "queues.scheduling.run.ai.yaml").exists()


def test_a_folder_without_definitions_is_refused_and_not_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("KAI_CRD_DIR", str(tmp_path))
    with pytest.raises(ClusterError, match="where no custom resource definitions are"):
        crd_directory()


def test_a_folder_with_definitions_is_taken(monkeypatch, tmp_path):
    (tmp_path / "a.yaml").write_text("kind: CustomResourceDefinition")
    monkeypatch.setenv("KAI_CRD_DIR", str(tmp_path))
    assert crd_directory() == tmp_path


def test_a_definition_that_is_not_there_is_told_with_the_folder(monkeypatch, tmp_path):
    (tmp_path / "a.yaml").write_text("kind: CustomResourceDefinition")
    monkeypatch.setenv("KAI_CRD_DIR", str(tmp_path))
    with pytest.raises(ClusterError, match=r"queues\.scheduling\.run\.ai\.yaml is missing"):
        definitions(QUEUES)
