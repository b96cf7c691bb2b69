"""What the engine would do, without a cluster.

``journal``     doing something to a state that is taken back exactly
``changes``     what somebody could change, as data
``lives``       what becomes of pods that are deleted
``fair_share``  shares of queues at one moment
``time_based``  shares over time; inputs of both are those of the original's two simulators
"""
