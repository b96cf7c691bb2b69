"""Finding whom to evict: victims in order, bounds that say no first, scenarios, and their simulation."""
