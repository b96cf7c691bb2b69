"""What a call asks for: its path, options and body."""
