"""Executes bind decisions."""
