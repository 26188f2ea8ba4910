"""Q(τ, q): distributions of topologies and of branch lengths."""
