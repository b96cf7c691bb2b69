"""Operators of other projects, played: their kinds are served, and their workloads get pods.

``projects``     which there are, and their kinds
``definitions``  the kinds as an API server is told of them
``playing``      what is made of workloads, and made again where it goes
"""
