"""Runs inside a reservation pod and reports which GPU it was given."""
