"""Real nodes on this machine: containerd, kubelets, kube-proxy and device plugins, in their own namespaces.

What they make (mounts, interfaces, rules) lives in the network and mount namespaces of each node and is gone
with the last process in them. What does not go with processes has one name on the machine, from which it is
found and removed: a bridge, its ports, and cgroups.
"""
