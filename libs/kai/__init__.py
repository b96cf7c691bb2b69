"""A GPU scheduler for Kubernetes: model, engine and the seams to the outside."""
