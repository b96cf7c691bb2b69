"""Why a piece of work is not running, what would let it run, and in which place of its queue it is.

An answer is about a picture of the cluster, and is found by running the engine on copies of it: nothing of it
is written by hand, and nothing of a running scheduler is touched. No I/O.
"""
