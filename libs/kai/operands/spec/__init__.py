"""``Config`` and ``SchedulingShard`` as they are written: fields, defaults, and what is wrong with them."""
