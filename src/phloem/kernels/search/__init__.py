"""Tree search: partial likelihoods, moves, parsimony, distances."""
