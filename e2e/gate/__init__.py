"""The gate: what is run before a change is taken, and for how long (``.ci/run``).

Only the standard library of Python 3.11 is used, for there may be nothing else yet.
"""
