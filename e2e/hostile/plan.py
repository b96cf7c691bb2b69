"""The plan of an attack: from a seed, what the tenant does when, and beside it what another team wants.

Nothing here looks at a cluster: what is deleted was put by the plan, whether or not anybody took it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from e2e.hostile import site
from e2e.hostile.attacks import FORMS, Attack, Tenant
from e2e.manifests import a_pod
from e2e.soak.actions import Action, Change, Put, Remove, subject
from kai.model import names

Json = dict[str, Any]
PROBE_SECONDS: Final = 1.0
#: Objects of his that are there at a time; before more come, the oldest go.
MOST_ALIVE: Final = 1200
#: Processes grow for the first thousand objects or two, and no more (``docs/security.md``).
REHEARSALS: Final = 2
_PROBES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"gpus": 1},
    {"annotations": {names.GPU_FRACTION: "0.5"}},
    {"gpus": 2},
)


def hostile(*, seed: int, seconds: float, objects: int, begin: float = 0.0) -> list[Action]:
    """What the tenant does within so many seconds, by time: so many objects, evenly."""
    tenant = Tenant(random.Random(seed), site.TENANT_NAMESPACES)
    drawn: list[tuple[str, Attack]] = []
    while _size(drawn) < objects:
        drawn.append(tenant.draw(FORMS))
    return _spread(drawn, seconds, begin)


def rehearsal(*, seed: int, seconds: float) -> list[Action]:
    """Each form of attack, some times, so that whoever has to do with it has found its size."""
    tenant = Tenant(random.Random(seed), site.TENANT_NAMESPACES)
    return _spread([tenant.draw([form]) for form in FORMS * REHEARSALS], seconds, 0.0)


def _size(drawn: list[tuple[str, Attack]]) -> int:
    return sum(len(attack.manifests) for _, attack in drawn)


def _spread(drawn: list[tuple[str, Attack]], seconds: float, begin: float) -> list[Action]:
    count = _size(drawn)
    found: list[Action] = []
    alive: list[tuple[str, Attack]] = []
    put = 0
    for what, attack in drawn:
        at = begin + seconds * put / count
        put += len(attack.manifests)
        while alive and sum(len(each.manifests) for _, each in alive) > MOST_ALIVE:
            old, going = alive.pop(0)
            found.append(_removed(at, old, going))
        found += _put(at, what, attack)
        if attack.lasts is None:
            alive.append((what, attack))
    return sorted(found, key=lambda action: action.at)


def _put(at: float, what: str, attack: Attack) -> Iterator[Action]:
    """One action for each object, so that one that is refused stops no other; owned ones go with owners."""
    together = any(manifest["metadata"].get("ownerReferences") for manifest in attack.manifests)
    parts = [attack.manifests] if together else [(manifest,) for manifest in attack.manifests]
    for part in parts:
        yield Action(round(at, 3), what, Put(part), tuple(subject(one) for one in part))
    for change in attack.later:
        told = f"{what}: changed"
        yield Action(
            round(at + change.after, 3),
            told,
            Change(change.manifest, change.patch),
            (subject(change.manifest),),
        )
    if attack.lasts is not None:
        yield _removed(at + attack.lasts, what, attack)


def _removed(at: float, what: str, attack: Attack) -> Action:
    return Action(
        round(at, 3),
        f"{what}: deleted",
        Remove(attack.manifests),
        tuple(dict.fromkeys(subject(one) for one in attack.manifests)),
    )


def team(*, seconds: float) -> list[Action]:
    """What the other team wants: one ordinary pod after the other, for which there is room."""
    found: list[Action] = []
    for number in range(int(seconds / PROBE_SECONDS)):
        pod = a_pod(
            f"probe-{number}",
            site.TEAM_NAMESPACE,
            site.TEAM_QUEUE,
            spec={"restartPolicy": "Never"},
            **_PROBES[number % len(_PROBES)],
        )
        found.append(Action(number * PROBE_SECONDS, "ordinary pod", Put((pod,)), (subject(pod),)))
    return found
