"""Where objects lie: in memory and, for the next start, in a journal."""
