"""What goes wrong with a cluster in a box and is its user's to mend."""

from __future__ import annotations


class ClusterError(Exception):
    """Something about a cluster that its user must know or decide; the message is complete."""
