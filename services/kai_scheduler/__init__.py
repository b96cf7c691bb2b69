"""The scheduler process: cluster state in, decisions out."""
