"""Vectors over nodes: what a scheduling class may use, and where it is best placed."""
