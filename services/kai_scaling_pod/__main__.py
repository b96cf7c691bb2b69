"""``python -m kai_scaling_pod``: ends with 0."""
