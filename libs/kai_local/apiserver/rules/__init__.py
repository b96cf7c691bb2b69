"""What an object may look like, and what is added to it."""
