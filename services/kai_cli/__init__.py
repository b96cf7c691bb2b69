"""The command line ``kai``."""
