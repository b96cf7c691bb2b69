"""Simulated kubelets: one process that plays all nodes of an embedded cluster."""
