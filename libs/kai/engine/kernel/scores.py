"""The one table of weights of the order of nodes: all that is ever added to a node's score.

A weight outweighs the ones before it, but for :data:`NO_GPUS` and :data:`NUMA`, which are equal at most.
Up to :data:`PREFERENCE` the weights of the plugins are the original's; those within a preference are
kube-scheduler's.
"""

from typing import Final

#: ``nodeplacement``: packing gives at most so much, to the node whose free GPUs, or CPU, are the fewest.
#: Spreading gives the part that is free, which is 1 at most.
BINPACK: Final = 9.0
#: ``resourcetype``: a pod without GPUs, on a node without GPUs.
RESOURCE_TYPE: Final = 10.0
#: ``gpusharingorder``: a pod without GPUs keeps off GPUs that are idle. A node without GPUs is the best
#: (together with ``resourcetype``), then one whose GPUs are all taken, then the more quarters are taken.
NO_GPUS: Final = 10 * RESOURCE_TYPE
GPUS_TAKEN: Final = 5 * RESOURCE_TYPE
GPU_QUARTER_TAKEN: Final = RESOURCE_TYPE
#: ``numa``: divided by the number of zones that the pod spans.
NUMA: Final = 100.0
#: ``nodeavailability``: the pod can begin at once.
AVAILABILITY: Final = 1_000.0
#: ``gpusharingorder``: the pod joins a shared GPU.
GPU_SHARING: Final = 10_000.0
#: ``topology``: times the tenth in which the domain comes at the preferred level, 10 for the last ones.
TOPOLOGY: Final = 100_000.0
TOPOLOGY_TENTHS: Final = 10
#: ``podaffinity``: what the pod prefers, from 0 to :data:`MOST`, times the weight of the kind of preference.
PREFERENCE: Final = 1_000_000.0
#: ``nominatednode``: the node was promised to the pod. Ours: in the original a preference may outweigh it.
NOMINATED_NODE: Final = 10_000_000_000.0

#: Kinds of preference, by the weights of kube-scheduler's default profile.
POD_AFFINITY: Final = 2.0
NODE_AFFINITY: Final = 2.0
TOPOLOGY_SPREAD: Final = 2.0
TAINTS: Final = 3.0
#: The best of a kind of preference.
MOST: Final = 100.0
#: What a required term of a pod that runs is worth to others, as the weight of a preferred term of theirs:
#: ``hardPodAffinityWeight`` of kube-scheduler.
REQUIRED_TERM: Final = 1.0
