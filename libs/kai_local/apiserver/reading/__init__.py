"""What readers get: objects, lists, watches, and the tables that kubectl prints."""
