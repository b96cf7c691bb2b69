"""A cluster as its user sees it: brought up, recorded, found again, and taken down."""
