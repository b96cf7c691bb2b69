"""What the engine would do, without a cluster.

``journal``     doing something to a state that is taken back exactly
``changes``     what somebody could change, as data
``lives``       what becomes of pods that are deleted
``course``      a cluster that lives on from a state, on a clock of its own
``what_if``     what would follow from changes
``naming``      which pod group is meant by what people call a workload
``fair_share``  shares of queues at one moment
``time_based``  shares over time; inputs of both are those of the original's two simulators
"""
