"""A control plane of our own: an API server, and one process for controllers and nodes."""
