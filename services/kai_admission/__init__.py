"""Admission: completes pods that share a GPU, refuses pods and topologies that make no sense."""
