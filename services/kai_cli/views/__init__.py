"""What the command line shows, as pure functions of API objects."""
