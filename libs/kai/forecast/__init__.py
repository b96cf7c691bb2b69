"""When work that waits will start: forward simulation over runtimes as they were seen.

``patterns``  what workloads have in common that last equally long
``runs``      how long workloads ran, read from records of pods
``curves``    how long runs last, where some of them still go on
``learned``   which curve a workload has
``starting``  when it starts, over many courses of the cluster
"""
