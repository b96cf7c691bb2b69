"""Where the programs of a real control plane are looked for."""

import os
from pathlib import Path

import pytest

from kai_local.real import binaries

MODULES = Path(__file__).resolve().parents[4] / "e2e" / "controlplane"
#: A module of ours that needs no other one.
OUR_OWN = "pause"


def a_program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.touch(mode=0o755)
    return path


def test_assets_come_before_the_path_and_that_before_builds(tmp_path):
    environment = {
        "KUBEBUILDER_ASSETS": str(tmp_path / "assets"),
        "PATH": os.pathsep.join([str(tmp_path / "bin"), str(tmp_path / "sbin")]),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    assert binaries.locate("etcd", environment) is None
    cached = a_program(binaries.built("etcd", environment).parent, "etcd")
    assert binaries.locate("etcd", environment) == cached
    on_path = a_program(tmp_path / "sbin", "etcd")
    assert binaries.locate("etcd", environment) == on_path
    asset = a_program(tmp_path / "assets", "etcd")
    assert binaries.locate("etcd", environment) == asset


def test_what_is_missing_is_named_with_a_remedy(tmp_path):
    environment = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    a_program(tmp_path / "bin", "etcd")
    with pytest.raises(binaries.BinariesMissing) as missing:
        binaries.find(("etcd", "kwok"), environment)
    assert "needs kwok:" in str(missing.value)
    assert "make controlplane" in str(missing.value)


@pytest.mark.parametrize("program", binaries.BUILDS)
def test_builds_are_of_the_versions_that_the_modules_name(program):
    module, version = binaries.BUILDS[program]
    text = (MODULES / module / "go.mod").read_text()
    required = [
        line.split()[-2:] for line in text.splitlines() if line.startswith("require ") and "(" not in line
    ]
    assert [found for _, found in required] == ([] if module == OUR_OWN else [version])


def test_modules_refer_to_no_folder_of_a_machine():
    for path in MODULES.glob("*/go.mod"):
        replaced = [line.split("=>")[1].strip() for line in path.read_text().splitlines() if "=>" in line]
        assert not [target for target in replaced if target.startswith((".", "/"))]
