"""Who comes next, and who goes first: queues, their jobs, their pods, and victims. Nodes do not matter."""
