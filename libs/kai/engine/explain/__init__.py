"""What a cycle found about each pod group, as it is told to people."""
