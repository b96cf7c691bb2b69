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
