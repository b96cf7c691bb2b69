"""Which release this is."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """As the package says."""
    return metadata.version("kai-scheduler")
