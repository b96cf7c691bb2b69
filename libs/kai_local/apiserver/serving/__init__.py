"""The server as a process: its paths, its answers, and what it holds at the start."""
