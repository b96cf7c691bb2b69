"""Several attacks at once on one pod and its group."""

from __future__ import annotations

from typing import Any, Final

from e2e.hostile.attacks import binds, claims, grants, groups, numbers
from e2e.hostile.attacks.tenant import Attack, Form, Json, Patched, Tenant

_PARTS: Final = (*groups.FORMS, *numbers.FORMS, *claims.FORMS, *grants.FORMS, *binds.FORMS)
#: Of these there is one each, whatever the attacks say of theirs.
_ONE: Final = ("Pod", "PodGroup")


def several_over_one_pod(tenant: Tenant, name: str, namespace: str) -> Attack:
    """What two or three attacks say of their pods and groups, of one pod in one group; the rest beside it."""
    forms = tenant.rng.sample(_PARTS, tenant.rng.choice((2, 3)))
    attacks = [form(tenant, name, namespace) for form in forms]
    found: dict[tuple[str, str], Json] = {}
    for attack in attacks:
        for manifest in attack.manifests:
            key = _key(name, manifest)
            found[key] = _laid_over(found.get(key, {}), manifest)
    for kind in _ONE:
        if (kind, name) in found:
            found[kind, name]["metadata"]["name"] = name
    later = tuple(
        Patched(each.after, found[_key(name, each.manifest)], each.patch)
        for attack in attacks
        for each in attack.later
    )
    # Groups are there before their pods, and so is what pods name.
    return Attack(tuple(sorted(found.values(), key=lambda body: body["kind"] == "Pod")), later)


def _key(name: str, manifest: Json) -> tuple[str, str]:
    kind = manifest["kind"]
    return kind, name if kind in _ONE else manifest["metadata"]["name"]


def _laid_over(lower: Any, upper: Any, field: str = "") -> Any:
    """Both, and of what only one can say the upper; the containers of one are those of the other."""
    if isinstance(lower, dict) and isinstance(upper, dict):
        both = {key: _laid_over(lower.get(key), value, key) for key, value in upper.items()}
        return {**lower, **both}
    if isinstance(lower, list) and isinstance(upper, list):
        if field == "containers":
            shared = [_laid_over(*pair) for pair in zip(lower, upper, strict=False)]
            return shared + max(lower, upper, key=len)[len(shared) :]
        return lower + [each for each in upper if each not in lower]
    return upper


FORMS: Final[tuple[Form, ...]] = (several_over_one_pod,)
