"""What is taken out of the packages of an image, and that they work without it."""

import ctypes
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import slim

SITE = Path(sysconfig.get_path("purelib"))


def a_file(path, content=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_what_developers_and_compilers_read_goes_and_what_is_ours_stays(tmp_path):
    gone = [
        a_file(tmp_path / name)
        for name in ("pkg/tests/test_a.py", "pkg/core/tests/deep/b.py", "pkg/a.pyi", "pkg/lib/c.a", "pkg/d.h")
    ]
    stay = [
        a_file(tmp_path / name)
        for name in ("pkg/a.py", "pkg/tests.py", "pkg/d.so", "kai_local/node/nvml.c", "kai/tests/x.py")
    ]
    slim.remove(tmp_path)
    assert [path for path in gone if path.exists()] == []
    assert [path for path in stay if not path.exists()] == []


@pytest.mark.integration
def test_what_is_left_of_the_kubernetes_package_is_what_we_import(tmp_path):
    shutil.copytree(SITE / "kubernetes", tmp_path / "kubernetes")
    slim.remove(tmp_path)
    assert sum(1 for _ in tmp_path.rglob("*.py")) < 40
    look = (
        "import kai.kube.package as ours, kai.kube.client;"
        "import sys; print(sys.modules['kubernetes.aio.config'].__file__);"
        "ours.Configuration(); ours.KubeConfigLoader"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {look}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


@pytest.mark.integration
def test_a_library_without_its_tables_is_smaller_and_loads(tmp_path):
    library = tmp_path / "library.so"
    shutil.copy(next((SITE / "yaml").glob("_yaml*.so")), library)
    before = library.stat().st_size
    slim.strip(library)
    slim.strip(library)
    assert library.stat().st_size < before / 2
    assert ctypes.CDLL(str(library)).PyInit__yaml


def test_what_is_no_library_is_left_alone(tmp_path):
    for content in (b"", b"\x7fELF", b"INPUT(libc.so.6)" * 10):
        file = a_file(tmp_path / "a.so", content)
        slim.strip(file)
        assert file.read_bytes() == content
