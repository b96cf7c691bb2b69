"""The history over HTTP, for whoever may see it."""
