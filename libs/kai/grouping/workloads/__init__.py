"""One module for each family of workloads. A module's ``KINDS`` are its kinds; nothing else registers it."""
