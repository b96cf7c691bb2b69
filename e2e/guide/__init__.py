"""The guide of an administrator, played on real nodes: installation, shared GPUs, and what may go wrong."""
