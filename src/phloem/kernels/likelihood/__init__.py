"""Likelihoods of trees with all gradients."""
