"""Grouping of a file of manifests, without a cluster."""
