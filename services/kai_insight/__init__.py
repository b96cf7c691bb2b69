"""The insight service: records what ran and what was decided, and answers questions about it."""
