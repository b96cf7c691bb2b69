"""A cluster under random life and trouble, judged from outside; ``python -m e2e.soak`` runs it.

``plan`` says from a seed what happens when, ``performer`` does it, ``watcher`` looks every second, ``rules``
and ``ending`` say what must not be, and ``report`` tells what was found.
"""
