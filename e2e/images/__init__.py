"""Our images, built from the Dockerfile without a daemon, and what must hold of them."""
