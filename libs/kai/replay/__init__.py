"""Snapshot files: a scheduler's whole input in one zip, to be looked at and decided anew elsewhere."""
