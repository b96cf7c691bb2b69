"""The one table of weights of the order of nodes: what comes later outweighs all that comes before.

Up to :data:`NOMINATED_NODE` the weights are the original's.
"""

from typing import Final

#: Packing: at most so much for the node whose free GPUs, or CPU, are the fewest.
BINPACK: Final = 9.0
#: A pod without GPUs, on a node without GPUs.
RESOURCE_TYPE: Final = 10.0
#: Divided by the number of NUMA zones that the pod spans.
NUMA: Final = 100.0
#: The pod can begin at once.
AVAILABILITY: Final = 1_000.0
#: The pod joins a shared GPU.
GPU_SHARING: Final = 10_000.0
#: In tenths, by the place of the domain at the preferred topology level.
TOPOLOGY: Final = 100_000.0
#: What the pod prefers, from 0 to 100, times the weight of the kind of preference.
PREFERENCE: Final = 1_000_000.0
#: The node was promised to the pod. In the original a preference may outweigh the promise.
NOMINATED_NODE: Final = 10_000_000_000.0

#: Kinds of preference, by the weights of kube-scheduler's default profile.
POD_AFFINITY: Final = 2.0
NODE_AFFINITY: Final = 2.0
TOPOLOGY_SPREAD: Final = 2.0
TAINTS: Final = 3.0
#: The best of a kind of preference.
MOST: Final = 100.0
