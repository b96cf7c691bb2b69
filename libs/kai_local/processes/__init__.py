"""Programs of this machine: run as one, asked whether they are ready, and known again later."""
