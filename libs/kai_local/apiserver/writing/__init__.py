"""What a write does, to the object and to those that depend on it."""
