"""What the gate runs, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Stage:
    """One command of the gate.

    ``needed``: it is run whatever the time, to its end, and nothing is run after it has failed.
    ``minutes``: what it takes on a quiet machine of 2 cores.
    ``concerns``: beginnings of paths; a stage comes early if a recent commit has changed something there.
    ``aside``: no clock judges it. It is run at low priority while the others run, one such stage after
    another, on what they leave of the machine.
    ``waits``: for most of its time. Such stages are run all at once, when each of them is prepared.
    """

    name: str
    command: tuple[str, ...]
    minutes: float
    needed: bool = False
    aside: bool = False
    waits: bool = False
    concerns: tuple[str, ...] = ()
    #: Run before; where it fails, the stage is left out, for a reason that is no fault of this code.
    preparation: tuple[str, ...] = ()
    #: What to run when the stage has failed; if that succeeds, so has the stage.
    again: tuple[str, ...] = ()
    #: What it and the second try write their findings in. Nothing is tried again where one of them says that
    #: something is broken which must always hold.
    reports: tuple[str, ...] = ()
    #: Whether the tests that changed last are to be named to it, as ``FIRST=``.
    ordered: bool = False


_LIFE: Final = ("make", "soak", "MINUTES=4")
#: Each form of attack comes twice before, so that there is something to compare with: two minutes more.
_SIEGE: Final = ("make", "hostile", "MINUTES=2", "OBJECTS=300")

#: The first makes what all others run in, and is alone.
STAGES: Final = (
    Stage("installation", ("make", "install"), minutes=1, needed=True),
    Stage("tests", ("make", "test"), minutes=20, needed=True),
    Stage(
        "end to end on a real control plane",
        # Three clusters at a time, each of which waits for most of its time.
        ("make", "e2e", "WORKERS=3"),
        minutes=15,
        concerns=(
            "e2e/test_",
            "e2e/accounts/",
            "e2e/conftest.py",
            "e2e/harness.py",
            "libs/kai_local/real/",
            "libs/kai_local/installation/",
            "helm/kai-scheduler/",
        ),
        preparation=("make", "controlplane"),
        # What fails but once among noisy neighbours is told, no more; alone the second time.
        again=("make", "e2e", "ARGS=--last-failed --last-failed-no-failures none"),
        ordered=True,
    ),
    Stage(
        "random life",
        _LIFE,
        minutes=5,
        waits=True,
        concerns=("e2e/soak/", "services/kai_"),
        # A busy machine makes pods late: that fails the gate if found again.
        again=(*_LIFE, "AGAIN=again"),
        reports=("soak-report/report.json", "soak-report/again/report.json"),
    ),
    Stage(
        "a hostile tenant",
        _SIEGE,
        minutes=5,
        waits=True,
        concerns=("e2e/hostile/", "services/kai_", "helm/kai-scheduler/", "libs/kai/model/limits.py"),
        # The chart is installed, by helm.
        preparation=("make", "controlplane", "PROGRAMS=helm"),
        again=(*_SIEGE, "AGAIN=again"),
        reports=("hostile-report/report.json", "hostile-report/again/report.json"),
    ),
    Stage(
        "the guide on real nodes",
        ("make", "guide"),
        minutes=7,
        waits=True,
        concerns=(
            "e2e/guide/",
            "e2e/controlplane/",
            "libs/kai_local/node/",
            "libs/kai_local/real/",
            "services/kai_resource_reservation/",
            "services/kai_binder/",
            "helm/kai-scheduler/",
            "Dockerfile",
        ),
        # Not every machine can: other systems than Debian, users without rights, containers.
        preparation=("make", "guide", "ARGS=--check"),
        again=("make", "guide"),
    ),
    Stage(
        "random worlds",
        ("make", "fuzz", "CASES=50"),
        minutes=2,
        aside=True,
        concerns=("libs/kai/engine/", "libs/kai/snapshot/", "libs/kai/replay/"),
    ),
    Stage(
        "the page in a browser",
        ("make", "browser"),
        minutes=4,
        aside=True,
        concerns=(
            "services/kai_insight/web/",
            "services/kai_insight/page/",
            "services/kai_insight/http/",
            "e2e/browser/",
        ),
        # Not every machine has a browser or the packages of the page, or can install them.
        preparation=("make", "browser", "ARGS=--base"),
        again=("make", "browser"),
    ),
    Stage(
        "images without a daemon",
        ("make", "images"),
        minutes=5,
        aside=True,
        concerns=(
            "Dockerfile",
            ".dockerignore",
            "requirements-",
            "sbom.py",
            "slim.py",
            "pyproject.toml",
            "e2e/images/",
        ),
        # Not every machine can: other systems than Debian, users without rights.
        preparation=("make", "images", "ARGS=--base"),
        again=("make", "images"),
    ),
)
