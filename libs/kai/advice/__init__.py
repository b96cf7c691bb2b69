"""What surely is a mistake although it may be stored: pure functions from an object and facts to warnings.

Nothing here ever refuses. Each warning has a code, and ``docs/warnings.md`` has a line for each code.
"""
