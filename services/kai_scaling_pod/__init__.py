"""Runs inside a scaling pod: its place is all that was wanted, so it ends at once."""
