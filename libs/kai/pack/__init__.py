"""How densely strategies pack a trace: a simulation of arrivals on a cluster, without any time.

Pods are drawn from the trace at random (with replacement) and never leave, until the GPUs that they ask for
reach 130 % of the cluster's. The figure of merit is the part of the cluster's GPUs that is allocated when
what has arrived asks for exactly 100 %. Pods that do not fit are lost.
"""
