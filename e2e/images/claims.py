"""What the documentation says of our images, each line asked of a container."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import sbom
from e2e.images.buildah import Buildah, BuildFailed

ROOT: Final = Path(__file__).resolve().parents[2]
_INVENTORY: Final = "/opt/kai/share/kai-scheduler/sbom.cdx.json"
_CLUSTER_SECONDS: Final = 180.0
#: Buildah stops reading soon after a command has ended, and on a busy machine loses what that printed.
_SILENCES: Final = 3
_USER: Final = "10000:10000"
_TOLD_NOTHING: Final = ["python", "-m", "kai_resource_reservation"]
#: Unpacked, of the image of the services and of the one with a cluster in a box.
_MOST_MEBIBYTES: Final = {False: 512, True: 640}
_PLACED: Final = "a pod of half a GPU: Running"


class Broken(Exception):
    """A claim that does not hold; the message says what was found instead."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A container of an image, and what the image was to be made of."""

    buildah: Buildah
    image: str
    container: str
    lock: str
    boxed: bool

    def run(self, *command: str, text: str = "", seconds: float = 60.0) -> str:
        """What a command prints in it: each that is asked for here prints something, however often it is run.

        Raises:
            Broken: it fails, or nothing was heard of it several times.
        """
        try:
            for _ in range(_SILENCES):
                if said := self.buildah.run(self.container, *command, text=text, seconds=seconds):
                    return said
        except BuildFailed as error:
            raise Broken(f"{' '.join(command)}: {error}") from error
        raise Broken(f"{' '.join(command)}: it printed nothing, {_SILENCES} times")


def lists_what_it_is_made_of(subject: Subject) -> str:
    """CycloneDX 1.6: each package of the lock as pinned, the interpreter, Redis, Debian's packages."""
    bom: Mapping[str, Any] = json.loads(subject.run("cat", _INVENTORY))
    if (bom["bomFormat"], bom["specVersion"]) != ("CycloneDX", "1.6"):
        raise Broken(f"{bom['bomFormat']} {bom['specVersion']}")
    listed = {(each["purl"].split("/")[0], each["name"]): each["version"]
              for each in bom["components"] if "purl" in each}  # fmt: skip
    python = {name: version for (kind, name), version in listed.items() if kind == "pkg:pypi"}
    pinned = sbom.pins((ROOT / subject.lock).read_text())
    if wrong := {name: version for name, version in pinned.items() if python.get(name) != version}:
        raise Broken(f"not as the lock says: {wrong}")
    names = {
        each["name"]
        for outer in bom["components"]
        for each in (outer, *outer.get("components", ()))  # packages bring programs
    }
    if missing := {"redis-server", "libc6", "python3.11"} - names:
        raise Broken(f"not listed: {', '.join(sorted(missing))}")
    debian = sum(kind == "pkg:deb" for kind, _ in listed)
    return f"{len(bom['components'])} components, {len(python)} of Python, {debian} of Debian"


def groups_by_a_definition(subject: Subject) -> str:
    """A kind that no code knows becomes a gang of as many pods as its Karta definition says."""
    workload = (Path(__file__).parent / "karta.yaml").read_text()
    found = json.loads(subject.run("kai", "group", "-f", "-", "-o", "json", text=workload))
    shapes = [group["spec"]["subGroups"] for group in found["podGroups"]]
    if shapes != [[{"name": "worker", "minMember": 3}]]:
        raise Broken(f"its subgroups are {shapes}")
    return "PyFlow, worker of 3"


def starts_every_process(subject: Subject) -> str:
    """Each process finds all that it imports."""
    processes = sorted(
        each.parent.name
        for each in (ROOT / "services").glob("kai_*/__main__.py")
        if each.parent.name not in {"kai_cli", "kai_hooks", "kai_resource_reservation", "kai_scaling_pod"}
    )
    for process in processes:
        subject.run("python", "-m", process, "--help")
    return f"{len(processes)} processes"


def is_run_without_rights(subject: Subject) -> str:
    """As a user without rights; told nothing it is a reservation pod's program."""
    config = subject.buildah.settings(subject.image)
    if (user := config.get("User")) != _USER:
        raise Broken(f"its user is {user!r}")
    if not subject.boxed and (command := config.get("Cmd")) != _TOLD_NOTHING:
        raise Broken(f"its command is {command}")
    if (identity := subject.run("id", "-u").strip()) != "10000":
        raise Broken(f"it runs as {identity}")
    return "user 10000"


def has_nothing_else(subject: Subject) -> str:
    """No installer, no sources, and a cluster in a box only where one is asked for."""
    look = (
        "import importlib.util as u, pathlib as p;"
        "print([name for name in ('pip', 'pytest', 'mypy', 'cyclonedx', 'kai_local') if u.find_spec(name)],"
        " [str(each) for each in (p.Path('/src'),) if each.exists()])"
    )
    expected = f"{['kai_local'] if subject.boxed else []} []"
    if (found := subject.run("python", "-c", look).strip()) != expected:
        raise Broken(f"it has {found}")
    return "neither pip nor sources"


def takes_little(subject: Subject) -> str:
    """On a disk, unpacked, with its base."""
    taken = subject.buildah.mebibytes(subject.image)
    if taken > (most := _MOST_MEBIBYTES[subject.boxed]):
        raise Broken(f"it takes {taken:.0f} MiB, more than {most}")
    return f"{taken:.0f} MiB"


def runs_a_cluster(subject: Subject) -> str:
    """A cluster in a box comes up, places a pod, and goes again."""
    script = (Path(__file__).parent / "in_a_box.py").read_text()
    said = subject.run("python", "-", text=script, seconds=_CLUSTER_SECONDS)
    if _PLACED not in said:
        raise Broken(said)
    return _PLACED


class Claim(NamedTuple):
    """What is said, and what asks for it: says what it saw, or raises :class:`Broken`."""

    text: str
    ask: Callable[[Subject], str]
    #: Said of the image with a cluster in a box only.
    boxed: bool = False


CLAIMS: Final = (
    Claim("lists what it is made of", lists_what_it_is_made_of),
    Claim("groups by a Karta definition", groups_by_a_definition),
    Claim("starts every process", starts_every_process),
    Claim("is run without rights", is_run_without_rights),
    Claim("has nothing else", has_nothing_else),
    Claim("takes little", takes_little),
    Claim("runs a cluster in a box", runs_a_cluster, boxed=True),
)
