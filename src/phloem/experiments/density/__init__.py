"""The density experiment: all variants against a known target over all topologies of a few taxa."""
