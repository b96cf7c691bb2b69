"""Cycles that fail, or are only tried, leave nothing behind; what they failed over is set aside."""
