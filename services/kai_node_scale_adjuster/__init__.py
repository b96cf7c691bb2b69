"""Has a cluster autoscaler add nodes for pods that ask for parts of GPUs, which it does not understand."""
