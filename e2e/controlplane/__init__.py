"""Go modules of a real control plane, and what builds them."""
