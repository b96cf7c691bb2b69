"""A tenant who wants more than he was given, or that others get nothing; and whether they notice."""
