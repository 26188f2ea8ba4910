"""Slow, obvious twins of what phloem computes fast."""
