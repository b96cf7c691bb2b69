"""Which kinds are served, how they are told to clients, and how their objects are selected."""
