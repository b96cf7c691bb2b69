"""Benchmark clusters with checked decisions.

``objects``   builders of API objects
``clusters``  the clusters of the benchmark table
``checks``    what a run must have decided
``run``       measuring
"""
