"""Queue status, metrics and usage; the Queue webhook."""
