"""Recorded scheduling behaviour, run against the engine.

``scenario``  one scenario: objects, rounds, expectations
``compare``   what a session shows against what is expected
``runner``    a folder of scenarios and fair-share divisions
"""
