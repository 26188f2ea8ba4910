"""Node features: Dirichlet energy minimisers, and the layers of graph networks."""
