"""A server that answers as insight does, about made-up worlds of any size, the same from the same seed."""
