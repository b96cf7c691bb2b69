"""Pieces of pod manifests that a Config takes over as they are written, with all their fields."""

from __future__ import annotations

from typing import Any, Final

from kai.operands.spec.kinds import Shaped

_TEXTS: Final = ["string"]
_LABELS: Final = {"*": "string"}
_REQUIREMENT: Final = {"key": "string", "operator": "string", "values": _TEXTS}
_SELECTOR: Final = {"matchLabels": _LABELS, "matchExpressions": [_REQUIREMENT]}

# --- where pods go -----------------------------------------------------------------------------
_NODE_TERM: Final = {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
_POD_TERM: Final = {
    "labelSelector": _SELECTOR,
    "matchLabelKeys": _TEXTS,
    "mismatchLabelKeys": _TEXTS,
    "namespaces": _TEXTS,
    "namespaceSelector": _SELECTOR,
    "topologyKey": "string",
}
_POD_AFFINITY: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": "integer", "podAffinityTerm": _POD_TERM}],
}
AFFINITY: Final = Shaped(
    {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": "integer", "preference": _NODE_TERM}
            ],
        },
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)
TOLERATIONS: Final = Shaped(
    [
        {
            "key": "string",
            "operator": "string",
            "value": "string",
            "effect": "string",
            "tolerationSeconds": "integer",
        }
    ]
)

# --- what pods may do --------------------------------------------------------------------------
_PROFILE: Final = {"type": "string", "localhostProfile": "string"}
_SELINUX: Final = {"level": "string", "role": "string", "type": "string", "user": "string"}
_WINDOWS: Final = {
    "gmsaCredentialSpec": "string",
    "gmsaCredentialSpecName": "string",
    "hostProcess": "boolean",
    "runAsUserName": "string",
}
_USERS: Final[dict[str, Any]] = {
    "runAsUser": "integer",
    "runAsGroup": "integer",
    "runAsNonRoot": "boolean",
    "seccompProfile": _PROFILE,
    "appArmorProfile": _PROFILE,
    "seLinuxOptions": _SELINUX,
    "windowsOptions": _WINDOWS,
}
CONTAINER_SECURITY: Final = Shaped(
    {
        **_USERS,
        "allowPrivilegeEscalation": "boolean",
        "capabilities": {"add": _TEXTS, "drop": _TEXTS},
        "privileged": "boolean",
        "procMount": "string",
        "readOnlyRootFilesystem": "boolean",
    }
)
POD_SECURITY: Final = Shaped(
    {
        **_USERS,
        "fsGroup": "integer",
        "fsGroupChangePolicy": "string",
        "seLinuxChangePolicy": "string",
        "supplementalGroups": ["integer"],
        "supplementalGroupsPolicy": "string",
        "sysctls": [{"name": "string", "value": "string"}],
    }
)

# --- how pods grow -----------------------------------------------------------------------------
_AMOUNTS: Final = {"*": "number or string"}
UPDATE_POLICY: Final = Shaped(
    {
        "updateMode": "string",
        "minReplicas": "integer",
        "evictionRequirements": [{"resources": _TEXTS, "changeRequirement": "string"}],
    }
)
RESOURCE_POLICY: Final = Shaped(
    {
        "containerPolicies": [
            {
                "containerName": "string",
                "mode": "string",
                "minAllowed": _AMOUNTS,
                "maxAllowed": _AMOUNTS,
                "controlledResources": _TEXTS,
                "controlledValues": "string",
            }
        ]
    }
)

# --- who connects ------------------------------------------------------------------------------
_PEER: Final = {
    "ipBlock": {"cidr": "string", "except": _TEXTS},
    "namespaceSelector": _SELECTOR,
    "podSelector": _SELECTOR,
}
PEERS: Final = Shaped([_PEER])
EGRESS: Final = Shaped(
    [
        {
            "ports": [{"protocol": "string", "port": "number or name", "endPort": "integer"}],
            "to": [_PEER],
        }
    ]
)
