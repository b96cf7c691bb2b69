"""What helm has run before and after it changes an installation."""
