"""What an installation leaves in a cluster: put there by our own hand, by helm, or for Docker Compose."""
