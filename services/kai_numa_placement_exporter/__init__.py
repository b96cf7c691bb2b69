"""Tells of each pod of a node in which NUMA zones its kubelet has put it."""
