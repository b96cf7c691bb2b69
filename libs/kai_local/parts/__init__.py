"""What those share who play a part in a cluster: objects, watches, requests, and being a program."""
