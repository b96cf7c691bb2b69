"""Answers to "why": exact counts of nodes by reason, and what would change the outcome."""
