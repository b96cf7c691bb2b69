"""Plugins that look at single tasks: topology, affinity, ports, volumes, claims, NUMA zones."""
