"""Groups pods into PodGroups by the workload that owns them."""
