"""The product's services as processes of this machine, beside whatever cluster they serve."""
