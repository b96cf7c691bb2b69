"""The cluster as it is now, for those who look at it."""
