"""Subsplit networks and branch-length distributions."""
