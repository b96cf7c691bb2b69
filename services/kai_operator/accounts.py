"""Pods whose account was made anew: the tokens that they hold are of one that is gone.

A kubelet replaces tokens shortly before they end, and asks nobody whether they are still good. So a pod is
refused for up to an hour after its account was deleted and healed, unless it is replaced as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kai.kube.resources import DAEMON_SETS, DEPLOYMENTS, SERVICE_ACCOUNTS
from kai_operator.kinds import Manifest, Ref, ref_of

#: On pod templates: the account that was made after what runs the pods.
ACCOUNT: Final = "kai.scheduler/account"
_RUN_PODS: Final = (DEPLOYMENTS.kind, DAEMON_SETS.kind)


def with_accounts(objects: Iterable[Manifest], there: Callable[[Ref], Manifest | None]) -> list[Manifest]:
    """The same objects, but that pods are replaced where their account is younger than what runs them.

    ``there`` gives an object as it is now. While an account is missing nothing is changed.
    """
    return [_with_account(each, there) if each["kind"] in _RUN_PODS else each for each in objects]


def _with_account(wanted: Manifest, there: Callable[[Ref], Manifest | None]) -> Manifest:
    live, template = there(ref_of(wanted)), wanted["spec"]["template"]
    if live is None or template["spec"].get("automountServiceAccountToken") is False:
        return wanted
    name = template["spec"].get("serviceAccountName", "default")
    account = there(Ref(SERVICE_ACCOUNTS.kind, wanted["metadata"].get("namespace", ""), name))
    if account is None:
        said = _annotations(live["spec"]["template"]).get(ACCOUNT)
    else:
        said = account["metadata"]["uid"] if _made(account) > _made(live) else None
    if said is None:
        return wanted
    meta = template.get("metadata") or {}
    annotated = {**meta, "annotations": {**_annotations(template), ACCOUNT: said}}
    return {**wanted, "spec": {**wanted["spec"], "template": {**template, "metadata": annotated}}}


def _annotations(template: Manifest) -> dict[str, Any]:
    return (template.get("metadata") or {}).get("annotations") or {}


def _made(manifest: Manifest) -> str:
    """When, to the second; of two such times the later one is the greater text."""
    return str(manifest["metadata"].get("creationTimestamp", ""))
