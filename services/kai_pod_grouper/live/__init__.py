"""Grouping in a cluster: watches, reads and writes."""
