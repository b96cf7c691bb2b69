"""Rules of the domain, each written once: what scheduler, controllers and emulator must not see differently.

A module is one rule and says whose it is. Rules are functions of what objects say, without state and I/O.
What reads millions of times keeps an answer per class, not a rule of its own.
"""
