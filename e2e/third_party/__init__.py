"""Workloads of other projects, of which the cluster has only the kinds: their operators are played here."""
