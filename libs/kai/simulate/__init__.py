"""What the engine would do, without a cluster: shares of queues at one moment, and over time.

Inputs are those of the original's two simulators, so that files which people have go on working.
"""
