"""From the original to ours and back, on a cluster full of work."""
