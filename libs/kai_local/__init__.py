"""A cluster in a box, for demos and tests."""
