"""Objects as somebody writes them."""

from typing import Any

Json = dict[str, Any]


def a_pod(
    name: str = "p", *, metadata: Json | None = None, container: Json | None = None, **spec: Any
) -> Json:
    """A pod with one container."""
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec},
    }


def a_refusal(name: str, *, resource: str, group: str = "") -> tuple[Json, Json]:
    """A policy that refuses to delete the object of this name, and its binding."""
    rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["DELETE"]}
    policy = {
        "metadata": {"name": "refusal"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"oldObject.metadata.name != '{name}'"}],
        },
    }
    binding = {
        "metadata": {"name": "refusal"},
        "spec": {"policyName": "refusal", "validationActions": ["Deny"]},
    }
    return policy, binding
